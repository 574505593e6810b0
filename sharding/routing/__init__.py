"""Which node answers a request.

    router       the store that clients see: serves, or asks the owner of the queue
    local_only   the store that other nodes see: serves, or refuses; never forwards
    work_routing the verbs of worker groups, routed by their queue
    large_routing  large objects, by the node that is asked
    routes       queue → owner, as this node remembers it
    nodes        the nodes of the cluster: this node's own heartbeat, and who else is there
    traffic      how much each queue is used, and what it holds
    keyed_lock   callers of one key get their answers in the order in which they came

Enters: the verbs of `hotstore.port.Store`. Leaves: the same verbs, at the local store or at another node; hints that
tell a client where to go directly.

Invariants. A request is forwarded once; the node that gets it does not forward. A verb that may not happen twice is
tried again only after a refusal that came before any write. Pushes of one producer keep their order. A request costs
no request to object storage while the route is known.
"""
