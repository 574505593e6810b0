"""What stops a zombie: the check after each put, the fence, or both; the very code, in every order of its steps.

Each of the two is enough to keep every acknowledgement true, which is why no client can see that one of
them is missing; and without both elements are lost. See the table of mistakes in docs/faults.md.
"""

from __future__ import annotations

import pytest

from sharding.documents.tenure import OwnTenure
from sharding.journal import fencing
from sharding.journal.object_journal import ObjectJournal
from tests.coldstore.interleave import explore
from tests.sharding.takeover.test_interleavings import SCENES, Inline, Journals

SCENE = SCENES["writer and taker"]


class Patient(Journals):
    """Bears an acknowledgement after the end of the tenure, as clients do, but no loss."""

    def after_step(self) -> None:
        return None


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fencing, "ThreadPoolExecutor", Inline)
    monkeypatch.setattr(fencing, "JOURNAL_READS_MAX", 1)


def skip_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OwnTenure, "check", lambda held: None)


def take_for_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ObjectJournal, "_is_ours", lambda journal, key, number: True)


def test_without_the_check_an_acknowledgement_comes_late_and_is_true_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    skip_check(monkeypatch)
    late = [world.late for world in explore(lambda: Patient(*SCENE))]  # type: ignore[attr-defined]
    assert any(late), "the mistake makes no difference at all"
    assert not all(late)


def test_whoever_takes_a_fence_for_its_own_object_is_stopped_by_the_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    take_for_our_own(monkeypatch)
    assert sum(1 for _ in explore(lambda: Journals(*SCENE))) > 2


def test_without_both_elements_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    skip_check(monkeypatch)
    take_for_our_own(monkeypatch)
    with pytest.raises(AssertionError, match="lost"):
        for _ in explore(lambda: Patient(*SCENE)):
            pass
