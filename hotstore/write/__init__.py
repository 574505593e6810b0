"""From a push to its receipt: admission, group commit, idempotent producers.

    push         one push on its way: offsets, the reply, and the shorter check of a single value
    admission    room for a push in memory and in the journal, or a refusal before anything is written
    committer    gathers all waiting entries, of all queues, into one journal write and one sync
    disk_pace    whether the disk is quick enough to be waited for on the event loop
    in_flight    several groups at once, for a journal that is far away
    producers    the last pushes of each producer, so that a retry gets the first receipt again

Entries come from `hotstore.store` and from rooms that journal state; records leave to the journal, receipts to
the callers.
Invariants: an entry is settled once and only when its group and all groups before it are durable; a push that
was refused was not written; a failed sync ends the committer, because a second one proves nothing.
"""
