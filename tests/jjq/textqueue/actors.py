"""Processes that share a text queue, for tests: writers, workers and editors. Run as `python -m`; they end by SIGTERM.

Each writes what it has done to a log of its own, a line at a time, so that a test knows it after a SIGKILL, too.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType

from coldstore.shared.chance import SeededChance
from coldstore.shared.clock import SystemClock
from coldstore.shared.errors import NotFound
from jjq.limits import TEXT_EDIT_SECONDS
from jjq.textqueue import MUTEX, TextQueue
from jjq.textqueue.sidecar import Sidecar
from tests.architecture.tree import ROOT
from tests.servers.jjq_server import clean_environment

_stopped = False


def _stop(number: int, frame: FrameType | None) -> None:
    global _stopped  # noqa: PLW0603 - a signal handler has no other way
    _stopped = True


def start(role: str, path: Path, log: Path, *more: str) -> subprocess.Popen[bytes]:
    """A process that plays this role on the file."""
    command = [sys.executable, "-m", "tests.jjq.textqueue.actors", role, str(path), str(log), *more]
    return subprocess.Popen(command, cwd=ROOT, env=clean_environment())


def logged(log: Path) -> list[str]:
    """Whole lines of a log."""
    return log.read_text().split("\n")[:-1] if log.exists() else []


def write(path: str, log: int, name: str, count: str, pause: str = "0") -> None:
    """Append numbered messages of one or several lines, each in the log once it is acknowledged."""
    clock = SystemClock()
    with TextQueue(path) as queue:
        for number in range(int(count)):
            if _stopped:
                return
            clock.sleep(float(pause))
            queue.append(f"{name}-{number}" + "\nmore ü" * (number % 3), [MUTEX])
            os.write(log, b"%s-%d\n" % (name.encode(), number))


def work(path: str, log: int) -> None:
    """Claim messages, handle them by a line in the log, and mark them."""
    with TextQueue(path) as queue:
        for item in queue.follow(claim=True, until=lambda: _stopped):
            os.write(log, item.value.partition("\n")[0].encode() + b"\n")
            item.mark_done()


def read(path: str, log: int) -> None:
    """The only reader: no mutex, no lock; every message a line in the log."""
    with TextQueue(path) as queue:
        for item in queue.follow(until=lambda: _stopped):
            os.write(log, item.value.partition("\n")[0].encode() + b"\n")
            with suppress(NotFound):  # an editor dropped it: it is marked when it is back
                item.mark_done()


def replace(path: str, log: int) -> None:
    """Replace the file many times a second without the lock, from a copy that was read before."""
    clock, number = SystemClock(), 0
    file, new = Path(path), Path(f"{path}.new")
    while not _stopped:
        number += 1
        began = clock.monotonic()
        lines = [line for line in file.read_bytes().split(b"\n") if not line.startswith(b"# edit")]
        clock.sleep(0.01)
        new.write_bytes(b"\n".join([b"# edit %d" % number, *lines]))
        # One that the machine has paused is as slow as a person: it reads the file again.
        if clock.monotonic() - began < TEXT_EDIT_SECONDS / 2:
            new.replace(file)
            os.write(log, b"edited\n")


def edit(path: str, log: int, seed: str) -> None:
    """Replace or rewrite the file again and again under the lock, with other comments."""
    chance, clock = SeededChance(int(seed)), SystemClock()
    sidecar = Sidecar(os.path.realpath(path))
    while not _stopped:
        clock.sleep(0.05)
        with sidecar.hold():
            _edit_once(Path(path), chance, in_place=chance.jitter() < 0.3)
        os.write(log, b"edited\n")


def _edit_once(path: Path, chance: SeededChance, *, in_place: bool) -> None:
    data = path.read_bytes()
    lines = [line for line in data.split(b"\n") if not line.startswith(b"# edit")]
    places = [0, *(n for n, line in enumerate(lines) if line[:1] in (b"-", b"=", b"!"))]
    for _ in range(round(chance.jitter() * 3)):
        lines.insert(
            places[int(chance.jitter() * len(places))], b"# edit " + b"x" * round(chance.jitter() * 20)
        )
        places = [0, *(n for n, line in enumerate(lines) if line[:1] in (b"-", b"=", b"!"))]
    if in_place:
        path.write_bytes(b"\n".join(lines))
        return
    new = path.with_suffix(".new")
    new.write_bytes(b"\n".join(lines))
    new.replace(path)


def main() -> None:
    role, path, log, *more = sys.argv[1:]
    signal.signal(signal.SIGTERM, _stop)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    roles: dict[str, Callable[..., None]] = {
        "write": write,
        "work": work,
        "read": read,
        "edit": edit,
        "replace": replace,
    }
    roles[role](path, descriptor, *more)


if __name__ == "__main__":
    main()
