"""Single calls of a blocking client in the thread that makes them, without the event loop's thread.

    thread_socket   one connection to /v1/ws, used by one thread: a call is a send and a receive
    quick_calls     which calls go that way, and which had better go the ordinary way

A client that blocks has an event loop in a thread of its own (jjq/client/loop_thread.py). A call through it wakes that
thread and is woken by it, which takes as long as the call itself. So push, pop and peek are tried here first.

Invariants:
- Only the first attempt of a call is made here, and only where the event loop has a connection to the same server.
  What may be tried again is tried again by the event loop, with the same rules as ever (jjq/remote/retry.py).
- A thread has sockets of its own. Where several threads call at a time, the event loop joins their pushes.
- A process that was forked does not touch the sockets of its parent.
"""
