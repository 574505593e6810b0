"""Several groups in flight: settled in order, never before they are durable, and nothing after a failure."""

from __future__ import annotations

import asyncio
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coldstore.shared.errors import Exhausted, Unavailable
from hotstore.journal.port import Poisoned
from tests.hotstore.kit import turns
from tests.hotstore.write.flights import committing


async def test_the_next_group_goes_out_while_the_ones_before_it_are_on_their_way() -> None:
    async with committing() as made:
        for name in "abc":
            made.submit(name)
        await made.appended(3)
        assert made.journal.batches == [[b"a"], [b"b"], [b"c"]]
        assert made.log == []
        made.journal.land(3)
        await made.until(lambda: len(made.log) == 3)
        assert made.fates == ["a settled", "b settled", "c settled"]
        assert made.committer.groups == 3
        assert made.committer.pending_bytes == 0


async def test_a_group_is_settled_without_those_behind_it() -> None:
    async with committing() as made:
        made.submit("a")
        await made.until(lambda: made.journal.syncs == 1)  # which is about a alone
        made.submit("b")
        await made.appended(2)
        made.journal.land()
        await made.until(lambda: made.fates == ["a settled"])
        await made.until(lambda: made.journal.syncs == 2)
        assert made.fates == ["a settled"]


async def test_no_more_groups_are_in_flight_than_the_journal_takes() -> None:
    async with committing(in_flight=2) as made:
        for name in "abcd":
            made.submit(name)
        await made.appended(2)
        await turns()
        assert made.prepared == ["a", "b"]
        assert made.committer.pending_bytes == 40
        made.journal.land(2)
        await made.appended(3)
        assert made.fates[:1] == ["a settled"]
        made.journal.land_all()  # the sync of b may have begun behind c, and waits for both
        await made.appended(4)
        assert made.fates[:2] == ["a settled", "b settled"]


async def test_groups_that_are_in_flight_together_share_the_bytes_of_one() -> None:
    async with committing(in_flight=3) as made:
        for name in "abcdef":
            made.submit(name, 5)
        await made.appended(3)
        assert made.journal.batches == [[b"a", b"b"], [b"c", b"d"], [b"e", b"f"]]


async def test_one_sync_covers_all_that_was_appended_before_it() -> None:
    async with committing() as made:
        made.submit("a")
        await made.until(lambda: made.journal.syncs == 1)
        made.submit("b")
        made.submit("c")
        await made.appended(3)
        made.journal.land_all()
        await made.until(lambda: len(made.log) == 3)
        assert made.journal.syncs == 2


async def test_a_failure_takes_all_groups_behind_it_along_and_none_before_it() -> None:
    async with committing() as made:
        made.submit("a")
        await made.until(lambda: made.journal.syncs == 1)
        for name in "bcd":
            made.submit(name)
        await made.appended(3)
        made.journal.land()
        made.journal.break_down()
        await made.until(lambda: len(made.log) == 4)
        assert made.fates[0] == "a settled"
        assert made.fates[1:] == ["b unknown", "c unknown", "d unknown"]
        assert len(made.poisons) == 1
        assert made.committer.pending_bytes == 0
        with pytest.raises(Unavailable):
            made.submit("e")


async def test_a_group_whose_append_failed_waits_for_those_before_it() -> None:
    # Given a group on its way, and one behind it that the journal could not even append
    async with committing() as made:
        await made.refused_behind(Poisoned("by order of a test"))
        made.submit("c")
        await turns()
        # Then nothing is said, nor begun, before the first has landed
        assert made.log == []
        assert made.prepared == ["a", "b"]
        made.journal.land()
        await made.until(lambda: len(made.log) == 3)
        assert made.fates == ["a settled", "b unknown", "c unknown"]


async def test_an_earlier_failure_goes_before_a_later_one() -> None:
    async with committing() as made:
        await made.refused_behind(Exhausted("no room, by order of a test"))
        made.journal.break_down()
        await made.until(lambda: len(made.log) == 2)
        assert made.fates == ["a unknown", "b unknown"]
        assert len(made.poisons) == 1


async def test_a_refusal_for_lack_of_room_is_of_its_own_group_alone() -> None:
    async with committing() as made:
        await made.refused_behind(Exhausted("no room, by order of a test"))
        made.submit("c")
        await turns()
        assert made.prepared == ["a", "b"]  # c would build on b, which is still to be undone
        made.journal.land()
        await made.appended(2)
        assert made.fates == ["a settled", "b refused"]
        assert made.journal.batches == [[b"a"], [b"c"]]
        made.journal.land()
        await made.until(lambda: len(made.log) == 3)
        assert made.fates[2] == "c settled"
        assert not made.poisons


async def test_a_group_of_rejections_is_told_after_the_groups_that_it_rests_on() -> None:
    async with committing() as made:
        made.submit("a")
        await made.appended(1)
        made.submit("b", rejected=True)
        await made.until(lambda: made.prepared == ["a", "b"])
        await turns()
        assert made.log == []
        made.journal.land()
        await made.until(lambda: len(made.log) == 2)
        assert made.fates == ["a settled", "b settled"]
        assert len(made.journal.batches) == 1


async def test_a_call_runs_between_two_appends_while_a_group_is_in_flight() -> None:
    async with committing() as made:
        made.submit("a")
        await made.appended(1)
        entered, leave = threading.Event(), threading.Event()

        def work() -> int:
            entered.set()
            assert leave.wait(30)
            return len(made.journal.batches)

        call = asyncio.create_task(made.committer.call(work))
        assert await asyncio.to_thread(entered.wait, 30)
        made.submit("b")
        await turns()
        assert made.prepared == ["a"]
        leave.set()
        assert await call == 1
        await made.appended(2)


async def test_closing_waits_for_every_group() -> None:
    async with committing(in_flight=2) as made:
        for name in "abc":
            made.submit(name)
        await made.appended(2)
        closing = asyncio.create_task(made.committer.close())
        await turns()
        assert not closing.done()
        with pytest.raises(Unavailable):
            made.submit("d")
        made.journal.land_all()
        await closing
        assert made.fates == ["a settled", "b settled", "c settled"]


async def test_closing_after_a_failure_leaves_nobody_waiting() -> None:
    async with committing() as made:
        for name in "abcde":
            made.submit(name)
        await made.appended(3)
        made.journal.break_down()
        await made.committer.close()
        assert made.fates == [f"{name} unknown" for name in "abcde"]


async def test_a_full_group_waits_for_no_interval_and_a_small_one_does() -> None:
    async with committing() as made:
        made.committer.every_seconds = 3_600.0
        made.submit("a")
        made.submit("b", 4)
        await made.appended(1)
        await turns()
        assert made.prepared == ["a"]
        made.submit("c", 6)
        await made.appended(2)
        assert made.journal.batches == [[b"a"], [b"b", b"c"]]


Step = tuple[str, int]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["submit", "reject"]), st.integers(1, 12)),
        st.tuples(st.just("land"), st.integers(1, 3)),
        st.tuples(st.sampled_from(["refuse", "wait"]), st.just(1)),
    ),
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(steps=STEPS, in_flight=st.integers(2, 4), breaks=st.booleans())
def test_fates_are_told_in_order_and_nothing_is_settled_early_or_after_a_failure(
    steps: list[Step], in_flight: int, breaks: bool
) -> None:
    asyncio.run(_play(steps, in_flight, breaks))


async def _play(steps: list[Step], in_flight: int, breaks: bool) -> None:
    async with committing(in_flight) as made:  # a word that is settled checks that it has landed
        names: list[str] = []
        rejected: set[str] = set()
        for number, (verb, count) in enumerate(steps):
            match verb:
                case "submit" | "reject":
                    names.append(f"{number}")
                    rejected |= {names[-1]} if verb == "reject" else set()
                    made.submit(names[-1], count, rejected=verb == "reject")
                case "land":
                    landing = min(count, len(made.journal.batches) - made.journal.landed)
                    made.journal.land(landing)
                case "refuse":
                    made.journal.refusals.append(Exhausted("no room, by order of a test"))
                case "wait":
                    await asyncio.sleep(0.001)
        if breaks:
            made.journal.break_down()
        else:
            made.journal.land_all()
        await made.committer.close()
        fates = [fate for fate, _ in made.log]
        assert [name for _, name in made.log] == names
        assert fates == sorted(fates, key=lambda fate: fate == "unknown")
        settled = [name.encode() for fate, name in made.log if fate == "settled" and name not in rejected]
        stored = [name for batch in made.journal.batches for name in batch]
        assert stored[: len(settled)] == settled
        assert "refused" in fates or breaks or stored == settled
        assert len(made.poisons) == ("unknown" in fates)
        assert made.committer.pending_bytes == 0
