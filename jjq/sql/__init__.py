"""SQL over everything: queues are tables, beside the system tables of the schema jjq.

    query           a question as a value, its parameters, its limits; `Queries`, the port of those who answer
    statement       what a query may say: one statement that only reads; which tables it names
    connection      a DuckDB connection that reaches no files, extensions or settings; what its errors mean
    scan            one queue as DuckDB reads it: blocks ruled out by metadata, then the tail; each element once
    object_files    data files of any object store, read by ranges
    system_tables   jjq.queues, jjq.subscribers, jjq.blocks, jjq.nodes, jjq.shards; where others are added
    group_tables    jjq.groups, jjq.tasks, jjq.transitions
    source          what is not in files: how far queues go, tails, system tables, by the verbs of a store
    engine          runs one query: check, make views of the tables that it names, give rows
    local           `LocalQueries`: the engine in a thread of this process
    process         `ProcessQueries`: the engine in a process of its own, on a server
    worker          what that process runs
    frames          what a server and that process say to each other

A `Query` enters; Arrow record batches leave, from an asynchronous iterator (`Queries.run`). The client, the gRPC
server and HTTP call nothing else.

Invariants:
- A query sees each element of a queue exactly once, up to the moment at which it began, also while blocks are
  sealed, merged and swept.
- A query changes nothing, and sees nothing but queues and system tables.
- On a server no query runs in the server's own process.
- Views are made of the tables that a query names, and of no others.
"""
