"""Waiting for a condition, with a deadline; nobody sleeps for a guess."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress

from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock

LOWEST, PORTS = 20_000, 12_000


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 10.0) -> None:
    """Return once `condition` holds; fail the test if it does not within `seconds`."""
    clock, pause = SystemClock(), threading.Event()
    deadline = clock.monotonic() + seconds
    while not condition():
        if clock.monotonic() > deadline:
            raise AssertionError(f"waited {seconds:g} s in vain until {what}")
        pause.wait(0.02)


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface that nobody listens on; all different.

    They lie below those that the kernel gives to outgoing connections: of these any may be taken until a server that
    is told to listen on it has started.
    """
    chance, found = SystemChance(), set[int]()
    while len(found) < count:
        port = LOWEST + int(chance.token()[:8], 16) % PORTS
        with socket.socket() as probe, suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            found.add(port)
    return list(found)
