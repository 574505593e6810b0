"""Calls that stay open: a client sends or receives many messages in one call.

    push_stream     PushStream: many pushes in flight, results in the order of the requests
    pop_stream      PopStream: many pops in flight, results as they are ready
    duplex          streams that one coroutine reads and another answers, as the two above and Work are
    subscribe       Subscribe, with credit (flow control by the client) and confirmations
    read            Read: a range of a queue
    large           UploadObject and DownloadObject: large objects, in pieces
    query           Query: the rows of a query in SQL

Messages of one call enter, as bytes, through `jjq.server.handlers`; messages of the same call leave the same way. What
a client has not read counts in the budget of `jjq.server.outgoing`.

Invariants:
- A stream never holds more in memory than its limits, however slowly its client reads.
- A stream that ends, for whatever reason, can be resumed by the client where it was.
"""
