"""HTTP: an ASGI application over any `Store`, and the listener that embeds it in a server.

    settings       where to listen, and to whom to listen
    listener       the socket and its connections, from start to stop
    connection     one connection: limits of size and time
    direct         large bodies past the event loop: threads that receive them, and send replies
    application    from a request to its reply: who asks, which route, which error
    access         keys: one check for all routes, and their own routes
    routing        the table of routes
    request        a request as routes see it
    replies        what routes answer
    problems       errors as RFC 9457 has them
    strict_json    JSON that is accepted as it is, or refused with the place
    backend        the store, and what gRPC and HTTP share
    system         health, metrics, documentation
    openapi        /openapi.json, from the routes and their types
    serving        puts all of it together
    v1/            REST
    large/         … for large objects: streamed bodies, ranges
    priority_socket/  /connect/: the protocol of a small priority queue server
    websocket/     connections that leave HTTP for WebSocket
    sqew/          the interface of Sqew, at its own paths
    pages/         the documentation page

A request enters as ASGI events, a reply leaves as such; the store gets the same values as from gRPC.

Invariants:
- A request that is wrong is refused before anything is written, with a problem that says what to do.
- The bytes of an element are never parsed and written again.
- Memory is bounded: headers, bodies, connections and replies that nobody reads have limits.
- Nothing here is imported where HTTP is off, but for `settings`.
"""
