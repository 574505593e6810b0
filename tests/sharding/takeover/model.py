"""A model of one node's journal on object storage: its writer, takers, delayed puts, trims. Every order.

The writer A has two puts in flight at most (WINDOW), each of which may arrive at any later time, twice,
or unheard. B ends A's tenure, fences, and replays; it may die at any step, and C does the same again. A
may be slow, paused or dead: it simply takes no step. One batch is one object; its number is its name.

    store     objects by number, the tenure (open, boundary), how many batches are cold
    A         what it sent, heard, acknowledged, sealed; trims what is cold, boundary first
    takers    where they walk, what they have replayed

`explore` walks through all states that can be reached, breadth first, and checks every one of them.
A `Rules` other than the default is a protocol with a mistake in it: the search must find a broken state.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

WINDOW = 2
BATCHES = 3
PUTS = BATCHES + 1  # one of them is sent twice
FENCE = -1


@dataclass(frozen=True)
class Rules:
    """The protocol; each field, changed, is a mistake."""

    check_after_put: bool = True
    acknowledge_in_order: bool = True
    look_at_412: bool = True  # else it counts as a fence, though it may be our own first attempt
    keep_fences: bool = True
    boundary_first: bool = True  # else objects are deleted before the boundary says so
    trim_cold_only: bool = True  # else what is acknowledged is trimmed
    fence: bool = True  # else the taker believes that an absent number is the end
    window: bool = True  # else the next run begins right after the fence


class Taker(NamedTuple):
    """`step`: idle, walk, fence (it saw nothing there), served, dead."""

    step: str = "idle"
    at: int = 0
    log: tuple[int, ...] = ()


class State(NamedTuple):
    objects: tuple[tuple[int, int], ...] = ()  # number → batch, or FENCE
    open: bool = True
    boundary: int = 0
    cold: int = 0  # batches 0..cold-1 are in the cold store
    network: tuple[tuple[int, int], ...] = ()  # puts that may yet arrive: number, attempt
    heard: tuple[str, ...] = ("",) * BATCHES  # nothing, sent, 412 (to be looked at), ok
    attempts: tuple[int, ...] = (0,) * BATCHES
    acked: tuple[bool, ...] = (False,) * BATCHES
    late: bool = False  # an acknowledgement after the end of the tenure
    believes_fenced: bool = False
    doomed: tuple[int, ...] = ()  # objects that A has decided to delete
    b: Taker = Taker()
    c: Taker = Taker()


def explore(rules: Rules, states_max: int = 3_000_000) -> int:
    """How many states there are; raises AssertionError in the first that is broken."""
    seen = {State()}
    front = [State()]
    while front:
        ahead: list[State] = []
        for state in front:
            for next_ in steps(state, rules):
                if next_ not in seen:
                    seen.add(next_)
                    judge(next_, rules)
                    ahead.append(next_)
        assert len(seen) < states_max, "the model has grown beyond what a test can search"
        front = ahead
    return len(seen)


def judge(state: State, rules: Rules) -> None:
    """What must hold in every state."""
    objects = dict(state.objects)
    served = [taker.log for taker in (state.b, state.c) if taker.step == "served"]
    for log in served:
        assert log == tuple(range(len(log))), f"a replay has a hole: {state}"
        for batch, acked in enumerate(state.acked):
            assert not acked or batch in log, f"an acknowledged batch is lost: {state}"
    assert len(set(served)) < 2, f"two replays differ: {state}"
    assert not state.late, f"acknowledged after the takeover: {state}"
    assert not state.believes_fenced or not state.open, f"A fenced itself: {state}"
    fences = [number for number, what in objects.items() if what == FENCE]
    if fences and served:
        ahead = fences[0] + (WINDOW if rules.window else 1)
        strays = [number for number, what in objects.items() if what != FENCE and number >= ahead]
        strays += [number for number, _ in state.network if number >= ahead]
        assert not strays, f"a put of the old run is where the next run writes: {state}"


def steps(state: State, rules: Rules) -> Iterator[State]:
    yield from _network(state)
    if not state.believes_fenced:
        yield from _writer(state, rules)
    yield from _takers(state, rules)
    if not rules.keep_fences:
        kept = tuple(item for item in state.objects if item[1] != FENCE)
        if kept != state.objects:
            yield state._replace(objects=kept)


# The network delivers puts late; the reply may be lost, then A learns nothing.


def _network(state: State) -> Iterator[State]:
    for put in state.network:
        number, _ = put
        rest = tuple(each for each in state.network if each != put)
        there = dict(state.objects)
        if number not in there:
            objects = tuple(sorted([*state.objects, (number, number)]))
            yield state._replace(network=rest, objects=objects)
            if state.heard[number] == "sent":
                yield state._replace(network=rest, objects=objects, heard=_set(state.heard, number, "ok"))
        else:
            yield state._replace(network=rest)
            if state.heard[number] == "sent":  # 412: the writer looks at what is there, in a step of its own
                yield state._replace(network=rest, heard=_set(state.heard, number, "412"))


# The writer


def _writer(state: State, rules: Rules) -> Iterator[State]:
    first_unheard = next((n for n in range(BATCHES) if state.heard[n] != "ok"), BATCHES)
    for number in range(first_unheard, min(first_unheard + WINDOW, BATCHES)):
        if state.heard[number] in ("", "sent") and sum(state.attempts) < PUTS:
            if number > first_unheard and state.heard[number - 1] == "":
                continue  # numbers are given out in order
            put = (number, state.attempts[number])
            yield state._replace(
                network=tuple(sorted({*state.network, put})),
                heard=_set(state.heard, number, "sent"),
                attempts=_set(state.attempts, number, state.attempts[number] + 1),
            )
        if state.heard[number] == "412":
            yield _after_412(state, number, rules)
    yield from _acknowledge(state, rules)
    yield from _trim(state, rules)


def _after_412(state: State, number: int, rules: Rules) -> State:
    there = dict(state.objects).get(number)
    if rules.look_at_412 and there == number:
        return state._replace(heard=_set(state.heard, number, "ok"))
    if rules.look_at_412 and there is None:  # trimmed, or not there yet: send again
        return state._replace(heard=_set(state.heard, number, "sent"))
    return state._replace(believes_fenced=True)


def _acknowledge(state: State, rules: Rules) -> Iterator[State]:
    if rules.acknowledge_in_order:
        end = next((n for n in range(BATCHES) if state.heard[n] != "ok"), BATCHES)
        due = [n for n in range(end) if not state.acked[n]]
    else:
        due = [n for n in range(BATCHES) if state.heard[n] == "ok" and not state.acked[n]]
    if not due:
        return
    if rules.check_after_put and not state.open:
        yield state._replace(believes_fenced=True)
        return
    acked = tuple(done or n in due for n, done in enumerate(state.acked))
    yield state._replace(acked=acked, late=not state.open)


def _trim(state: State, rules: Rules) -> Iterator[State]:
    acked = next((n for n in range(BATCHES) if not state.acked[n]), BATCHES)
    if state.cold < acked:
        yield state._replace(cold=state.cold + 1)  # sealing: the cold store has its own protocol
    before = state.cold if rules.trim_cold_only else acked
    if rules.boundary_first:
        if state.open and before > state.boundary:
            doomed = tuple(n for n, what in state.objects if what != FENCE and n < before)
            yield state._replace(boundary=before, doomed=doomed)
    else:
        doomed = tuple(n for n, what in state.objects if what != FENCE and n < before)
        if doomed and doomed != state.doomed:
            yield state._replace(doomed=doomed)
    for number in state.doomed:
        yield state._replace(
            objects=tuple(item for item in state.objects if item[0] != number),
            doomed=tuple(n for n in state.doomed if n != number),
        )


# The takers: end the tenure, walk from the boundary, fence the first number that is absent


def _takers(state: State, rules: Rules) -> Iterator[State]:
    for taken in _taker(state, state.b, rules):
        yield taken[0]._replace(b=taken[1])
    if state.b.step in ("walk", "fence"):
        yield state._replace(b=state.b._replace(step="dead"))
    if state.b.step in ("dead", "served"):
        for taken in _taker(state, state.c, rules):
            yield taken[0]._replace(c=taken[1])


def _taker(state: State, taker: Taker, rules: Rules) -> Iterator[tuple[State, Taker]]:
    there = dict(state.objects).get(taker.at)
    if taker.step == "idle":
        yield (
            state._replace(open=False),
            Taker("walk", state.boundary, tuple(range(min(state.boundary, state.cold)))),
        )
    elif taker.step == "walk" and there == FENCE:
        yield state, taker._replace(step="served")
    elif taker.step == "walk" and there is not None:
        yield state, Taker("walk", taker.at + 1, (*taker.log, there))
    elif taker.step == "walk" and not rules.fence:
        yield state, taker._replace(step="served")
    elif taker.step == "walk":
        yield state, taker._replace(step="fence")
    elif taker.step == "fence" and there is None:
        fenced = tuple(sorted([*state.objects, (taker.at, FENCE)]))
        yield state._replace(objects=fenced), taker._replace(step="served")
    elif taker.step == "fence":  # the condition did not hold: A was quicker
        yield state, taker._replace(step="walk")


def _set(items: tuple, at: int, value: object) -> tuple:
    return (*items[:at], value, *items[at + 1 :])
