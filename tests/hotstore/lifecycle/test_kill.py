"""kill -9 at every named point, in a real process on a real disk; then the audit."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from coldstore.shared import failpoint
from tests.hotstore.promises import Promises, Victims

RECOVERY = [name for name in failpoint.NAMES if name.startswith("recovery.")]
POINTS = [name for name in failpoint.NAMES if name not in RECOVERY]


@pytest.fixture(scope="module")
def victims() -> Iterator[Victims]:
    with Victims() as made:
        yield made


@pytest.fixture(scope="module")
def reached(victims: Victims, tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """How often an undisturbed life reaches each point."""
    status, said = victims.live(tmp_path_factory.mktemp("count"), "work", arm="count")
    assert status == 0
    counts: dict[str, int] = said[-1][1]
    return counts


def test_every_registered_fail_point_is_reached(reached: dict[str, int]) -> None:
    assert {name: count for name, count in reached.items() if count == 0} == {}
    assert set(reached) == set(failpoint.NAMES)


@pytest.mark.parametrize("point", POINTS)
def test_kill_nine_loses_nothing_that_was_acknowledged(
    victims: Victims, reached: dict[str, int], tmp_path: Path, point: str
) -> None:
    # Given several of the times that a life reaches the point; not the last, as the number of groups varies
    times = sorted({1, *(max(1, reached[point] * part // 4) for part in (1, 2, 3))})
    for nth in times:
        path = tmp_path / str(nth)
        path.mkdir()
        store = Promises(victims, path)
        # When it is killed there
        assert store.live(f"{point}:{nth}:kill") == -signal.SIGKILL, "the point was not reached"
        # Then everything is there
        assert store.audit() == 0
        # And it goes on as if nothing had happened
        if nth == times[-1]:
            assert store.live() == 0
            assert store.audit() == 0


@pytest.mark.parametrize("point", RECOVERY)
@pytest.mark.parametrize("before", ["journal.synced:33:kill", "journal.rolled:1:kill"])
def test_killed_again_and_again_while_it_recovers_it_still_loses_nothing(
    victims: Victims, tmp_path: Path, point: str, before: str
) -> None:
    store = Promises(victims, tmp_path)
    assert store.live(before) == -signal.SIGKILL
    for _ in range(2):
        assert store.audit(f"{point}:1:kill") == -signal.SIGKILL
    assert store.audit() == 0


def test_life_after_life_cut_short_at_ever_other_points(victims: Victims, tmp_path: Path) -> None:
    store = Promises(victims, tmp_path)
    script = [
        "journal.written:9:kill",
        "seal.switched:3:kill",
        "journal.segment_created:2:kill",
        "merge.data_put:1:kill",
    ]
    for arm in [*script, "checkpoint.renamed:1:kill", "journal.trimmed:1:kill"]:
        store.live(arm)
        assert store.audit() == 0
    assert store.live() == 0
    assert store.audit() == 0
