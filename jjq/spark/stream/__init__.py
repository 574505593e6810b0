"""Following a queue with Spark.

    stream      `readStream.format("jjq")`
    progress    what goes to the checkpoint, and how a batch is cut into partitions
    rate_limit  how much of a queue one batch takes

Enters: the last checkpoint. Leaves: partitions of the next batch. Invariant: a batch that runs again has the
same elements in the same partitions, although blocks were sealed and merged meanwhile.
"""
