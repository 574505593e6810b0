"""Ways to spoil the history of a group (`synthetic_work`), each with the property that must flag it."""

from __future__ import annotations

from collections.abc import Callable

from tests.faults.synthetic_work import KEYS, QUEUE, Event


def told(events: list[Event], f: str, kind: str = "ok") -> list[Event]:
    """The ends of operations on the queue of that group."""
    return [e for e in events if e["queue"] == QUEUE and e["f"] == f and e["type"] == kind]


def _row(events: list[Event], event: str, nth: int = 0) -> tuple[Event, int]:
    """The ledger, and where the nth row with this event is."""
    ledger = told(events, "ledger")[0]
    return ledger, [n for n, name in enumerate(ledger["events"]) if name == event][nth]


def _forget_row(events: list[Event], event: str) -> None:
    _forget_row_at(*_row(events, event))


def _forget_row_at(ledger: Event, at: int) -> None:
    for name in ("tasks", "counts", "events", "attempts", "states", "times"):
        ledger[name] = [*ledger[name][:at], *ledger[name][at + 1 :]]


def ack_another_attempt(events: list[Event]) -> None:
    ledger, at = _row(events, "ack")
    ledger["attempts"][at] += 1


def hand_out_what_is_held(events: list[Event]) -> None:
    """Two holders of a task at a time."""
    ledger, at = _row(events, "take")
    for name in ("tasks", "counts", "events", "states", "times"):
        ledger[name].insert(at + 1, ledger[name][at])
    ledger["attempts"].insert(at + 1, ledger["attempts"][at] + 1)


def take_out_of_turn(events: list[Event]) -> None:
    """The task after the next one of the same key."""
    ledger, at = _row(events, "take")
    ledger["tasks"][at] += KEYS


def take_two_of_a_key(events: list[Event]) -> None:
    """Somebody gets a task of a key whose first one is still held."""
    ledger, at = _row(events, "take")
    row = {"tasks": ledger["tasks"][at] + KEYS, "attempts": 1}
    for name in ("tasks", "counts", "events", "attempts", "states", "times"):
        ledger[name].insert(at + 1, row.get(name, ledger[name][at]))


def remember_wrongly(events: list[Event]) -> None:
    told(events, "at")[0]["states"][0] ^= 1


def forget_the_past(events: list[Event]) -> None:
    for name in ("tasks", "states", "attempts"):
        del told(events, "at")[1][name][0]


def let_one_more_in(events: list[Event]) -> None:
    told(events, "group")[0]["most"] -= 1


def ack_without_the_push(events: list[Event]) -> None:
    """The completion of unknown outcome: the log lacks what it pushed."""
    value = told(events, "complete", "info")[0]["values"][0]
    final = told(events, "final")[0]
    at = final["values"].index(value)
    final["offsets"] = [n for n in range(len(final["values"])) if n != at]
    del final["values"][at]


def push_without_the_ack(events: list[Event]) -> None:
    task = told(events, "complete", "info")[0]["tasks"][0]
    ledger = told(events, "ledger")[0]
    at = next(n for n, name in enumerate(ledger["events"]) if name == "ack" and ledger["tasks"][n] == task)
    ledger["events"][at] = "delete"


def refuse_the_holder(events: list[Event]) -> None:
    ack = next(e for e in told(events, "ack") if "until" in e)
    ack["refused"] = ack["tasks"]


def forget_a_nack_in_the_ledger(events: list[Event]) -> None:
    _forget_row(events, "nack")


def forget_a_release_in_the_ledger(events: list[Event]) -> None:
    _forget_row(events, "release")


def forget_a_kick_in_the_ledger(events: list[Event]) -> None:
    ledger = told(events, "ledger")[0]
    task = told(events, "kick")[0]["tasks"][0]
    rows = enumerate(zip(ledger["tasks"], ledger["events"], strict=True))
    for at in reversed([at for at, row in rows if row == (task, "kick")]):
        _forget_row_at(ledger, at)


def do_what_nobody_asked_for(events: list[Event]) -> None:
    gone = {e["op"] for e in told(events, "bury")[:1]}
    events[:] = [e for e in events if e["queue"] != QUEUE or e["op"] not in gone]


GROUP_MUTATIONS: list[tuple[Callable[[list[Event]], None], str]] = [
    (ack_another_attempt, "task-step"),
    (hand_out_what_is_held, "task-step"),
    (take_out_of_turn, "key-order"),
    (take_two_of_a_key, "key-order"),
    (remember_wrongly, "tasks-at"),
    (forget_the_past, "tasks-at"),
    (let_one_more_in, "capacity"),
    (ack_without_the_push, "half-done"),
    (push_without_the_ack, "half-done"),
    (refuse_the_holder, "lease-lost"),
    (forget_a_nack_in_the_ledger, "task-ledger"),
    (forget_a_release_in_the_ledger, "task-ledger"),
    (forget_a_kick_in_the_ledger, "task-ledger"),
    (do_what_nobody_asked_for, "task-ledger"),
]
