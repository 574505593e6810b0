"""From a position to elements.

    reading        pop, peek, confirm and read
    hot_blocks     loaded cold blocks, shared by all subscribers under one budget
    start_points   a starting point (offset, time, "beginning" …) becomes an offset
    listing        blocks of a queue with the subscribers in each, and how far subscribers are behind
    status         what an operator sees of this node

Requests enter from `hotstore.store`; blocks come from the queue's tail or from the cold store; new positions
leave to the journal.
Invariant: each offset is in one place at every moment: hot-hot, being sealed, or cold.
"""
