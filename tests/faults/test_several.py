"""What the checker makes of histories of several nodes: late effects, stale zombies, what servers saw."""

from __future__ import annotations

from typing import Any

import pytest

from tests.faults.checker.judge import judge
from tests.faults.table import build

Event = dict[str, Any]


class Pen:
    """Writes operations that take a second each, one after the other unless told when."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.now = 0

    def op(
        self, f: str, kind: str = "ok", *, begin: Event | None = None, at: int | None = None, **end: Any
    ) -> None:
        self.now = self.now + 2 if at is None else at
        common = {"process": 1, "op": len(self.events), "f": f, "queue": "q", "sub": None, **(begin or {})}
        self.events.append({**common, "type": "invoke", "t": self.now * 10**9})
        self.events.append({**common, "type": kind, "t": (self.now + 1) * 10**9, **end})

    def push(self, value: int, offset: int) -> None:
        self.op("push", begin={"values": [value]}, offset=offset)

    def pop(self, kind: str = "ok", **end: Any) -> None:
        self.op("pop", kind, begin={"sub": "q/s", "most": 3}, **end)

    def finish(self, values: list[int]) -> set[str]:
        self.op("final", position=0, next=len(values), values=values)
        return {finding.property for finding in judge(build(self.events))}


def popped(start: int, count: int) -> Event:
    return {"position": start, "next": start + count, "values": list(range(start, start + count))}


def pushed(count: int) -> Pen:
    pen = Pen()
    for value in range(count):
        pen.push(value, value)
    return pen


@pytest.mark.parametrize(
    ("late", "skipped", "flagged"), [(True, 3, False), (True, 4, True), (False, 3, True)]
)
def test_an_unknown_pop_may_be_late_but_takes_no_more_than_it_asked_for(
    late: bool, skipped: int, flagged: bool
) -> None:
    pen = pushed(10)
    pen.pop(**popped(0, 2))
    pen.pop("info", late=late)
    pen.pop(**popped(2, 2))  # elsewhere; the unknown one has not happened yet
    pen.pop(**popped(4 + skipped, 1))
    assert ("poll-skip" in pen.finish(list(range(10)))) == flagged


def test_what_was_late_is_used_up_once_it_has_happened() -> None:
    pen = pushed(12)
    pen.pop(**popped(0, 1))
    pen.pop("info", late=True)
    pen.pop(**popped(4, 1))
    pen.pop(**popped(8, 1))
    assert "poll-skip" in pen.finish(list(range(12)))


def test_after_a_late_seek_anything_goes_for_a_while() -> None:
    pen = pushed(5)
    pen.pop(**popped(0, 3))
    pen.op("seek", "info", begin={"sub": "q/s"}, late=True)
    pen.pop(**popped(3, 1))
    pen.pop(**popped(0, 1))  # now it has happened
    assert pen.finish(list(range(5))) == set()
    pen.now += 60
    pen.pop(**popped(1, 1))
    pen.pop(**popped(0, 1))
    assert pen.finish(list(range(5))) == {"position-back"}


def served(pen: Pen, f: str, epoch: int, at: int | None = None) -> None:
    pen.op(f, begin={"queue": "@n1", "epoch": epoch}, at=at)


@pytest.mark.parametrize(("at", "flagged"), [(3, False), (6, True)])
def test_a_node_that_syncs_after_the_end_of_its_tenure_is_flagged(at: int, flagged: bool) -> None:
    pen = Pen()
    served(pen, "begin", 2)
    served(pen, "end", 3, at=4)
    served(pen, "sync", 2, at=at)
    served(pen, "begin", 4, at=9)
    served(pen, "sync", 4)
    assert ("fence" in pen.finish([])) == flagged


@pytest.mark.parametrize("ended", [False, True])
def test_a_stale_end_of_a_queue_is_excused_while_a_zombie_may_live(ended: bool) -> None:
    pen = pushed(2)
    if ended:
        served(pen, "end", 3)
    pen.pop(position=0, next=0, values=[])
    assert ("stale-tail" in pen.finish([0, 1])) != ended
    served(pen, "begin", 4)
    pen.pop(position=0, next=0, values=[])
    assert "stale-tail" in pen.finish([0, 1])
