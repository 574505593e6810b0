"""Many nodes over one store, with object storage as their only coordinator: who serves what, and how that changes.

    documents/    what lies on object storage: shards of a queue, tenures, nodes; and the rule when a node is dead
    journal/      the journal on object storage, fences, and the lease of a journal on a disk
    takeover/     claims of queues, planned moves, the watch over other nodes, taking over from a dead one
    routing/      which node answers a request; the list of nodes
    operate/      what an operator asks for: plans, moves, drains
    ports         `Ownership` and `Operations`, and their values
    ownership     `Ownership` of a node, by its documents
    history       reads blocks of queues that other nodes own
    node          opens a node of a cluster
    single_node   opens a server that has a store for itself
    limits        numbers and their relations

Enters: requests for a queue, from `jjq.server`; commands of an operator. Leaves: calls of the local hot store, or of
the node that owns the queue; documents and journal objects on object storage.

Invariants. A queue has one owner at a time: only the owner named by the newest shards document acknowledges. Every
change of owner is one compare-and-swap of that document; before it, all that the new owner needs is on object storage.
A node that is asked for a queue of another node refuses before it writes anything. No wall clock is compared between
nodes. Nothing here knows gRPC. docs/sharding.md has the protocols and their proofs.
"""
