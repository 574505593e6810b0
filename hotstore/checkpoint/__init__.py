"""The checkpoint of a node: its state as one DuckDB file, so that a start replays only the journal after it.

    part            what a part of the node contributes: tables, their changes, and how it takes them back
    registry_part   queues, subscribers, producers and doubts as such tables
    duckdb_file     tables in a DuckDB file, and back
    checkpoint_store  where checkpoints are kept, under which names; the store on a disk
    checkpointer    when one is written, how, and how far the journal may be trimmed
    restore         a start finds the newest sound one, and puts the others aside
    salvage         what damaged ones still tell of subscribers, if none is sound

Changed rows enter from the registry; at a start tables leave to it, before the journal is replayed.
Invariants: a file is whole or it is not there; it says nothing that the journal did not have first; the journal keeps
all that follows the older of the two newest.
"""
