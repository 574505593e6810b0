"""Trying again: how often, how long, how far apart."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coldstore.objects.retry import Retry, Transient
from coldstore.shared.chance import SeededChance
from coldstore.shared.clock import ManualClock
from coldstore.shared.errors import Conflict, Unavailable
from coldstore.shared.limits import OBJECT_BACKOFF_SECONDS, OBJECT_BACKOFF_SECONDS_MAX


class Sleeps(ManualClock):
    """Keeps what it was told to sleep."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        super().sleep(seconds)


def failing(times: int, clock: ManualClock | None = None, seconds: float = 0.0) -> Callable[[], str]:
    """An attempt that fails so often, and takes so long."""
    left = [None] * times

    def attempt() -> str:
        if clock is not None:
            clock.advance(seconds)
        if left:
            left.pop()
            raise Transient("no answer", doubt=False)
        return "done"

    return attempt


def test_an_attempt_that_succeeds_is_the_only_one() -> None:
    clock = Sleeps()

    assert Retry(clock, SeededChance(1)).run("try", failing(0)) == "done"

    assert clock.slept == []


def test_pauses_double_up_to_a_bound_with_jitter() -> None:
    clock = Sleeps()

    assert Retry(clock, SeededChance(1), seconds=60).run("try", failing(10)) == "done"

    longest = [min(OBJECT_BACKOFF_SECONDS * 2**n, OBJECT_BACKOFF_SECONDS_MAX) for n in range(10)]
    assert all(most / 2 <= pause < most for pause, most in zip(clock.slept, longest, strict=True))
    assert len({pause / most for pause, most in zip(clock.slept, longest, strict=True)}) == 10


def test_two_clients_do_not_retry_in_step() -> None:
    clocks = [Sleeps(), Sleeps()]
    for seed, clock in enumerate(clocks):
        Retry(clock, SeededChance(seed)).run("try", failing(3))

    assert not set(clocks[0].slept) & set(clocks[1].slept)


def test_a_used_up_budget_ends_in_unavailable_that_says_why() -> None:
    clock = Sleeps()

    with pytest.raises(Unavailable, match=r"cannot write key: no answer, for 5 s; retry"):
        Retry(clock, SeededChance(1), seconds=5).run("write key", failing(1_000))

    assert 3 < clock.monotonic() <= 5


def test_slow_attempts_count_against_the_budget() -> None:
    clock = Sleeps()

    with pytest.raises(Unavailable):
        Retry(clock, SeededChance(1), seconds=5).run("try", failing(1_000, clock, 2.0))

    assert len(clock.slept) == 2


def test_without_a_budget_there_is_one_attempt() -> None:
    with pytest.raises(Unavailable):
        Retry(Sleeps(), SeededChance(1), seconds=0).run("try", failing(1))


def test_a_certain_error_is_not_retried() -> None:
    clock = Sleeps()

    def attempt() -> None:
        raise Conflict("it exists")

    with pytest.raises(Conflict):
        Retry(clock, SeededChance(1)).run("try", attempt)
    assert clock.slept == []
