"""The small things that everything stands on: errors, limits, clock, chance, fail points, keys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coldstore.layout import paths
from coldstore.shared import errors, failpoint, limits
from coldstore.shared.chance import SeededChance, SystemChance
from coldstore.shared.clock import ManualClock, SystemClock
from coldstore.shared.errors import InvalidInput, JjqError, Unavailable

NAMES = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9_-]{0,20}\Z")
OFFSETS = st.integers(0, limits.OFFSET_MAX)


def test_there_are_at_most_eight_kinds_of_error_and_each_says_what_to_do() -> None:
    assert set(errors.KINDS) == set(JjqError.__subclasses__())
    assert len(errors.KINDS) <= 8
    assert len({kind.code for kind in errors.KINDS}) == len(errors.KINDS)
    for kind in errors.KINDS:
        assert kind.__doc__
        assert kind.__name__ in (errors.__doc__ or "")


def test_an_invariant_holds_under_optimisation_too() -> None:
    with pytest.raises(AssertionError, match="broken"):
        errors.check(False, "broken")


def test_the_system_clock_runs() -> None:
    clock = SystemClock()

    assert clock.monotonic() <= clock.monotonic()
    assert clock.now_us() > 1_700_000_000_000_000


def test_a_manual_clock_moves_only_when_told() -> None:
    clock = ManualClock(now_us=1_000_000)

    clock.sleep(1.5)
    clock.jump(-1)

    assert (clock.now_us(), clock.monotonic()) == (1_500_000, 1.5)


def test_a_seed_repeats_itself_and_identities_do_not() -> None:
    first, second = SeededChance(3), SeededChance(3)

    assert [first.token(), first.jitter()] == [second.token(), second.jitter()]
    assert len({SystemChance().token() for _ in range(100)}) == 100
    assert len(SystemChance().token()) == len(first.token()) == 32
    assert 0 <= SystemChance().jitter() < 1


def test_a_fail_point_acts_once_at_the_nth_time() -> None:
    failpoint.arm_from({"JJQ_FAILPOINTS": "block.data_put:2:raise"})
    try:
        failpoint.reach("block.data_put")
        with pytest.raises(Unavailable):
            failpoint.reach("block.data_put")
        failpoint.reach("block.data_put")
    finally:
        failpoint.disarm()


@pytest.mark.parametrize(
    "text", ["nowhere:1:kill", "block.data_put:0:kill", "block.data_put:1:shout", "block.data_put"]
)
def test_a_misspelt_fail_point_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        failpoint.arm_from({"JJQ_FAILPOINTS": text})


@given(NAMES, OFFSETS, OFFSETS)
def test_every_key_that_is_built_is_read_back_and_allowed(name: str, first: int, next_: int) -> None:
    assert paths.queue_name(paths.check_key(paths.queue(name))) == name
    assert paths.data_first(paths.check_key(paths.data(name, first))) == first
    assert paths.young_first(paths.check_key(paths.young(name, first, "0a"))) == first
    assert paths.parse_meta(paths.check_key(paths.meta(name, first, "young"))) == (first, "young")
    assert paths.parse_rollup(paths.check_key(paths.rollup(name, first, next_))) == (first, next_)


@given(OFFSETS, OFFSETS)
def test_keys_sort_as_offsets_do(one: int, other: int) -> None:
    assert (paths.data("q", one) < paths.data("q", other)) == (one < other)
    assert paths.meta_before("q", one) < paths.meta("q", one, "final") < paths.meta("q", one, "young")


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a..b", "/", "a/b", "-a", "_a", ".a", "a b", "é", "a\n", "a" * 129, "a" * 10_000]
)
def test_a_name_that_is_no_safe_folder_is_refused_in_one_line(name: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        paths.check_name(name)

    assert len(str(caught.value)) < 300
    assert "letters" in str(caught.value)


@pytest.mark.parametrize("key", ["", "/a", "a/", "a//b", "../a", "a/..", "a/.b", "a b", "a\x00", "a" * 1_025])
def test_a_key_that_some_store_cannot_hold_is_refused(key: str) -> None:
    with pytest.raises(InvalidInput):
        paths.check_key(key)


@given(st.text())
def test_no_text_makes_a_name_or_key_that_leads_elsewhere(text: str) -> None:
    try:
        name = paths.check_name(text)
    except InvalidInput:
        return
    assert "/" not in name
    assert name not in (".", "..")
    assert paths.queue(name) == f"queues/{name}/queue.json"
