"""Worker groups at work on this node: the pure groups of `hotstore.groups`, with queues, journal, clock and callers.

    ledger_writer   rows of a group on their way into the journal, with the group commit of everybody else
    loading         a group from its snapshot and its ledger: after a start, a takeover, a failed write
    listing         tasks to be looked at
    elements        the elements of tasks: keys and options for the driver, values for who takes
    group_figures   figures of a group for an operator
    work_group      one group: its callers, those who wait, its ledger
    sessions        who is connected, and whose tasks are given back
    desk            all groups of the node: found, opened, closed; one timer for all of them
    verbs           the verbs of `WorkStore`, for the hot store
    completion      ack and push in one journal batch
    capacity        pushes that wait for room in a group

Requests enter by `verbs`; rows leave by `ledger_writer`. A verb changes the state in one step of the event loop, and is
answered when the rows are durable. If they cannot be written, the group is loaded again from what is durable.
"""
