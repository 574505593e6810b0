"""WebSocket on the port of HTTP: connections that leave HTTP, and go on in frames.

    upgrade        the routes of WebSockets, and how a connection leaves HTTP for one
    socket         one connection: whole messages in and out, limits, back-pressure, its end
    calls          /v1/ws: the methods of gRPC over a WebSocket; /v1/peer: the same between nodes
    open_sockets   all connections of a server: how many, their figures, their end when the server stops

A route has a factory that looks at the request and gives a `WebSocket`, or raises what refuses it. Frames are
parsed by picows; what it gives is put together to messages here, and a `WebSocket` sees nothing else.

Invariants:
- A connection that breaks the rules is closed with the code that says which one: 1002, 1003, 1007, 1008, 1009.
- Memory is bounded: frames, messages, connections; what a client does not read counts in the budget of all
  (jjq/server/outgoing.py), and while it does not read, nothing is read from it.
- A client that does not answer pings is closed.
- A server that stops finishes what is under way, then closes with 1001.
"""
