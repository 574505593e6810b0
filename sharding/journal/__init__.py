"""The journal on object storage, and the lease of a journal on a disk.

    objects          layout of one journal object: a batch, a part of a batch, or a fence
    object_journal   the `Journal` port of the hot store, on object storage
    checkpoint_objects     checkpoints as objects beside the journal
    fencing          becoming a node; reading a journal and ending it with a fence
    lease            a journal on a disk is written only while the node's lease is valid

Enters: batches of records, from the hot store's committer. Leaves: objects at journals/<node>/<number> and
checkpoints/<node>/; batches again, when a journal is replayed.

Invariants. Numbers are acknowledged in order. A run has puts in flight within JOURNAL_WINDOW numbers, so the next run
begins behind all of them. Fences are never deleted, so every replay of a tenure ends at the same place. Nothing is
acknowledged before the node has seen, after the put, that its tenure is open. Objects are deleted only below a
boundary that the tenure names.
"""
