"""How a queue changes hands: claimed, handed over, or taken over from a dead node.

    claims     the `Owners` port of the hot store: whose a queue is, by its shards document
    handover   a planned move: the owner gives a queue to another node
    watch      beats of this node, and the watch over the tenures of the others
    takeover   replays the journal of a dead node and takes its queues

Enters: a queue that is opened; a move that an operator asked for; a tenure that stays silent. Leaves: a new version of
a shards document, and all that its owner needs on object storage.

Invariants. The swap of the shards document is the only commit point: a move that breaks off has happened or has not. A
tenure is ended before its queues are taken. Any number of nodes may take over at once: they find the same elements,
and one swap of theirs takes effect.
"""
