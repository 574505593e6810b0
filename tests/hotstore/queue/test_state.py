"""The lifecycle of a queue: which phase follows which, what each means for requests, and what a restart finds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from coldstore.shared.errors import DataLoss, Fenced
from hotstore.journal import records
from hotstore.queue.state import Lifecycle, Phase

WHY = Fenced("queue orders is served by node b: go there", owner="b")

Step = Callable[[Lifecycle], None]


def _leave(state: Lifecycle) -> None:
    state.leave(WHY)


def _reopen(state: Lifecycle) -> None:
    state.reopen(journalled=True)


STEPS: dict[str, Step] = {
    "arrive": Lifecycle.arrive,
    "settle": Lifecycle.settle,
    "confirm": Lifecycle.confirm,
    "open": Lifecycle.open,
    "close": Lifecycle.close,
    "leave": _leave,
    "stay": Lifecycle.stay,
    "reopen": _reopen,
    "doubt_owner": Lifecycle.doubt_owner,
    "end": Lifecycle.end,
}

# How a phase is reached, and every step that is allowed there with the phase it leads to.
PATHS: dict[Phase, tuple[str, ...]] = {
    Phase.KNOWN: (),
    Phase.ARRIVING: ("arrive",),
    Phase.OPEN: ("open",),
    Phase.CLOSING: ("open", "close"),
    Phase.LEAVING: ("open", "close", "leave"),
    Phase.RETURNING: ("open", "close", "stay"),
    Phase.UNDECIDED: ("open", "close", "leave", "doubt_owner"),
    Phase.GONE: ("end",),
}
ALLOWED: dict[Phase, dict[str, Phase]] = {
    Phase.KNOWN: {
        "arrive": Phase.ARRIVING,
        "confirm": Phase.KNOWN,
        "open": Phase.OPEN,
        "end": Phase.GONE,
    },
    Phase.ARRIVING: {"settle": Phase.KNOWN, "end": Phase.GONE},
    Phase.OPEN: {"close": Phase.CLOSING},
    Phase.CLOSING: {"leave": Phase.LEAVING, "stay": Phase.RETURNING},
    Phase.LEAVING: {"stay": Phase.RETURNING, "doubt_owner": Phase.UNDECIDED, "end": Phase.GONE},
    Phase.RETURNING: {"reopen": Phase.OPEN},
    Phase.UNDECIDED: {"confirm": Phase.KNOWN, "end": Phase.GONE},
    Phase.GONE: {},
}


def at(phase: Phase) -> Lifecycle:
    state = Lifecycle("orders")
    for step in PATHS[phase]:
        STEPS[step](state)
    assert state.phase is phase
    return state


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("step", STEPS)
async def test_a_step_leads_to_the_named_phase_or_raises_and_changes_nothing(phase: Phase, step: str) -> None:
    state = at(phase)
    expected = ALLOWED[phase].get(step)
    if expected is None:
        with pytest.raises(AssertionError, match=f"queue orders is {phase.value}: the step '{step}'"):
            STEPS[step](state)
        expected = phase
    else:
        STEPS[step](state)
    assert state.phase is expected
    assert state.is_open == (expected is Phase.OPEN)


@pytest.mark.parametrize("phase", Phase)
async def test_the_journal_knows_of_arriving_and_leaving(phase: Phase) -> None:
    standings = {
        Phase.ARRIVING: records.ARRIVING,
        Phase.LEAVING: records.LEAVING,
        Phase.UNDECIDED: records.LEAVING,
    }
    assert at(phase).standing == standings.get(phase, records.SETTLED)


@pytest.mark.parametrize("before", [records.SETTLED, records.ARRIVING, records.LEAVING])
@pytest.mark.parametrize(
    ("standing", "phase"),
    [
        (records.SETTLED, Phase.KNOWN),
        (records.ARRIVING, Phase.ARRIVING),
        (records.LEAVING, Phase.UNDECIDED),
    ],
)
def test_the_last_row_of_the_journal_decides_the_phase_of_a_recovered_queue(
    before: int, standing: int, phase: Phase
) -> None:
    state = Lifecycle("orders")
    state.recover(before)
    state.recover(standing)
    assert (state.phase, state.standing) == (phase, standing)
    assert state.is_held, "until its owner document says otherwise"
    assert not state.is_open


async def test_requests_wait_from_closing_until_the_decision() -> None:
    for decide, held in ((_stay, True), (_stay_unjournalled, True), (Lifecycle.doubt_owner, False)):
        state = at(Phase.LEAVING)
        decision = state.decision
        assert decision is not None
        assert not decision.done()
        assert not state.is_held
        decide(state)
        assert decision.done()
        assert state.decision is None
        assert state.is_held == held


def _stay(state: Lifecycle) -> None:
    state.stay()
    state.reopen(journalled=True)
    assert state.phase is Phase.OPEN


def _stay_unjournalled(state: Lifecycle) -> None:
    state.stay()
    state.reopen(journalled=False)
    assert state.phase is Phase.KNOWN


async def test_a_decision_that_a_waiting_request_cancelled_is_no_hindrance() -> None:
    state = at(Phase.LEAVING)
    assert state.decision is not None
    state.decision.cancel()
    await asyncio.sleep(0)
    state.end()
    assert state.phase is Phase.GONE


async def test_writes_are_refused_from_leaving_on_until_the_queue_stays() -> None:
    assert at(Phase.CLOSING).refusal is None, "accepted pushes still reach the journal"
    assert at(Phase.LEAVING).refusal is WHY
    gone = at(Phase.LEAVING)
    gone.end()
    assert gone.refusal is WHY, "for pushes that still hold the queue"
    back = at(Phase.UNDECIDED)
    back.confirm()
    assert back.refusal is None


async def test_damage_and_doubt_do_not_depend_on_the_phase() -> None:
    for phase in Phase:
        state = at(phase)
        state.suspect("records are lost", 7)
        assert state.doubt is not None
        assert "from offset 7 on: records are lost" in state.doubt.message
        assert state.loss is state.doubt
        damage = DataLoss("the wrong cold store")
        state.report_damage(damage)
        state.report_holes([(3, 5)], DataLoss("3..4 are missing"))
        assert state.loss is damage, "the graver one, which was known first"
        assert state.phase is phase
        state.repair()
        state.trust()
        assert state.loss is None


def test_a_doubt_is_a_row_of_the_journal() -> None:
    state = Lifecycle("orders")
    state.suspect("records are lost", 7)
    state.doubt_stored = True
    assert state.doubt_row(4) == [4, "orders", "records are lost"]
    state.trust()
    assert (state.doubt_row(4), state.doubt_stored) == ([4, "orders", ""], False)
