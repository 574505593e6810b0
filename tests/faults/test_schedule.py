"""The same seed gives the same schedule, and a quarter of the time is quiet."""

from __future__ import annotations

from itertools import pairwise

from tests.faults.nemeses.all import NEMESES
from tests.faults.schedule import QUIET, schedule

KINDS = tuple(NEMESES)


def test_the_same_seed_gives_the_same_schedule() -> None:
    assert schedule(7, KINDS, 100.0) == schedule(7, KINDS, 100.0)
    assert schedule(7, KINDS, 100.0) != schedule(8, KINDS, 100.0)


def test_every_kind_comes_up_and_about_a_quarter_of_the_time_is_quiet() -> None:
    periods = [period for seed in range(20) for period in schedule(seed, KINDS, 200.0)]
    assert {period.kind for period in periods} == {*KINDS, QUIET}
    quiet = sum(period.seconds for period in periods if period.kind == QUIET)
    assert 0.12 < quiet / sum(period.seconds for period in periods) < 0.3


def test_it_fills_the_time_and_begins_with_a_fault() -> None:
    periods = schedule(3, ("kill",), 10.0)
    assert periods[0].kind == "kill"
    assert 9.9 < sum(period.seconds for period in periods) < 12.5
    assert all(not (a.kind == b.kind == QUIET) for a, b in pairwise(periods))
