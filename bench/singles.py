"""What a user waits for: single calls of a blocking client over both transports, commands, the start of a server.

Calls over gRPC and over WebSocket take turns, on the same server, whose data is in memory where there is such a place.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psutil

import jjq
from bench.row import Row, at_most
from tests.servers.jjq_server import JjqServer, clean_environment

VALUE = bytes(100)
TARGETS = {"push": 0.55, "pop": 0.55, "peek": 0.35}  # times what it takes over gRPC
TRANSPORTS = ("grpc", "websocket")
TURN = 200  # calls
IDLE_SECONDS = 1.0
_MEMORY = Path("/dev/shm")


def run(quick: bool) -> list[Row]:
    """All figures of single calls."""
    turns, times = (4, 3) if quick else (20, 10)
    folder = _MEMORY if _MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="jjq-bench-", dir=folder) as data:
        began = time.perf_counter()
        with JjqServer(Path(data), small=False, environment={"JJQ_HTTP_LISTEN": "127.0.0.1:0"}) as server:
            started = time.perf_counter() - began
            time.sleep(IDLE_SECONDS)
            memory = psutil.Process(server.process.pid).memory_info().rss / 1e6
            rows = _calls(server.address, turns)
            at = ("--server", server.address)
            return [
                *rows,
                at_most("jjq --help", _command(times, "--help"), "s", 0.25),
                at_most("jjq push", _command(times, "push", "pushed", "x", *at), "s", 0.25),
                at_most("start of a server, with HTTP", started, "s", 0.7),
                at_most("idle server", memory, "MB", 110),
            ]


def _calls(address: str, turns: int) -> list[Row]:
    clients = {name: jjq.connect(address, transport=name) for name in TRANSPORTS}
    first = clients["grpc"]
    first.create_queue("pushed")
    first.create_queue("popped")
    first.push("popped", [VALUE] * TURN * (turns + 1))
    taken: dict[tuple[str, str], list[float]] = {}
    peeked = first.create_subscriber("popped", "peeked", "beginning")
    subscribers = {name: first.create_subscriber("popped", name, "beginning") for name in TRANSPORTS}
    for turn in range(turns + 1):
        for name, client in clients.items():
            verbs: dict[str, Callable[[], object]] = {
                "push": partial(client.push, "pushed", [VALUE]),
                "pop": partial(client.pop, subscribers[name]),
                "peek": partial(client.peek, peeked),
            }
            for verb, call in verbs.items():
                found = _seconds(call)
                if turn:  # the first one is for getting acquainted
                    taken.setdefault((name, verb), []).extend(found)
    for client in clients.values():
        client.close()
    rows = []
    for verb, most in TARGETS.items():
        plain, quick = (statistics.median(taken[name, verb]) for name in TRANSPORTS)
        rows.append(Row(f"{verb} of 1, blocking, gRPC, p50", 1e3 * plain, "ms"))
        rows.append(at_most(f"{verb} of 1, blocking, WebSocket / gRPC, p50", quick / plain, "×", most))
    return rows


def _seconds(call: Callable[[], object]) -> list[float]:
    found = []
    for _ in range(TURN):
        began = time.perf_counter()
        call()
        found.append(time.perf_counter() - began)
    return found


def _command(times: int, *words: str) -> float:
    """Seconds, the median of several runs after a first one."""
    found = []
    for _ in range(times + 1):
        began = time.perf_counter()
        command = [sys.executable, "-m", "jjq", *words]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=clean_environment())
        found.append(time.perf_counter() - began)
    return statistics.median(found[1:])
