"""The servers under test: one node now, several later; nemeses and runs see only this.

A node is a server process with its data directory, its shim, and a proxy before it through which the
clients come, so that connections can be cut.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.faults.shim import Shim
from tests.jjq.cutproxy import CutProxy, proxied
from tests.servers.faultproxy import FaultProxy
from tests.servers.jjq_server import clean_environment
from tests.servers.waiting import free_ports, wait_until

START_SECONDS = 120.0  # a busy machine may pause a process for a minute
STOP_SECONDS = 60.0


class CutThread:
    """A cutting proxy in a thread of its own."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._end = asyncio.Event()
        self._thread = threading.Thread(
            target=self._loop.run_until_complete, args=[self._serve()], daemon=True
        )
        self._thread.start()
        assert self._ready.wait(START_SECONDS)

    async def _serve(self) -> None:
        async with proxied(self._target) as self.proxy:
            self._ready.set()
            await self._end.wait()

    @property
    def address(self) -> str:
        return self.proxy.address

    def set(self, **fields: object) -> None:
        """Change fields of the proxy; `cut` cuts every connection."""
        self._loop.call_soon_threadsafe(self._set, self.proxy, fields)

    @staticmethod
    def _set(proxy: CutProxy, fields: dict[str, object]) -> None:
        if fields.pop("cut", False):
            proxy.cut()
        for name, value in fields.items():
            setattr(proxy, name, value)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(10)
        self._loop.close()


class Node:
    """One server; it may be killed, stopped, paused and started again."""

    def __init__(
        self, folder: Path, *, shim: Shim | None = None, flags: tuple[str, ...] = (), bug: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.data, self.log = folder, folder / "data", folder / "server.log"
        self.shim = shim
        self.bug = bug
        self.listens = f"127.0.0.1:{free_ports(1)[0]}"
        self._flags = flags
        self._environment = {**(environment or {}), **(shim.environment if shim else {})}
        if bug:
            self._environment["JJQ_TEST_BUG"] = bug
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0

    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start, and wait until it listens; AssertionError with its log if it ends instead."""
        assert not self.is_alive(), "it runs already"
        command = [sys.executable, "-m", "tests.faults.launch", "serve", "--data", str(self.data)]
        seen = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--listen", self.listens, *self._flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=clean_environment(**self._environment),
            )
        self.starts += 1
        try:
            wait_until(
                lambda: not self.is_alive() or b"jjq listens on" in self.log.read_bytes()[seen:],
                "the server listens",
                START_SECONDS,
            )
        except AssertionError:
            self.kill()
            raise
        assert self.is_alive(), f"the server ended at once: {self.log.read_text()[seen:][-2000:]}"
        return self

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
        assert self._process is not None
        self.signal(signal.SIGTERM)
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


class Cluster:
    """All nodes, and the object storage they share; closed whatever happens."""

    def __init__(self, nodes: list[Node], s3: FaultProxy | None = None) -> None:
        self.nodes = nodes
        self.s3 = s3
        self.links = [CutThread(node.listens) for node in nodes]

    @property
    def address(self) -> str:
        """Where clients go: through the proxies."""
        return ",".join(link.address for link in self.links)

    @property
    def direct(self) -> str:
        """Past the proxies."""
        return ",".join(node.listens for node in self.nodes)

    def ensure_up(self) -> None:
        """Start what has ended."""
        for node in self.nodes:
            node.signal(signal.SIGCONT)
            if not node.is_alive():
                node.start()

    def __enter__(self) -> Self:
        for node in self.nodes:
            node.start()
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes:
            node.kill()
        for link in self.links:
            link.close()
        for node in self.nodes:
            if node.shim is not None:
                node.shim.close()
