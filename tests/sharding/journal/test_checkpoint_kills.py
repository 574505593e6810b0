"""kill -9 at every step of a checkpoint on object storage; then the node goes on, and then another one takes over."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hotstore.promises import Promises, Victims

# In order. Those of the copy on the node's disk follow `checkpoint.kept`.
STEPS = ("begun", "written", "made", "kept", "synced", "renamed", "older_removed")
POINTS = (*(f"checkpoint.{step}" for step in STEPS), "journal.boundary")


@pytest.fixture(scope="module")
def victims() -> Iterator[Victims]:
    with Victims() as made:
        yield made


@pytest.fixture(scope="module")
def reached(victims: Victims, tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """How often an undisturbed life reaches each point."""
    status, said = victims.live(tmp_path_factory.mktemp("count"), "work", arm="count", node="a")
    assert status == 0
    counts: dict[str, int] = said[-1][1]
    return counts


@pytest.mark.parametrize("point", POINTS)
def test_kill_nine_in_a_checkpoint_loses_nothing(
    victims: Victims, reached: dict[str, int], tmp_path: Path, point: str
) -> None:
    assert reached[point], "the point is not reached"
    # Without a checkpoint before it, and with one; not the last time, as the number of them varies
    for nth in sorted({1, max(1, reached[point] * 3 // 4)}):
        path = tmp_path / str(nth)
        path.mkdir()
        node = Promises(victims, path, "a")
        assert node.live(f"{point}:{nth}:kill") == -signal.SIGKILL
        assert node.audit() == 0
        assert node.audit(taker="b") == 0
