"""The verbs for operators, answered by a server.

    administration   of queues and servers: update, delete, seal, status; a part of `RemoteStore`
    operator         of a cluster: nodes, shards, moves
    keys             of access: create, list and revoke keys
    operator_calls   how operator and keys call a server

Arguments enter as Python values; results come back as those of a local store.
"""
