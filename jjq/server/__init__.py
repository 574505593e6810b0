"""The gRPC server: any `Store` behind the service jjq.v1.Jjq.

    server          starts and stops it: services, health, metrics
    settings        values, checked once, and what they mean to gRPC
    handlers        around every method: errors become statuses, figures are counted, the unforeseen is logged
    unary           verbs with one request and one reply
    streams/        PushStream, PopStream, Subscribe, Read
    groups/         worker groups: their verbs, and the stream Work
    open_streams    the Subscribe streams by subscriber, so that a seek finds them
    operator        jjq.v1.Operator, for clients and for other nodes
    cluster_port    what a server of a cluster says about who owns a queue
    loop_steps      long work on the event loop, in steps, and short work of thousands
    incoming        how many messages of one connection are received at a time
    outgoing        one budget for messages that clients have not read yet
    memory          gives the memory of large messages back to the system
    meter, metrics  figures of one method, and all figures for Prometheus
    stalls          how late the event loop is, for Prometheus, and what keeps it from being late
    shutdown        what waits is broken off at once, what works is finished

Messages enter as bytes and leave as bytes; jjq.wire decodes and encodes them. The store gets `Push` values and
record batches, and knows nothing of gRPC.

Invariants:
- A request that is wrong is refused before anything is written.
- A push that was given to the store is finished, also if its client has gone or the server stops.
- Offsets follow the order in which the pushes of a stream came.
"""
