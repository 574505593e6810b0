"""Liveness: silence grows by looks, ends with a change, and a pause of the observer is no silence of others."""

from __future__ import annotations

from coldstore.shared.clock import ManualClock
from sharding.documents.liveness import Liveness


def looks(liveness: Liveness, clock: ManualClock, seconds: float, count: int, **versions: str) -> None:
    for _ in range(count):
        clock.advance(seconds)
        liveness.look(versions)


def test_a_document_is_silent_after_longer_than_the_limit_and_not_sooner() -> None:
    clock = ManualClock()
    liveness = Liveness(clock, 10.0)
    looks(liveness, clock, 2.0, 6, a="1", b="1")
    assert liveness.silence("a") == 10.0
    assert liveness.is_alive("a")
    clock.advance(0.5)
    liveness.look({"a": "1", "b": "2"})
    assert liveness.is_silent("a")
    assert not liveness.is_alive("a")
    assert liveness.is_alive("b")
    assert liveness.silence("b") == 0.0


def test_silence_grows_by_looks_alone() -> None:
    clock = ManualClock()
    liveness = Liveness(clock, 10.0)
    liveness.look({"a": "1"})
    clock.advance(3600.0)
    assert liveness.is_alive("a")
    liveness.look({"a": "1"})
    assert liveness.is_silent("a")


def test_a_pause_of_the_observer_counts_up_to_the_gap() -> None:
    clock = ManualClock()
    liveness = Liveness(clock, 10.0, gap_seconds=4.0)
    looks(liveness, clock, 3600.0, 3, a="1")
    assert liveness.silence("a") == 8.0
    assert liveness.is_alive("a")
    looks(liveness, clock, 2.0, 2, a="1")
    assert liveness.is_silent("a")


def test_a_document_that_is_gone_is_neither_alive_nor_silent() -> None:
    clock = ManualClock()
    liveness = Liveness(clock, 10.0)
    looks(liveness, clock, 20.0, 2, a="1", b="1")
    liveness.look({"b": "1"})
    liveness.forget("b")
    for name in ("a", "b", "never"):
        assert not liveness.is_alive(name)
        assert not liveness.is_silent(name)
        assert liveness.version(name) is None
    assert liveness.names == frozenset()
    liveness.look({"a": "1"})
    assert liveness.is_alive("a"), "a document that comes back begins anew"


def test_a_change_that_is_noted_between_two_looks_begins_at_that_moment() -> None:
    clock = ManualClock()
    liveness = Liveness(clock, 10.0)
    looks(liveness, clock, 8.0, 2, a="1")
    clock.advance(6.0)
    liveness.note("a", "1")
    liveness.note("b", "1")
    looks(liveness, clock, 4.0, 1, a="1", b="1")
    assert liveness.is_silent("a"), "the same version is no sign of life"
    assert liveness.silence("a") == 18.0
    assert liveness.silence("b") == 4.0
    assert liveness.version("b") == "1"
