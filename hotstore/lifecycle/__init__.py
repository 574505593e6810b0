"""What happens to queues besides requests: start, seal, departure.

    replay           a start builds queues, subscribers and producers from the checkpoint and the journal
    seal             a full or old block becomes a cold block
    maintenance      the clock of all this: seals, merges, sweeps, puts readers to sleep
    departure        a queue leaves for another node, or for good
    administration   an operator changes, deletes and brings back a queue
    loss             an operator accepts a loss

No plain push enters this room. Blocks leave to the cold store.
Invariants: the journal forgets a block only after the cold store has committed it; a crash between any two
steps leaves a file to sweep, never a hole.
"""
