"""A node: its settings, and the one place where objects are made of them.

    settings   flags, JJQ_* variables and TOML become one frozen `Settings`, checked once
    node       composition root of a store: `open_node` (shares its store with nobody), `open_member` (of a cluster)
    cluster    what a node of a cluster has besides: router, list of nodes, operator
    serving    composition root of a server process: store, cluster, server; started and closed in order
    logs       how log lines look

Enters: settings as text, from the command line; or values, from `jjq.open`. Leaves: a `HotStore`, or a server that
listens.

Invariants. Clock and chance are made by the callers of these roots and passed down; nothing below makes its own. What
was opened is closed in the opposite order, also if a later step fails. node.py imports no server, so that `jjq.open`
stays small.
"""
