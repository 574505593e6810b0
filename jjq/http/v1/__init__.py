"""REST under /v1: nouns in paths, verbs as POST, and the same verbs as over gRPC.

    documents      the JSON that is sent and answered, as types
    queues         queues and blocks
    subscribers    subscribers: create, move, pop, peek
    elements       push: JSON, NDJSON, Arrow, raw bytes
    replay         read: NDJSON, JSON, Arrow, server-sent events
    element_text   elements as text
    parquet        elements or rows as one Parquet file
    groups         worker groups
    tasks          their tasks: take, ack, nack, …
    task_history   … and their past: one task's life, all tasks at a time, activity
    purge          nobody has anything left to do in a queue
    sql            queries
    operator       status, nodes, shards
    verify         prove that the history of a queue is sound
    live           figures of this moment, once a second

Each file has its routes in `ROUTES`; `jjq/http/serving.py` puts them together.
"""
