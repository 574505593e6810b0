"""Threads for blocking work: which give way to others, and which do not."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

from hotstore.runner import ThreadRunner


def niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


@pytest.fixture(params=[False, True])
def urgent(request: pytest.FixtureRequest) -> bool:
    found: bool = request.param
    return found


@pytest.fixture
def runner(urgent: bool) -> Iterator[ThreadRunner]:
    made = ThreadRunner("jjq-test", 1, urgent=urgent)
    yield made
    made.close()


async def test_only_urgent_work_has_the_priority_of_the_event_loop(
    runner: ThreadRunner, urgent: bool
) -> None:
    assert (await runner.run(niceness) == niceness()) == urgent
