"""Commands of operators, who run servers and look after data.

    serve        `jjq serve`: run a server
    running      its process, from the start to the end
    config       `jjq config show`: the settings of a server, and where each comes from
    status       `jjq ping`, `status` and `top`: how servers are
    samples      the figures for `jjq top`: rates from two readings
    key          `jjq key …`: who may do what
    node         `jjq node …`: the nodes of a cluster
    shard        `jjq shard …`: which node serves what, and moves
    verify       `jjq verify`: check what is stored
    backup       `jjq backup` and `jjq restore`
    release      `jjq release`: take a cold store from a single server that is gone

`serve`, `verify`, `backup` and `release` open the data themselves; the others ask servers.
"""
