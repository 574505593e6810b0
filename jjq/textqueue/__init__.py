"""Text queues: a queue that is a file which a person can read and edit. No server, no daemon.

    with TextQueue("jobs.tq") as queue:
        queue.append("send the report")
        for item in queue:
            print(item.value)
            item.mark_done()

    queue      TextQueue: one or several files as one input; append, get_next, iteration, follow
    item       TextItem: one message or comment, with its verbs
    format     the format, byte by byte: print and parse one item
    grammar    a block of a file: its faults, and its items as fast as Python can cut them
    reading    one file, opened and read: blocks, faults with line numbers, a file that was replaced
    cursor     a reader's place in one file: blocks, the unfinished last item, a file that was replaced
    file       changes of one file: append, mark, set a variable, find an item again
    guard      one file, guarded: the lock, a file that was replaced, what a killed process left
    sidecar    the lock beside a file, and the intent that repairs what a killed process left
    edits      what an editor overwrote: changes of this process that are missing in the new file
    mutex      the mutex variable of a message: claim and release
    elements   items as elements of a queue, and back, byte for byte
    group_states   marks of a file as states of tasks in a worker group, and back
    bridge     import into a queue of a server, and export from it

Enters: bytes of files. Leaves: items; marks of one byte; appends of one write. Invariants: no byte is ever moved;
a mark goes from queued to done or critical and never back; every change is made under the sidecar's lock. All but
`elements`, `group_states` and `bridge` need nothing but the standard library, and are imported in a few milliseconds.
"""

from __future__ import annotations

from jjq.textqueue.format import MUTEX, MalformedText, TextStatus
from jjq.textqueue.item import TextItem
from jjq.textqueue.queue import TextQueue

__all__ = ["MUTEX", "MalformedText", "TextItem", "TextQueue", "TextStatus"]
