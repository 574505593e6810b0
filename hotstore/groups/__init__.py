"""Worker groups, the pure part: a queue's elements as tasks, handed to one worker at a time until each is done.

    values        what the verbs take and answer: settings, tasks, changes, outcomes, statistics
    port          `WorkStore`: the verbs, for every store that has groups
    options       delay, ttl, ttr and priority of single tasks, as headers of their elements
    settings      checks of what callers set, and the settings as text for the ledger
    ledger        one row for each transition, as a tuple and as Arrow columns
    task_set      ids of tasks above the floor
    open_tasks    tasks that were touched and are not done, as columns
    timers        what is due when
    drivers       which ready task is next: the port `Driver`, fifo, and the registry of drivers
    keyed         drivers with sub-queues: a limit and a rate for each key
    group         the state of a group as a fold of its ledger
    order         which task is ready, and which is next; what elements say of their tasks
    live_group    the steps that change a group: each is a row of the ledger, folded at once
    changes       ack, nack, release, touch, bury, kick and delete, for batches of tasks
    snapshot      the state as one object, so that a start folds little
    tasks_at_time the tasks of a group as they were at a time

Elements and time come in as arguments, ledger rows go out. Nothing here waits, reads a clock or knows a store:
`hotstore.work` does.
"""
