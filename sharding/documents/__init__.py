"""The documents on object storage by which nodes agree.

    shards        queues/<name>/shards.json: who owns a queue, at which epoch, and who serves which range
    queue_state   queues/<name>/state/: subscribers and producers at the moment when a queue changed hands
    tenure        cluster/tenures/<node>.json: which process is the node, and whether it still is
    holder        the part of a tenure that names the process and its data directory
    node_info     cluster/nodes/<id>.json: address, load, draining
    load          the load of a shard, and loads made comparable
    liveness      which of several documents still change: the rule by which a node is dead

Enters: an object store, and values. Leaves: values, or `DataLoss` that names the damaged key.

Invariants. Documents are changed by compare-and-swap only. Each has a format number and a checksum. No two versions of
a document are equal, since S3 tells them apart by their content. No document has a time that another machine relies
on.
"""
