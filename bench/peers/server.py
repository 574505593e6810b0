"""A server process that a measurement starts and ends, and what the machine says about it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

START_SECONDS = 60.0
STOP_SECONDS = 60.0


class StartFailed(Exception):
    """A server did not come up; the message has the last lines that it said."""


class Server:
    """A process in the foreground, its output in a file."""

    def __init__(self, command: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self._log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {})},
            )
        self.pid = self._process.pid

    def wait_for_port(self, port: int, seconds: float = START_SECONDS) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise StartFailed(f"it ended with {self._process.returncode}: {self.tail()}")
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            time.sleep(0.005)
        self.stop()
        raise StartFailed(f"it does not listen after {seconds:g} s: {self.tail()}")

    def tail(self) -> str:
        lines = self._log.read_text("utf-8", "replace").strip().splitlines()
        return " / ".join(lines[-3:])[-500:]

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def compiled(folder: Path) -> dict[str, str]:
    """The environment of a Python that has its byte code, in `folder`, as it has where jjq is installed.

    Where the environment forbids to write byte code, each start compiles a thousand modules.
    """
    return {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(folder)}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def command(name: str) -> str | None:
    """Where a program is: in JAVA_HOME, beside this Python, on the path, or where Debian has daemons."""
    java = [f"{home}/bin"] if (home := os.environ.get("JAVA_HOME")) else []
    near = str(Path(sys.executable).parent)  # packages bring programs, too
    places = [*java, near, os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"]
    return shutil.which(name, path=os.pathsep.join(places))


def rss(pid: int) -> int:
    """Resident bytes of a process and its children."""
    found = psutil.Process(pid)
    total = 0
    for process in [found, *found.children(recursive=True)]:
        try:
            total += process.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total


def stored(root: Path) -> int:
    """Bytes that a directory takes on the disk."""
    return sum(path.stat().st_blocks * 512 for path in root.rglob("*") if path.is_file())
