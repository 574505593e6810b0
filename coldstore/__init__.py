"""The whole past of a queue: checksummed Parquet blocks and their metadata on an object store.

    store          queues under one root: create, list, open, verify
    start_points   where a subscriber, a seek or a replay begins ("beginning", "ago:7d", …)
    compute        pyarrow.compute, imported when it is first used
    shared/        the words of the whole product: batches, errors, limits, clock, chance, small mechanisms
    layout/        names and documents on object storage
    block/         one Parquet block: check, encode, fetch, read
    history/       the list of a queue's blocks, in memory and rolled up
    queue/         one queue: commit, merge, sweep, verify, import
    large/         large objects: notes, upload, download, sweep
    objects/       object stores: the port, and memory, local files and S3 behind it

The format outlives every process, so this package owns what everything else is written in. It imports nothing
of the packages above it. Rooms import each other from the bottom of this list to the top, never in a circle:
queue → history → block, large → objects → layout → shared.
"""
