"""Reading a range of a queue with Spark.

    plan        the queue as it is now: which blocks and which part of the hot tail hold a range
    bounds      what filters on offset and timestamp leave of a range
    condition   a filter given to `jjq.spark.read`, as bounds
    partition   what one task reads, and how
    reader      `format("jjq")`, the batch reader
    native      Spark's own Parquet scan, where Spark can reach the files

Enters: options. Leaves: Arrow batches, or a data frame. Invariants: every element of the range once, in order
within a partition; a damaged block is an error unless the user asked to skip it, and then it is reported.
"""
