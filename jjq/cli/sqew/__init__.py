"""The command `sqew`: the commands, options and texts of Sqew, over HTTP to any server of jjq.

    app         all commands put together; serve, stats, health, metrics; errors become exit codes
    queues      sqew queue list|add|rm|show|purge|peek|compact
    messages    sqew message enqueue|poll|ack|nack|get|peek|remove
    client      one connection to the server, and what it refuses

A name is given as an option (`--name q`, `--queue q`) or by its place. It is not part of the command `jjq`: people
who know Sqew find the same words, and the same exit codes, 0 and 1.
"""
