"""Waiting for a condition, with a deadline; nobody sleeps for a guess."""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

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
    """Ports of the loopback interface that nobody listens on; all different, and no test is given one of them again.

    They lie below those that the kernel gives to outgoing connections: of these any may be taken until a server that
    is told to listen on it has started.
    """
    chance, found = SystemChance(), list[int]()
    while len(found) < count:
        port = LOWEST + int(chance.token()[:8], 16) % PORTS
        with socket.socket() as probe, suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            if _claim(port):
                found.append(port)
    return found


def _claim(port: int) -> bool:
    """Take a port for this process until it ends: others that test at the same time choose other ones.

    Each port is a byte of a file that all processes of a user lock; the system gives the locks back.
    """
    file, mine = _claims()
    if port in mine:
        return False
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except BlockingIOError:
        return False
    mine.add(port)
    return True


@cache
def _claims() -> tuple[int, set[int]]:
    path = Path(tempfile.gettempdir()) / f"jjq-test-ports-{os.getuid()}"
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600), set()
