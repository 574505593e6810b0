"""One queue of the cold store, and what is done to it as a whole.

    cold_queue   the queue, opened: read, write a block, merge, sweep, verify
    commit       the commit protocol: why two writers never lose or fork anything
    merge        which young blocks are merged next, and when
    quarantine   files in `data/` that no metadata names are moved aside before the first write
    deletion     a queue is deleted, brought back, and its files removed after a grace period
    sweep        deletes young files that final blocks cover, after a grace period
    sections     a queue cut into stretches that are verified independently
    verify       reads every file and compares everything with everything
    spans        the port of traces: spans around seals and reads, or nothing
    bulk_import  many blocks made elsewhere become part of a queue in one step

Enters: elements that continue the queue. Leaves: committed blocks. Invariants: `data/` holds a gapless prefix
at every instant; committed elements are never lost and never change; metadata is put after its data and
deleted before it.
"""
