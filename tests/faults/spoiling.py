"""Ways to spoil a good history, each with the property that must flag it."""

from __future__ import annotations

from collections.abc import Callable

from tests.faults.synthetic import Event


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
    [e for e in ends(events, "push") if "epoch" in e][-1]["epoch"] = 1


def forget_in_a_damaged_copy(events: list[Event]) -> None:
    events[:] = [e for e in events if not (e["f"] == "twin" and e["type"] == "fail")]


def stay_dead(events: list[Event]) -> None:
    healed = next(e["t"] for e in events if e["f"] == "alive")
    for event in [e for e in ends(events, "push") if e["t"] > healed and e["queue"] == "q1"]:
        event["type"], event["code"] = "fail", "DATA_LOSS"


def never_drain(events: list[Event]) -> None:
    next(e for e in events if e["f"] == "drained")["next"] -= 1


def taken_again(events: list[Event]) -> tuple[Event, int]:
    """A take of a task that was taken before, and its place in the take."""
    takes = [e for e in ends(events, "take") if e["queue"] == "q0"]
    return next((e, n) for e in takes for n, attempt in enumerate(e["attempts"]) if attempt > 1)


def hand_out_a_done_task(events: list[Event]) -> None:
    done = next(e for e in ends(events, "ack") if not e["refused"])
    task = begin_of(events, done)["tasks"][0]
    event = [e for e in ends(events, "take") if e["queue"] == done["queue"] and e["t"] > done["t"]][-1]
    log = [v for e in finals(events, done["queue"]) for v in e["values"]]
    event["tasks"] = [*event["tasks"], task]
    event["offsets"] = event["tasks"]
    event["attempts"] = [*event["attempts"], 9]
    event["values"] = [*event["values"], log[task]]


def give_an_attempt_twice(events: list[Event]) -> None:
    event, n = taken_again(events)
    event["attempts"][n] -= 1


def accept_a_late_ack(events: list[Event]) -> None:
    next(e for e in ends(events, "ack") if e["refused"])["refused"] = []


def forget_a_delay(events: list[Event]) -> None:
    for event in (e for e in events if e["f"] == "nack" and e["type"] == "invoke"):
        event["delay"] = 10**12


def leave_a_task_open(events: list[Event]) -> None:
    event = next(e for e in events if e["f"] == "worked")
    event["open"], event["done"] = 1, event["done"] - 1


def forget_an_ack_in_the_ledger(events: list[Event]) -> None:
    event = next(e for e in events if e["f"] == "ledger" and e["type"] == "ok")
    event["events"][event["events"].index("ack")] = "touch"


def forget_a_take_in_the_ledger(events: list[Event]) -> None:
    event = next(e for e in events if e["f"] == "ledger" and e["type"] == "ok")
    event["attempts"][event["events"].index("take")] += 1_000


def finish_a_task_twice(events: list[Event]) -> None:
    event = next(e for e in events if e["f"] == "ledger" and e["type"] == "ok")
    event["counts"][event["events"].index("ack")] += 1


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
    (hand_out_a_done_task, "task-again"),
    (give_an_attempt_twice, "task-twice"),
    (accept_a_late_ack, "late-ack"),
    (forget_a_delay, "task-early"),
    (leave_a_task_open, "task-stuck"),
    (forget_an_ack_in_the_ledger, "task-ledger"),
    (forget_a_take_in_the_ledger, "task-ledger"),
    (finish_a_task_twice, "task-ledger"),
]
