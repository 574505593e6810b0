"""The checker is worth something only if it passes good histories and flags every kind of bad one."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from coldstore.shared.chance import SeededChance
from coldstore.shared.clock import SystemClock
from coldstore.shared.errors import Exhausted, Unavailable
from tests.faults.checker.judge import judge
from tests.faults.clients.worker import Worker
from tests.faults.history import Recorder, open_history, settled, type_of, type_of_error
from tests.faults.spoiling import MUTATIONS as LOG_MUTATIONS
from tests.faults.spoiling import forget_a_delay, leave_a_task_open, report_damage
from tests.faults.spoiling_work import GROUP_MUTATIONS, ack_without_the_push, told
from tests.faults.synthetic import Event, Perfect
from tests.faults.synthetic_work import PerfectGroup
from tests.faults.table import OFFSET_BITS, build, load
from tests.faults.values import make_value, read_value

SEEDS = range(6)
MUTATIONS = [*LOG_MUTATIONS, *GROUP_MUTATIONS]


@cache
def _good(seed: int) -> list[Event]:
    events = Perfect(seed).live(400).finish()
    return [*events, *PerfectGroup(events[-1]["t"]).live()]


def good(seed: int) -> list[Event]:
    """A history of one's own, to spoil."""
    return copy.deepcopy(_good(seed))


def flags(events: list[Event]) -> set[str]:
    return {finding.property for finding in judge(build(events))}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_good_history_passes(seed: int) -> None:
    assert judge(build(good(seed))) == []


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("spoil", "property"), MUTATIONS, ids=lambda x: getattr(x, "__name__", x))
def test_a_spoilt_history_is_flagged_by_the_right_property(
    spoil: Callable[[list[Event]], None], property: str, seed: int
) -> None:
    events = good(seed)
    spoil(events)
    assert property in flags(events)


def test_every_property_is_flagged_by_some_mutation() -> None:
    events = good(0)
    found: set[str] = set()
    for spoil, _ in MUTATIONS:
        spoilt = copy.deepcopy(events)
        spoil(spoilt)
        found |= flags(spoilt)
    assert found == {property for _, property in MUTATIONS}


def test_damage_that_the_final_read_was_told_of_is_not_lost_in_silence() -> None:
    events = good(3)
    report_damage(events)
    assert flags(events) == {"data-loss"}


def test_tasks_are_judged_where_a_wall_clock_jumped_too() -> None:
    """All but the delays that were asked for while it was wrong."""
    events = good(0)
    forget_a_delay(events)
    leave_a_task_open(events)
    first, last = (pick(event["t"] for event in events) for pick in (min, max))
    jump = {"process": 7 * 10**9, "f": "skewed", "type": "ok", "queue": events[0]["queue"], "sub": None}
    before = [{**jump, "op": 1, "t": first - 2}, {**jump, "op": 2, "t": first - 1}]
    around = [{**jump, "op": 1, "t": first - 1}, {**jump, "op": 2, "t": last + 1}]
    assert flags([*events, *before]) == {"task-early", "task-stuck"}
    assert flags([*events, *around]) == {"task-stuck"}


def test_a_take_that_a_takeover_may_undo_is_not_called_early() -> None:
    events = good(0)
    forget_a_delay(events)
    assert flags(events) == {"task-early"}
    for event in events:
        if event["f"] == "take":
            event["durable"] = False
    assert flags(events) == set()


def test_a_completion_whose_take_was_lost_with_it_is_not_called_half_done() -> None:
    """The next holder has the same attempt, and makes the ack."""
    events = good(0)
    ack_without_the_push(events)
    assert "half-done" in flags(events)
    lost = told(events, "complete", "info")[0]
    next_ack = {name: value for name, value in lost.items() if name != "values"}
    next_ack |= {"process": 6_000, "f": "ack", "refused": []}
    begun = {**next_ack, "type": "invoke"}
    assert "half-done" not in flags([*events, begun, {**next_ack, "type": "ok", "t": lost["t"] + 1}])


# Cost: sorts and one pass, however long the history.


def test_ten_times_the_history_costs_about_ten_times_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    work = 0
    for name in ("argsort", "lexsort", "unique", "searchsorted"):
        real = getattr(np, name)

        def counting(*args: Any, real: Any = real, **more: Any) -> Any:
            nonlocal work
            work += sum(np.size(arg) for arg in args)
            return real(*args, **more)

        monkeypatch.setattr(np, name, counting)
    costs = []
    for operations in (1_000, 10_000):
        table = build(Perfect(1).live(operations).finish())
        elements = len(table.ops.f) + len(table.seen_op) + len(table.pushed_op)
        work = 0
        assert judge(table) == []
        costs.append(work / elements)
    assert costs[1] < 1.5 * costs[0]


# History: statuses, values, files.


@pytest.mark.parametrize(
    ("code", "detailed", "kind"),
    [
        ("INVALID_ARGUMENT", True, "fail"),
        ("FAILED_PRECONDITION", True, "fail"),
        ("RESOURCE_EXHAUSTED", True, "fail"),
        ("RESOURCE_EXHAUSTED", False, "info"),  # a reply too large for this client: the pop has moved
        ("DATA_LOSS", True, "fail"),
        ("UNAVAILABLE", True, "info"),
        ("UNAVAILABLE", False, "info"),
        ("DEADLINE_EXCEEDED", False, "info"),
        ("CANCELLED", False, "info"),
        ("INTERNAL", False, "info"),
        ("UNKNOWN", False, "info"),
    ],
)
def test_only_what_is_certain_is_a_failure(code: str, detailed: bool, kind: str) -> None:
    assert type_of(grpc.StatusCode[code], detailed=detailed) == kind


def test_a_refusal_of_a_retry_says_nothing_about_the_first_attempt() -> None:
    assert settled(["fail"]) == "fail"
    assert settled(["info", "fail"]) == "info"
    assert settled(["info", "fail", "ok"]) == "ok"
    assert type_of_error(Unavailable("x")) == "info"
    assert type_of_error(Exhausted("x")) == "fail"


def test_a_value_proves_itself() -> None:
    for size in (1, 40, 100, 5_000):
        value = make_value(123_456, size)
        assert read_value(value) == 123_456
        assert read_value(value[:-1]) < 0
        assert read_value(value[:-1] + bytes([value[-1] ^ 1])) < 0
    assert read_value(b"") < 0
    assert len({make_value(n, 64) for n in range(1_000)}) == 1_000


@pytest.mark.parametrize(("door", "late"), [("grpc", False), ("http", True), ("socket", True)])
async def test_what_a_new_connection_may_overtake_is_late(tmp_path: Path, door: str, late: bool) -> None:
    """At a single server only gRPC, which keeps its connection, has requests done in their order."""
    pen = Recorder(open_history(tmp_path, "c0"), 1, lambda: 0)
    worker = Worker(1, "q", "127.0.0.1:1", pen, SeededChance(1), asyncio.Event(), door, "127.0.0.1:2")
    assert bool(worker.fate) == late


def test_a_history_survives_its_writer(tmp_path: Path) -> None:
    clock = SystemClock()
    pen = Recorder(open_history(tmp_path, "c0"), 1, lambda: round(clock.monotonic() * 1e9))
    pen.invoke("push", "q0", values=[7]).ok(offset=0)
    lost = pen.invoke("push", "q0", values=[8])
    lost.end("info", "UNAVAILABLE")
    assert pen.process > 1, "an unknown outcome ends the process id"
    pen.invoke("push", "q0", values=[9])
    with (tmp_path / "c0.jsonl").open("ab") as file:
        file.write(b'{"process": 1, "op"')
    table = load(tmp_path)
    assert table.ops.type.tolist() == [1, 0, 0]
    assert [int(at) & ((1 << OFFSET_BITS) - 1) for at in table.acked[1]] == [0]
