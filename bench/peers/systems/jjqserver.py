"""jjq as a server: `jjq serve` in a process of its own, as clients find it."""

from __future__ import annotations

import asyncio
import sys

import jjq
from bench.peers.server import Server, free_port
from bench.peers.system import Client, System
from bench.peers.systems.jjqclient import JjqClient


class JjqServer(System):
    name = "jjq"
    title = "jjq (server)"
    client = "jjq.aio.connect"
    durability = "stage synced, the default: fdatasync before each receipt"

    @classmethod
    def missing(cls) -> str:
        return ""

    async def start(self, relaxed: bool = False) -> None:
        port, http = free_port(), free_port()  # the port after the first one may be somebody else's
        self.address = f"127.0.0.1:{port}"
        command = [sys.executable, "-m", "jjq", "serve", "--data", str(self.root / "data")]
        command += ["--listen", self.address, "--http-listen", f"127.0.0.1:{http}"]
        self.server = Server(command, self.root / "log")
        await asyncio.to_thread(self.server.wait_for_port, port)

    async def connect(self) -> Client:
        return JjqClient(await jjq.aio.connect(self.address))
