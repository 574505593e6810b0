"""Pipeline jobs over one cold store, run where Spark runs.

    session         the Spark session of a job
    tasks           runs work on executors: errors come back as values, progress while it runs
    ranges          a range of a queue, cut into pieces for tasks
    compact         merges young blocks of many queues
    verify          reads every block of a store and compares everything with everything
    bulk_import     history from other systems becomes a queue; import_columns reads and shapes the source,
                    import_source looks at it before Spark starts, import_blocks makes blocks of rows
    direct_import   small imports of Parquet: one task with Arrow, no rows in Java
    export          a range of a queue as files
    stats           what each queue holds, hour by hour, as rows and as a picture

The driver makes a list of small items (names, ranges of blocks). Executors open the store by themselves and
do the work. Counts come back. Invariants: no element passes through the driver; every job can run again after
a crash at any point.
"""
