"""The list of a queue's blocks: which block holds which offsets.

    columns     final blocks as arrays: 100,000 of them in 15 MB
    block_list  a snapshot of all blocks, searched by offset, time or id
    rollups     the metadata of many final blocks in one object, so that opening a queue reads few objects
    load        builds the list from roll-ups and metadata files, and brings it up to date

Enters: listings and metadata. Leaves: `BlockList`, which never changes. Invariants: blocks have no gap and no
overlap, from offset 0 on; every final block continues the chain digest of the one before it; a missing one is
`DataLoss`.
"""
