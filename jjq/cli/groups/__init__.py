"""Commands of workers, who take tasks, and of those who look after them.

    group   `jjq group …`: create, list, show, update, pause, resume, seek, stats, purge, release-all, changes, delete
    task    `jjq task …`: take, ack, nack, release, touch, complete, bury, kick, delete, peek, list, at
    work    `jjq work GROUP -- COMMAND`: each task to the standard input of a command

A take and the ack that follows are two processes here. Both are the same session, which `--session` names: what one
command takes, the next one may ack. Tasks are written ID:ATTEMPT, as `jjq task take` prints them.
"""
