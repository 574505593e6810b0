"""Writing a data frame or a stream to a queue.

    sink      `write.format("jjq")` and `writeStream.format("jjq")`
    payload   rows of a data frame as payloads, cut to what one push may hold
    pushes    the pushes of one task, each written once, whatever became of previous attempts

Enters: rows. Leaves: pushes to a server. Invariant: a task that runs again adds nothing twice and leaves
nothing out.
"""
