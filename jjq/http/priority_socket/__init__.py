"""`/connect/` and `/status/<queue>`: the protocol of a small priority queue server (glovebox), served by worker groups.

    frames      requests and replies, and their JSON form
    bincode     their binary form
    queues      a queue of the protocol is a queue of jjq with one group
    session     one client: its socket, what waits to be sent to it, its work
    posts       posts on their way into the queue
    notices     what happens to posts later, read from the ledger of the group
    requests    what each request does
    sessions    all clients: by their id, also while they are away
    door        the routes, and the WebSocket of each client

Frames enter by `door`, replies leave by `session`. docs/connect.md describes the protocol for its users.

Invariants:
- A frame is answered with an error or begun, never ignored.
- A message that was posted is an element of the log for ever; finishing it changes only the group.
- Memory is bounded: posts that wait, fetches that wait, notices that are awaited, and replies that nobody reads.
"""
