"""The verbs of worker groups, answered by a server.

    group_store     `RemoteWorkStore`: a `RemoteStore` with the verbs of `WorkStore`
    task_coalescer  takes and acks that are made at the same time travel together
    sessions        the Work streams by which a session is attached to servers, opened again when they break

Values of hotstore.groups enter; messages of jjq.wire.groups leave.

Invariants:
- A take is sent once. If its answer is lost, the tasks come back by their time to run, and the error says so.
- A change that is repeated after a lost answer counts as made if the task is where the change would have put it.
- A session that was attached is attached at every server that its takes go to, before they do.

A room of its own: hotstore.groups is imported here, which Spark, a user of `RemoteStore`, must not.
"""
