"""The checker is worth something only if it passes good histories and flags every kind of bad one."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from coldstore.shared.clock import SystemClock
from coldstore.shared.errors import Exhausted, Unavailable
from tests.faults.checker.judge import judge
from tests.faults.history import Recorder, open_history, settled, type_of, type_of_error
from tests.faults.synthetic import Event, Perfect
from tests.faults.table import OFFSET_BITS, build, load
from tests.faults.values import make_value, read_value

SEEDS = range(6)


def good(seed: int, operations: int = 400) -> list[Event]:
    return copy.deepcopy(Perfect(seed).live(operations).finish())


def flags(events: list[Event]) -> set[str]:
    return {finding.property for finding in judge(build(events))}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_good_history_passes(seed: int) -> None:
    assert judge(build(good(seed))) == []


def ends(events: list[Event], f: str, kind: str = "ok") -> list[Event]:
    """The ends of operations that have something to change."""
    return [e for e in events if e["f"] == f and e["type"] == kind and (f in _BARE or e.get("values", [1]))]


_BARE = {"confirm", "seek"}


def finals(events: list[Event], queue: str) -> list[Event]:
    return [e for e in events if e["f"] == "final" and e["type"] == "ok" and e["queue"] == queue]


def cut_final(events: list[Event], queue: str, start: int, stop: int) -> None:
    """Let the final log lack these offsets; the others keep theirs."""
    for event in finals(events, queue):
        offsets = range(event["position"], event["position"] + len(event["values"]))
        kept = [(o, v) for o, v in zip(offsets, event["values"], strict=True) if not start <= o < stop]
        event["offsets"], event["values"] = [o for o, _ in kept], [v for _, v in kept]


def length(events: list[Event], queue: str = "q0") -> int:
    return sum(len(e["values"]) for e in finals(events, queue))


def begin_of(events: list[Event], end: Event) -> Event:
    key = (end["process"], end["op"])
    return next(e for e in events if e["type"] == "invoke" and (e["process"], e["op"]) == key)


# Each takes a good history and spoils it.


def lose_prefix(events: list[Event]) -> None:
    cut_final(events, "q0", 0, 3)


def lose_middle(events: list[Event]) -> None:
    cut_final(events, "q0", length(events) // 2, length(events) // 2 + 3)


def lose_postfix(events: list[Event]) -> None:
    cut_final(events, "q0", length(events) - 2, length(events))


def lose_everything(events: list[Event]) -> None:
    events[:] = [e for e in events if e["f"] != "final"]


def forget_what_was_read(events: list[Event]) -> None:
    """A push of unknown outcome that a reader saw is gone in the end."""
    unknown = {v for e in events if e["f"] == "push" and e["type"] == "invoke" for v in e["values"]}
    unknown -= {v for e in ends(events, "push") for v in begin_of(events, e)["values"]}
    seen = next(e for e in ends(events, "pop") if unknown & set(e["values"]))
    at = seen["position"] + next(n for n, v in enumerate(seen["values"]) if v in unknown)
    cut_final(events, seen["queue"], at, at + 1)


def report_damage(events: list[Event]) -> None:
    """Three elements are missing, and the final read was told so."""
    half = length(events) // 2
    lose_middle(events)
    common = {"process": 90, "op": 1, "f": "final", "queue": "q0", "sub": None}
    told = {"position": half, "next": half + 3, "loss": True, "code": "DATA_LOSS", "t": 10**12}
    events += [{**common, "type": "invoke", "t": 10**12}, {**common, "type": "fail", **told}]


def swap_two(events: list[Event]) -> None:
    event = next(e for e in ends(events, "pop") if len(e["values"]) > 1)
    event["values"][:2] = event["values"][1::-1]


def renumber(events: list[Event]) -> None:
    ends(events, "push")[5]["offset"] += 1


def duplicate_in_log(events: list[Event]) -> None:
    """A retry was written twice: everything from there on is one further."""
    event = finals(events, "q0")[-1]
    event["values"].append(event["values"][0])


def read_what_nobody_pushed(events: list[Event]) -> None:
    finals(events, "q0")[-1]["values"].append(10**12)


def read_what_was_refused(events: list[Event]) -> None:
    refused = begin_of(events, ends(events, "push", "fail")[0])
    finals(events, refused["queue"])[-1]["values"].extend(refused["values"])


def alter_bytes(events: list[Event]) -> None:
    ends(events, "peek")[-1]["values"][0] = -17


def leave_a_hole(events: list[Event]) -> None:
    event = finals(events, "q1")[-1]
    event["offsets"] = [o + 1 for o in range(event["position"], event["position"] + len(event["values"]))]


def answer_with_a_gap(events: list[Event]) -> None:
    event = next(e for e in ends(events, "pop") if len(e["values"]) > 2)
    offsets = list(range(event["position"], event["position"] + len(event["values"])))
    del offsets[1], event["values"][1]
    event["offsets"] = offsets


def acknowledge_out_of_order(events: list[Event]) -> None:
    """An early push is acknowledged where a later one was."""
    mine = [e for e in ends(events, "push") if e["queue"] == "q0"]
    mine[0]["offset"], mine[-1]["offset"] = mine[-1]["offset"], mine[0]["offset"]


def reorder_a_pipeline(events: list[Event]) -> None:
    sent = [e for e in events if e["type"] == "invoke" and e.get("pipeline") == 0]
    sent[0]["place"], sent[-1]["place"] = sent[-1]["place"], sent[0]["place"]


def end_too_early(events: list[Event]) -> None:
    event = [e for e in ends(events, "read") if len(e["values"]) > 20][-1]
    event["next"] -= 15
    del event["values"][-15:]


def show_nothing(events: list[Event]) -> None:
    """A peek after everything was acknowledged finds nothing where there is something."""
    last = next(e for e in reversed(events) if e["f"] == "alive")["t"]
    common = {"process": 77, "op": 1, "f": "peek", "queue": "q0", "sub": "q0/shy"}
    events.append({**common, "type": "invoke", "t": last + 1})
    events.append({**common, "type": "ok", "t": last + 2, "position": 0, "next": 0, "values": []})


def skip_in_a_pop(events: list[Event]) -> None:
    """A pop vanishes, and the next goes on after it."""
    gone = [e for e in ends(events, "pop") if e["sub"] == "q0/popper"][5]
    events[:] = [e for e in events if (e["process"], e["op"]) != (gone["process"], gone["op"])]


def pop_twice(events: list[Event]) -> None:
    mine = [e for e in ends(events, "pop") if e["sub"] == "q0/popper"]
    again = {**mine[3], "process": 70, "t": mine[5]["t"] + 500}
    events += [{**begin_of(events, mine[3]), "process": 70, "t": mine[5]["t"] + 400}, again]


def regress_after_a_confirmation(events: list[Event]) -> None:
    confirmed = [e for e in ends(events, "confirm") if e["sub"] == "q0/streamer"][-1]
    event = next(e for e in ends(events, "deliver") if e["sub"] == "q0/streamer")
    events.append({**event, "process": 71, "t": confirmed["t"] + 1, "session": 10**6})


def skip_in_a_stream(events: list[Event]) -> None:
    mine = [e for e in ends(events, "deliver") if e["sub"] == "q0/streamer"]
    after = next(n for n in range(1, len(mine) - 1) if mine[n]["session"] == mine[n + 1]["session"])
    events.remove(mine[after])


def deliver_twice(events: list[Event]) -> None:
    mine = [e for e in ends(events, "deliver") if e["sub"] == "q0/streamer"]
    after = next(n for n in range(len(mine) - 1) if mine[n]["session"] == mine[n + 1]["session"])
    events.append({**mine[after], "process": 72, "t": mine[after]["t"] + 1})


def mix_queues(events: list[Event]) -> None:
    finals(events, "q0")[-1]["values"].append(finals(events, "q1")[0]["values"][0])


def write_half_a_batch(events: list[Event]) -> None:
    """Of a push of unknown outcome, only the second element is there."""
    values = [e for e in events if e["f"] == "push" and e["type"] == "invoke"]
    log = {v for q in ("q0", "q1") for e in finals(events, q) for v in e["values"]}
    lost = next(e for e in values if len(e["values"]) > 1 and not set(e["values"]) & log and
                not any(x["op"] == e["op"] and x["type"] == "fail" for x in events))  # fmt: skip
    finals(events, lost["queue"])[-1]["values"].append(lost["values"][1])


def scatter_a_batch(events: list[Event]) -> None:
    """Two pushes of unknown outcome are in the log, one inside the other."""
    last = finals(events, "q0")[-1]
    common = {"f": "push", "queue": "q0", "sub": None, "type": "invoke", "t": 1}
    events.insert(0, {**common, "process": 80, "op": 1, "values": [9_001, 9_002]})
    events.insert(0, {**common, "process": 81, "op": 1, "values": [9_003]})
    last["values"].extend([9_001, 9_003, 9_002])


def answer_from_the_past(events: list[Event]) -> None:
    ends(events, "push")[-1]["epoch"] = 1


def forget_in_a_damaged_copy(events: list[Event]) -> None:
    events[:] = [e for e in events if not (e["f"] == "twin" and e["type"] == "fail")]


def stay_dead(events: list[Event]) -> None:
    healed = next(e["t"] for e in events if e["f"] == "alive")
    for event in [e for e in ends(events, "push") if e["t"] > healed and e["queue"] == "q1"]:
        event["type"], event["code"] = "fail", "DATA_LOSS"


def never_drain(events: list[Event]) -> None:
    next(e for e in events if e["f"] == "drained")["next"] -= 1


MUTATIONS: list[tuple[Callable[[list[Event]], None], str]] = [
    (lose_prefix, "lost-prefix"),
    (lose_middle, "lost-middle"),
    (lose_postfix, "lost-postfix"),
    (lose_everything, "lost-postfix"),
    (forget_what_was_read, "phantom"),
    (report_damage, "data-loss"),
    (swap_two, "inconsistent-offsets"),
    (renumber, "inconsistent-offsets"),
    (duplicate_in_log, "duplicate"),
    (read_what_nobody_pushed, "from-nowhere"),
    (read_what_was_refused, "aborted-read"),
    (alter_bytes, "corruption"),
    (leave_a_hole, "dense"),
    (answer_with_a_gap, "dense"),
    (acknowledge_out_of_order, "nonmonotonic-send"),
    (reorder_a_pipeline, "nonmonotonic-pipeline"),
    (end_too_early, "stale-tail"),
    (show_nothing, "stale-tail"),
    (skip_in_a_pop, "poll-skip"),
    (pop_twice, "position-back"),
    (regress_after_a_confirmation, "position-back"),
    (skip_in_a_stream, "poll-skip"),
    (deliver_twice, "nonmonotonic-poll"),
    (mix_queues, "isolation"),
    (write_half_a_batch, "batch"),
    (scatter_a_batch, "batch"),
    (answer_from_the_past, "fence"),
    (forget_in_a_damaged_copy, "silent-loss"),
    (stay_dead, "liveness"),
    (never_drain, "unseen"),
]


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
