"""`jjq serve` as a process of its own: started, killed, started again on the same port and data."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

from tests.servers.waiting import free_ports, wait_until

SMALL = ("--segment-bytes", "32MiB", "--journal-bytes-max", "256MiB")
# Of a JVM: what pays for itself only in hours costs seconds in a test.
QUICK_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


def clean_environment(**more: str) -> dict[str, str]:
    """The environment without settings of jjq's. HTTP is off: the port after a free one may be another server's."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith("JJQ_")}
    return mine | {"JJQ_HTTP_LISTEN": "none"} | more


@contextmanager
def interruptible() -> Iterator[None]:
    """Processes that are started meanwhile can be interrupted by Ctrl-C, also where we ourselves must not be.

    A process inherits that a signal is ignored, as it is in jobs that a shell runs in the background; a handler is
    not inherited, but replaced by the default.
    """
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if ignored:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        if ignored:
            signal.signal(signal.SIGINT, signal.SIG_IGN)


class JjqServer:
    """One server; a context manager that leaves no process behind."""

    def __init__(
        self, folder: Path, *flags: str, small: bool = True, environment: Mapping[str, str] | None = None
    ) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.log = folder / "server.log"
        self.address = f"127.0.0.1:{free_ports(1)[0]}"
        self._flags: Sequence[str] = (*(SMALL if small else ()), *flags)
        self._environment = environment or {}
        self._process: subprocess.Popen[bytes] | None = None
        self._seen = 0  # of the log, before the last start
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the server was not started"
        return self._process

    def start(self) -> Self:
        """Start, and wait until it says that it listens."""
        self.launch()
        return self.await_listening()

    def launch(self) -> None:
        """Start, and wait for nothing."""
        command = [sys.executable, "-m", "jjq", "serve", "--data", str(self.data), "--listen", self.address]
        self._seen = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, *self._flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=clean_environment(**self._environment),
            )

    def await_listening(self) -> Self:
        """Wait until it says that it listens."""
        try:
            wait_until(
                lambda: (
                    b"jjq listens on" in self.log.read_bytes()[self._seen :]
                    or self.process.poll() is not None
                ),
                "jjq listens",
                60,
            )
        except BaseException:
            self.kill()  # whoever waited in vain does not get to stop it
            raise
        assert self.process.poll() is None, self.log.read_text()
        return self

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.wait()

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Ask it to stop; its exit code."""
        self.process.send_signal(number)
        return self.process.wait(30)

    def restart(self) -> Self:
        """kill -9 and start again."""
        self.kill()
        return self.start()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()


@contextmanager
def together(*servers: JjqServer) -> Iterator[None]:
    """Servers that start side by side, which takes little longer than one."""
    with ExitStack() as stack:
        for server in servers:
            stack.push(server)
            server.launch()
        for server in servers:
            server.await_listening()
        yield
