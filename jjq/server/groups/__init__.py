"""Worker groups, behind the same service.

    group_verbs   the verbs: decode, ask the store, encode
    work_stream   Work: takes and changes of a busy worker on one stream, to which its session is attached

Messages enter as bytes and leave as bytes; jjq.wire.groups decodes and encodes them. Whose tasks a request may change
is for the store to say.

Invariants:
- A take that waits ends with its call or its stream: a client that has gone is not served.
- A change that was given to the store is finished, also if its client has gone.
- A session is attached for as long as its stream is open, however the stream ends.
"""
