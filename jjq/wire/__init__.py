"""The one place where protobuf and gRPC statuses become the types of the stores, and back.

    batches         messages with a batch of elements
    arrow_field     an Arrow batch in a message, not copied through protobuf
    arrow_ipc       the fast form: a batch as an Arrow IPC stream; `expanding` checks what grows
    repeated_elements  the friendly form: elements one by one
    pushes, results several pushes, or several results of pops, in one message
    convert         queues, subscribers, receipts and blocks; `cluster` nodes and shards; `enums` words
    request         requests made of what callers gave
    pages           lists in pages
    status          errors as gRPC statuses, and back unchanged
    services        the names of the services
    groups/         worker groups: settings, tasks, takes and changes
    call_frames     calls as messages of a WebSocket

Bytes and messages enter, the types of coldstore.shared leave, and the other way round. Both sides use the same
code: jjq.server and jjq.remote.

Invariants:
- What comes from outside is checked before a store sees it: a wrong message is `InvalidInput`, and nothing worse.
- An error comes out as it went in: kind, message and fields.
"""
