"""One queue in memory, and the registry that finds queues and subscribers.

    queue            offsets and timestamps, unsealed blocks, readers that wait for the next element
    state            the lifecycle of a queue: phases, allowed steps, damage and doubt
    tail             the hot-hot block: payloads in memory that are not cold yet
    subscriber       a named position
    moves            journal entries of positions and of rows of state
    registry         queues and subscribers by name and number; opens a queue once
    changes          what the next checkpoint must write; the numbers that are given out
    owners           port: which node owns a queue
    arrival          a queue that comes from another node becomes this journal's
    holes            joins the journal's part of a queue with the cold store's, and finds what is missing
    placeholders     empty elements that keep the offsets of an accepted loss
    state_document   subscribers and producers on object storage, while a queue is between two journals

Pushes enter by the committer's groups, requests by the registry. A full block leaves to the sealer.
Invariants: an offset is given out once; readers see only what is durable; only the event loop (or recovery)
changes a queue.
"""
