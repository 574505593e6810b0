"""Names and documents on object storage.

    paths           every object key: built and parsed here, nowhere else
    sealed_json     small JSON documents with a checksum, in exactly one spelling
    queue_settings  `queue.json`: what a queue is; its put-if-absent creates the queue
    ledger          the rows of a worker group's ledger: their fields and events
    metadata        `meta/….json`: what a block is; its put-if-absent commits the block

Enters: bytes that were read, and values to write. Leaves: keys, bytes, checked values; `DataLoss` that names
the key for anything damaged. Invariants: encode and decode check the same rules; a format newer than ours is
refused unchanged.
"""
