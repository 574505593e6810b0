"""What a server among others does to its journal and to tenures, as lines of the history; patched in by `launch`.

No answer names the epoch that served it: `owner` in a reply is where to ask next time, and nothing else.
So the servers are witnesses themselves. Their lines belong to a queue that stands for a node's journal,
`@n1`, whose epochs are twice the run, and one more once the run's tenure was ended:

    sync    (epoch 2·run) the journal said that what was appended is durable, and ours: now pushes are
            acknowledged
    begin   (epoch 2·run) a process became the node
    end     (epoch 2·run + 1) another node ended the tenure

The property `fence` says then: nothing is acknowledged by a run whose tenure had been ended, or that
another process had followed, before the acknowledgement was asked for.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from coldstore.shared.clock import SystemClock
from coldstore.shared.errors import Conflict
from tests.faults.bugs import patch
from tests.faults.history import Recorder, open_history

PROCESS = 10**12  # the process ids of clients are below


def journal_of(node: str) -> str:
    """The queue that stands for a journal."""
    return f"@{node}"


def watch(path: Path) -> None:
    """Write to a history's file from now on; before the server starts."""
    clock = SystemClock()
    file = open_history(path.parent, path.name)

    def pen(kind: int) -> Recorder:  # each thread has its own
        return Recorder(file, PROCESS + 10 * os.getpid() + kind, lambda: round(clock.monotonic() * 1e9))

    _watch_syncs(pen(0))
    _watch_tenures(pen(1), pen(2))


def _watch_syncs(pen: Recorder) -> None:
    from sharding.journal.object_journal import ObjectJournal

    real = ObjectJournal.sync

    def sync(journal: ObjectJournal) -> None:
        if not journal._flying and not journal._unchecked:
            real(journal)  # nothing waits for it
            return
        held = journal._held
        op = pen.invoke("sync", journal_of(held.node), epoch=2 * held.run)
        real(journal)
        op.ok()

    patch(ObjectJournal, sync=sync)


def _watch_tenures(begins: Recorder, ends: Recorder) -> None:
    from sharding import node as member
    from sharding.documents import tenure

    begin, end = member.begin, tenure.end  # type: ignore[attr-defined]

    def begun(objects: Any, node: str, *rest: Any) -> Any:
        op = begins.invoke("begin", journal_of(node))
        held = begin(objects, node, *rest)
        op.ok(epoch=2 * held.run)
        return held

    def ended(objects: Any, found: Any, by: str) -> Any:
        op = ends.invoke("end", journal_of(found.tenure.node), epoch=2 * found.tenure.run + 1)
        try:
            made = end(objects, found, by)
        except Conflict:
            op.end("fail", "CONFLICT")
            raise
        op.ok()
        return made

    patch(member, begin=begun)
    patch(tenure, end=ended)
