"""The ledger of a worker group: what the value of each element says, and the events.

One element is one transition of a task, or of a run of tasks. Its value is a struct (coldstore.shared.batch):

    task      int64          the first task of the run: the offset of its element in the group's queue
    count     int32          how many tasks
    event     utf8           what happened; see EVENTS
    state     utf8?          what the tasks are since: ready, taken, delayed, buried, done; null: the event is about
                             the group
    attempt   int32          how often the task was taken
    worker    utf8?          a name that the worker gave itself
    session   utf8?          who holds, or did this
    until     timestamp?     taken: deadline; delayed: when it is ready
    expires   timestamp?     end of the task's ttl
    priority  int32?         null: the group's
    reason    utf8?          of a nack or bury; the settings of the group, as JSON, in events about the group

A type of its own, and not text, so that Parquet keeps a column for each field: a transition needs a few bytes there,
and any engine selects `value.task`. When it happened is the element's timestamp.
"""

from __future__ import annotations

from typing import Final

# About tasks
TAKE: Final = "take"
ACK: Final = "ack"
NACK: Final = "nack"
RELEASE: Final = "release"
TOUCH: Final = "touch"
BURY: Final = "bury"
KICK: Final = "kick"
DELETE: Final = "delete"
TIMEOUT: Final = "timeout"  # the worker's time was over
EXPIRE: Final = "expire"  # the ttl was over
ORPHAN: Final = "orphan"  # the session that held the task is gone
PURGE: Final = "purge"  # all tasks that were not done are done
# About the group
CREATE: Final = "create"
UPDATE: Final = "update"
PAUSE: Final = "pause"
RESUME: Final = "resume"
SEEK: Final = "seek"
REMOVE: Final = "remove"  # the group is deleted
SESSION: Final = "session"  # a session takes for the first time; `attempt` is its ttr in milliseconds

TASK_EVENTS: Final = (TAKE, ACK, NACK, RELEASE, TOUCH, BURY, KICK, DELETE, TIMEOUT, EXPIRE, ORPHAN, PURGE)
GROUP_EVENTS: Final = (CREATE, UPDATE, PAUSE, RESUME, SEEK, REMOVE, SESSION)
EVENTS: Final = (*TASK_EVENTS, *GROUP_EVENTS)
