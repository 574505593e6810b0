"""Pauses between attempts: how they grow, how they spread, and that none ends after the deadline."""

from __future__ import annotations

import asyncio

import pytest

from coldstore.shared.backoff import Backoff
from coldstore.shared.chance import SeededChance
from coldstore.shared.clock import ManualClock


def test_pauses_double_up_to_the_longest() -> None:
    backoff = Backoff(0.5, 3.0)

    assert [backoff.next_pause() for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    assert backoff.attempts == 5


def test_after_a_success_the_first_pause_comes_again() -> None:
    backoff = Backoff(0.5, 3.0)
    backoff.next_pause()
    backoff.next_pause()

    backoff.reset()

    assert backoff.attempts == 0
    assert backoff.next_pause() == 0.5


def test_chance_spreads_a_pause_between_half_and_all_of_it() -> None:
    backoff = Backoff(1.0, 8.0, SeededChance(3))

    pauses = [backoff.pause_after(3) for _ in range(200)]

    assert all(2.0 <= pause < 4.0 for pause in pauses)
    assert max(pauses) - min(pauses) > 1.0
    assert backoff.attempts == 0  # asking for one pause counts nothing


def test_no_number_of_attempts_is_too_large() -> None:
    assert Backoff(0.05, 2.0).pause_after(1_000_000) == 2.0


async def test_waiting_stops_where_the_deadline_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()

    async def sleep(seconds: float) -> None:
        clock.advance(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    backoff = Backoff(1.0, 8.0)

    assert await backoff.wait(clock, deadline=7.5)  # until 1
    assert await backoff.wait(clock, deadline=7.5)  # until 3
    assert await backoff.wait(clock, deadline=7.5)  # until 7
    assert not await backoff.wait(clock, deadline=7.5)
    assert clock.monotonic() == 7.0  # the pause that did not fit was not begun


async def test_a_server_that_names_a_delay_is_given_it(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()

    async def sleep(seconds: float) -> None:
        clock.advance(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)

    assert await Backoff(0.05, 2.0).wait(clock, deadline=9.0, at_least=5.0)
    assert clock.monotonic() == 5.0
    assert not await Backoff(0.05, 2.0).wait(clock, deadline=9.0, at_least=5.0)
