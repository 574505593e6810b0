"""One server under test: it may be killed, stopped, paused and started again."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

import orjson

from tests.faults.shim import Shim
from tests.servers.faultproxy import FaultProxy
from tests.servers.jjq_server import clean_environment
from tests.servers.waiting import free_ports, wait_until

START_SECONDS = 120.0  # a busy machine may pause a process for a minute
STOP_SECONDS = 60.0
TRIES = 4  # of a start among others, who may take over in the midst of it


class Node:
    """See the module."""

    def __init__(
        self, folder: Path, *, name: str = "local", shim: Shim | None = None, flags: tuple[str, ...] = (),
        bug: str | None = None, environment: Mapping[str, str] | None = None, s3: FaultProxy | None = None,
    ) -> None:  # fmt: skip
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.data, self.log = folder, folder / "data", folder / "server.log"
        self.name = name
        self.shim = shim
        self.bug = bug
        self.s3 = s3  # its own way to object storage
        ports = free_ports(2)
        self.listens, self.http = (f"127.0.0.1:{port}" for port in ports)
        self.starts = 0
        self.tries = 1
        self._flags = flags
        self._environment = {**(environment or {}), **(shim.environment if shim else {})}
        if bug:
            self._environment["JJQ_TEST_BUG"] = bug
        self._process: subprocess.Popen[bytes] | None = None
        self._log_size = 0
        self._history: Path | None = None

    def tell_http(self, address: str) -> None:
        """Have clients told that HTTP is there, at `address`, behind a proxy."""
        self._environment["JJQ_TEST_HTTP"] = address.rpartition(":")[2]

    def join(self, advertise: str, ways: Mapping[str, str], history: Path) -> None:
        """Be one of several, known to the others and to clients by `advertise`; `ways` leads to the others' names."""
        self._flags += ("--node", self.name, "--advertise", advertise)
        self._environment["JJQ_TEST_WAYS"] = orjson.dumps(dict(ways)).decode()
        self._history = history
        self.tries = TRIES

    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start, and wait until it listens; AssertionError with its log if it ends instead."""
        self.launch()
        self.await_listening()
        return self

    def launch(self) -> None:
        """Start, and wait for nothing."""
        assert not self.is_alive(), "it runs already"
        self.starts += 1
        command = [sys.executable, "-m", "tests.faults.launch", "serve", "--data", str(self.data)]
        environment = dict(self._environment)
        if self._history is not None:
            environment["JJQ_TEST_WITNESS"] = str(self._history / f"server-{self.name}-{self.starts}")
        self._log_size = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--listen", self.listens, "--http-listen", self.http, *self._flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=clean_environment(**environment),
            )

    def await_listening(self) -> None:
        """Among others a start may find that it was just taken over, and ends: then it is started again."""
        for _ in range(self.tries):
            try:
                wait_until(
                    lambda: not self.is_alive() or b"jjq listens on" in self._said(),
                    "the server listens",
                    START_SECONDS,
                )
            except AssertionError:
                self.kill()
                raise
            if self.is_alive():
                return
            if self.tries > 1:
                self.launch()
        raise AssertionError(f"the server ended at once: {self.log.read_text()[-2000:]}")

    def _said(self) -> bytes:
        return self.log.read_bytes()[self._log_size :]

    def signal(self, number: int) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    def kill(self) -> None:
        """kill -9; also one that is paused."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> int:
        """SIGTERM; its exit code."""
        self.signal(signal.SIGTERM)
        return self.wait_stopped()

    def wait_stopped(self) -> int:
        """The exit code, once it was told to stop; to tell it twice would end it at once."""
        assert self._process is not None
        try:
            return self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the server did not stop within {STOP_SECONDS:g} s") from None

    def wait_dead(self, seconds: float) -> bool:
        """Whether it ended by itself within `seconds`."""
        assert self._process is not None
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
            return True
        return False
