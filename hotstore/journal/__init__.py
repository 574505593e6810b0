"""What survives a crash: the journal's port, its format, and the journal on a disk.

    port             what a journal does, and what it says about damage
    records          the content of records: pushes, positions, rows of state
    layout           the bytes of segments, batches and records
    segment          one file that batches are appended to
    spares           the next file, prepared in the background
    disk             the few file operations that are used; the simulated disk has the same
    disk_journal     the journal on a disk
    scan, reader     read one segment; read all segments in order and judge what is missing
    recovery         what a start does with the files: read, quarantine, copy the tail
    bounds           a file beside the journal that says how far it goes
    witness          the same on object storage, for a disk that is lost
    directory_lock   one process per data directory

Batches of records enter from the committer; at a start they leave to the replay, in order.
Invariants: what was synced is delivered or reported as damage, never skipped; nothing is trusted before its
checksum is; a journal whose write failed takes nothing more.
"""
