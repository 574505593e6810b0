"""The state machine is worth something only if it catches the mistakes that it is made for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from coldstore.shared.errors import JjqError
from hotstore.checkpoint.checkpoint_store import CheckpointName, DiskCheckpoints
from hotstore.checkpoint.checkpointer import Checkpointer
from hotstore.journal import records
from hotstore.journal.port import Record
from hotstore.lifecycle.seal import Sealer
from hotstore.queue.moves import MoveEntry, Moves, commit_state
from hotstore.queue.queue import HotQueue
from hotstore.queue.tail import TailBlock
from hotstore.write.committer import Committer
from hotstore.write.producers import Producers
from tests.hotstore.test_machine import LONG, StoreMachine

Patch = pytest.MonkeyPatch


def acknowledges_before_fsync(patch: Patch) -> None:
    def write(self: Committer, group: Sequence[Record], written: Any) -> int:
        return self._journal.append(group)

    patch.setattr(Committer, "_write", write)


def trims_by_the_maximum(patch: Patch) -> None:
    async def trim(self: Checkpointer) -> None:
        floors = [f for queue in self._registry.queues.values() if (f := queue.floor()) is not None]
        newest = self._kept[-1].sequence if self._kept else self.floor
        await self._committer.call(lambda: self._journal.trim(max([newest, *floors])))

    patch.setattr(Checkpointer, "trim", trim)


def forgets_positions(patch: Patch) -> None:
    patch.setattr(Moves, "records", lambda self: [])


def checkpoints_without_receipts(patch: Patch) -> None:
    patch.setattr(Producers, "take_changes", lambda self, whole: ([], []))


def checkpoints_miss_moves(patch: Patch) -> None:
    patch.setattr(MoveEntry, "settle", _settle_without_a_mark)


def _settle_without_a_mark(self: MoveEntry, sequence: int) -> None:
    moves, self._moves = self._moves, Moves(self._moves._committer, lambda subscriber: None)
    settle(self, sequence)
    self._moves = moves


settle = MoveEntry.settle


def replays_state_from_before_the_checkpoint(patch: Patch) -> None:
    patch.setattr(records, "ELEMENTS", records.KINDS)


def trims_to_the_newest_checkpoint_and_damages_it(patch: Patch) -> None:
    patch.setattr(Checkpointer, "floor", property(lambda self: self._kept[-1].sequence if self._kept else 0))
    get = DiskCheckpoints.get

    def damaged(self: DiskCheckpoints, name: CheckpointName) -> bytes:
        newest = name == self.names()[-1]
        return get(self, name)[:-1] if newest else get(self, name)

    patch.setattr(DiskCheckpoints, "get", damaged)


def says_sealed_before_it_is_stored(patch: Patch) -> None:
    async def seal(self: Sealer, queue: HotQueue, block: TailBlock) -> None:
        await commit_state(self._committer, lambda: [records.sealed([(queue.number, block.next)])])
        kept = await self._runner.run(lambda: self._store(queue, block))
        self._switch(queue, block, kept)

    patch.setattr(Sealer, "_seal_block", seal)


def forgets_producers_at_once(patch: Patch) -> None:
    patch.setattr(Producers, "remember", lambda self, producer, pushed: None)


late = pytest.mark.skipif(not LONG, reason="found only with the many examples of the long run")


@pytest.mark.parametrize(
    "mistake",
    [
        acknowledges_before_fsync,
        trims_by_the_maximum,
        forgets_positions,
        checkpoints_without_receipts,
        pytest.param(checkpoints_miss_moves, marks=late),
        pytest.param(replays_state_from_before_the_checkpoint, marks=late),
        trims_to_the_newest_checkpoint_and_damages_it,
        pytest.param(says_sealed_before_it_is_stored, marks=late),
        forgets_producers_at_once,
    ],
    ids=lambda mistake: mistake.__name__,
)
def test_the_machine_catches_a_store_that(mistake: Callable[[Patch], None], monkeypatch: Patch) -> None:
    mistake(monkeypatch)
    with pytest.raises((AssertionError, JjqError)):  # in whichever way it shows
        run_state_machine_as_test(
            StoreMachine,
            settings=settings(
                max_examples=400,
                stateful_step_count=40,
                phases=[Phase.generate],
                derandomize=True,
                report_multiple_bugs=False,
                database=None,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
