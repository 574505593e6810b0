"""Large objects on this node: uploads under way, downloads, and what a push may name.

    port      `LargeStore`: the verbs; `large_of` finds them in a store
    session   one upload under way: pieces become parts, a few of them on their way to the object store
    desk      all of them: limits and quotas, resuming, reading, checks before and after a push
    sweep     uploads that nobody named, now and then

Enters: pieces of bytes, and pushes that name objects. Leaves: objects in the cold store (coldstore/large/). Any node
may take an upload, as all have the same cold store; the push that names it goes to the owner of the queue. Invariants:
an element is acknowledged only if its object is durable; memory holds a few parts of each upload.
"""
