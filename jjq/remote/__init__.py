"""A `Store` that is somewhere else: the client of the gRPC service.

    store            `RemoteStore`: the verbs of `Store`; each picks one of the ways below
    groups/          `RemoteWorkStore`: the same with the verbs of worker groups, and their sessions
    operate/         the verbs for operators of queues, servers, keys and clusters
    settings         time-outs, TLS, limits
    channels         addresses, connections, and which server owns which queue
    call_socket      single calls and subscriptions over a WebSocket, where a server has one
    thread/          the same for a client that blocks, in the thread that calls
    socket_finder    finds out whether it has, and connects
    contact          why a server cannot be reached, found out at first contact
    retry            calls with one reply; which errors allow another attempt, and when
    coalesce         requests made at the same time become one: pushes here, takes and acks in groups/
    multiplexer      numbered requests on a stream, with a policy that fails or sends again
    streams          plain pushes and pops over streams: nothing is sent twice
    ordered_pushes   pushes with producer and sequence: in order, sent again until answered
    replay           Read, resumed at the same offset after a broken connection
    large/           large objects: uploads and downloads resumed where they were, their bytes over HTTP
    subscription     Subscribe, resumed in the same way, with confirmations
    queries          SQL: asked of a server, or run here with the tails from a server
    peer_store       the store of another node: the same ways, and pushes passed on unread

Verbs enter with record batches; messages of jjq.wire leave. Results and errors come back as those of a local
store: coldstore.shared.results and coldstore.shared.errors.

Invariants:
- A verb that must not happen twice is sent once. If its answer is lost, the error says that the outcome is unknown.
- Pushes with an identity reach a queue in their order, however often they are sent.
- `Unavailable.sent` is false only if no server can have seen the request.
- Nothing here imports sharding but operate/operator, queries and peer_store: Spark uses the rest.
"""
