"""jjq as a server: `jjq serve` in a process of its own, as clients find it."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Final

import jjq
from bench.peers.server import Server, compiled, free_port
from bench.peers.system import Client, System
from bench.peers.systems.jjqclient import JjqClient

_BYTE_CODE: Final = Path(tempfile.gettempdir()) / "jjq-bench-bytecode"


class JjqServer(System):
    name = "jjq"
    title = "jjq (server)"
    client = "jjq.aio.connect"
    durability = "stage synced, the default: fdatasync before each receipt"

    @classmethod
    def missing(cls) -> str:
        return ""

    @classmethod
    def prepare(cls) -> None:
        """Start it once, for the byte code."""
        with tempfile.TemporaryDirectory(prefix="jjq-bench-") as folder:
            port, server = cls._launch(Path(folder))
            server.wait_for_port(port)
            server.stop()

    async def start(self, relaxed: bool = False) -> None:
        port, self.server = self._launch(self.root)
        self.address = f"127.0.0.1:{port}"
        await asyncio.to_thread(self.server.wait_for_port, port)

    @staticmethod
    def _launch(root: Path) -> tuple[int, Server]:
        port, http = free_port(), free_port()  # the port after the first one may be somebody else's
        command = [sys.executable, "-m", "jjq", "serve", "--data", str(root / "data")]
        command += ["--listen", f"127.0.0.1:{port}", "--http-listen", f"127.0.0.1:{http}"]
        return port, Server(command, root / "log", compiled(_BYTE_CODE))

    async def connect(self) -> Client:
        return JjqClient(await jjq.aio.connect(self.address))
