"""A group from its snapshot and its ledger: at a start, after a takeover or move, and after rows could not be written.

One way for all of them: the newest sound snapshot, then the rows of the ledger after it, from the cold store and from
the tail that the journal gave back. The snapshot is put after the ledger's block was sealed, so the rows after it are
those of about one block.
"""

from __future__ import annotations

import logging
from contextlib import aclosing

from coldstore.layout import paths
from coldstore.objects.port import ObjectStore
from coldstore.shared.errors import Conflict, DataLoss, JjqError
from hotstore.groups.group import GroupState
from hotstore.groups.ledger import decode_rows
from hotstore.groups.snapshot import decode_snapshot, encode_snapshot, snapshot_digest
from hotstore.limits import SNAPSHOTS_KEPT
from hotstore.queue.queue import HotQueue
from hotstore.read.reading import Reading
from hotstore.runner import Runner
from hotstore.work.work_group import WorkGroup

log = logging.getLogger("jjq.hotstore")


class GroupLoader:
    """Reads groups, and writes their snapshots."""

    def __init__(self, objects: ObjectStore, reading: Reading, runner: Runner) -> None:
        self._objects = objects
        self._reading = reading
        self._runner = runner

    async def load(self, ledger: HotQueue) -> GroupState:
        """The state of the group as of the last row of its ledger; its times are those of the wall clock."""
        group = await self._runner.run(lambda: self._newest(ledger.name, ledger.next))
        if group.rows < ledger.next:
            async with aclosing(self._reading.read(ledger, group.rows, ledger.next)) as batches:
                async for batch in batches:
                    for time_us, row in decode_rows(batch):
                        group.fold(time_us, row)
        group.rows = ledger.next
        return group

    async def keep(self, group: WorkGroup, state: GroupState, shift_us: int) -> None:
        """Put a snapshot; all its rows are durable. If that fails, the next one serves as well."""
        ledger = group.ledger.name
        try:
            await self._runner.run(lambda: self._put(ledger, state.rows, encode_snapshot(state, shift_us)))
        except JjqError as error:
            log.warning("snapshot of %s: %s", ledger, error)
        group.kept_rows = state.rows

    # In a worker thread -------------------------------------------------------------------------------

    def _newest(self, ledger: str, next_: int) -> GroupState:
        listed = [info.key for info in self._objects.list(paths.snapshots(ledger))]
        for key in reversed(listed):
            named = paths.parse_snapshot(key)
            if named is None or named[0] > next_:
                continue  # of a ledger that had more rows: the ledger decides what happened
            try:
                data = self._objects.get(key).data
                if snapshot_digest(data) != named[1]:
                    raise DataLoss(f"{key} is damaged: its bytes do not match its name", key=key)
                group = decode_snapshot(data, key)
                if group.rows != named[0]:
                    raise DataLoss(f"{key} has {group.rows} rows", key=key)
            except DataLoss as error:
                log.warning("%s; the ledger has all of it", error)
                continue
            return group
        return GroupState()

    def _put(self, ledger: str, next_: int, data: bytes) -> None:
        key = paths.snapshot(ledger, next_, snapshot_digest(data))
        try:
            self._objects.put_if_absent(key, data)
        except Conflict:
            return
        listed = [info.key for info in self._objects.list(paths.snapshots(ledger))]
        for old in [each for each in listed if each < key][: -SNAPSHOTS_KEPT + 1 or None]:
            self._objects.delete(old)


async def settled_state(group: WorkGroup) -> GroupState:
    """A copy of the state as of a row of the ledger with which all rows before it are durable."""
    state, writer = group.advance().state, group.writer
    state.open.renumber_holders()
    copies: list[GroupState] = []
    while not copies:
        if writer.is_idle:
            copies.append(state.copy(group.ledger.next))
        else:
            writer.capture = lambda rows: copies.append(state.copy(rows))
            await writer.flush().wait()
    writer.capture = None
    return copies[0]
