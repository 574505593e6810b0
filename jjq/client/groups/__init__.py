"""Worker groups in the client: the verbs, the tasks that they give, and a worker.

    group_client     `GroupClient`: the verbs of groups and tasks, a part of `AsyncClient`
    group_arguments  what callers give, checked
    client_session   who takes: attached at the first take, detached when the client closes
    task             `Task`, `TaskBatch` and `TaskReceipt`: what a take gives and an ack takes; `RefusedTasks`
    conditions       buried tasks by a condition in SQL
    push_options     delay, ttl, ttr and priority of a push, as headers of its elements
    worker           `AsyncWorker`: takes, calls a handler, acks or nacks, until it is stopped

Tasks and groups of users enter; a `WorkStore` gets columns of numbers. Nothing here loops over the tasks of a batch,
unless the caller does.

Invariants:
- A client takes as one session. Closing the client releases what that session still holds, unless the session was
  named: another client may go on with it.
- A worker acks a task only after its handler has returned.
"""
