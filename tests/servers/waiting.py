"""Waiting for a condition, with a deadline; nobody sleeps for a guess."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack

from coldstore.shared.clock import SystemClock


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 10.0) -> None:
    """Return once `condition` holds; fail the test if it does not within `seconds`."""
    clock, pause = SystemClock(), threading.Event()
    deadline = clock.monotonic() + seconds
    while not condition():
        if clock.monotonic() > deadline:
            raise AssertionError(f"waited {seconds:g} s in vain until {what}")
        pause.wait(0.02)


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface that nobody listens on; all different."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
