"""What a checkpoint holds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from coldstore.shared.errors import InvalidInput
from jjq.spark.stream.progress import Cut, Progress


@pytest.mark.parametrize(
    "progress",
    [
        Progress(0, "a" * 32, start="end"),
        Progress(7, "a" * 32, cut=Cut(5, 65_536, 250_000)),
        Progress(2**62, "b" * 32),
    ],
)
def test_a_checkpoint_gives_back_what_was_written(progress: Progress) -> None:
    assert Progress.of(json.loads(json.dumps(progress.document()))) == progress


def test_where_a_stream_began_is_never_taken_for_a_later_place() -> None:
    assert Progress(7, "a", start="end").document() != Progress(7, "a").document()


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"offset": "7", "queue": "a"},
        {"offset": True, "queue": "a"},
        {"offset": 7},
        {"offset": 7, "queue": 1},
    ],
)
def test_the_checkpoint_of_something_else_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="not that of a jjq stream"):
        Progress.of(document)
