"""What a user waits for: single calls of a blocking client over both transports, commands, the start of a server, and
single pushes beside those of peers.

Calls over gRPC and over WebSocket take turns, on the same server, whose data is in memory where there is such a place.
Peers and we take turns on a disk. Commands and servers have their byte code, as where jjq is installed.
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
import uvloop

import jjq
from bench.peers.server import compiled
from bench.peers.turns import ROUNDS, by_turns
from bench.row import Row, at_most
from tests.servers.jjq_server import JjqServer, clean_environment

VALUE = bytes(100)
TARGETS = {"push": 0.55, "pop": 0.55, "peek": 0.35}  # times what it takes over gRPC
TRANSPORTS = ("grpc", "websocket")
TURN = 200  # calls
IDLE_SECONDS = 1.0
STARTS = 3  # after a first one, which compiles
_HTTP = {"JJQ_HTTP_LISTEN": "127.0.0.1:0"}
_MEMORY = Path("/dev/shm")
_FLOOR = """
import asyncio, sys, uvloop
sys.modules["pandas"] = None
import numpy, pyarrow, pyarrow.parquet, google.protobuf.message, grpc.aio
import psutil
print(psutil.Process().memory_info().rss)
"""


def run(quick: bool) -> list[Row]:
    """All figures of single calls."""
    turns, times = (4, 3) if quick else (20, 10)
    with tempfile.TemporaryDirectory(prefix="jjq-bench-") as folder:
        rows = _alone(turns, times)
        return [*rows, *uvloop.run(by_turns(Path(folder), 4 if quick else ROUNDS))]


def _alone(turns: int, times: int) -> list[Row]:
    folder = _MEMORY if _MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="jjq-bench-", dir=folder) as data:
        code = compiled(Path(data, "bytecode"))
        places = [Path(data, str(n)) for n in range(STARTS + 1)]
        started, memory = zip(*(_start(place, code) for place in places), strict=True)
        floors, floor_memory = zip(*(_floor(code) for _ in places), strict=True)
        with JjqServer(Path(data, "calls"), small=False, environment=code | _HTTP) as server:
            rows = _calls(server.address, turns)
            at = ("--server", server.address)
            return [
                *rows,
                at_most("jjq --help", _command(times, code, "--help"), "s", 0.25),
                at_most("jjq push", _command(times, code, "push", "pushed", "x", *at), "s", 0.25),
                at_most("start of a server, with HTTP", statistics.median(started[1:]), "s", 0.7),
                Row("… Python with numpy, Arrow and gRPC alone", statistics.median(floors[1:]), "s"),
                at_most("idle server, resident", statistics.median(memory[1:]), "MB", 110),
                Row("… Python with numpy, Arrow and gRPC alone", statistics.median(floor_memory[1:]), "MB"),
            ]


def _start(folder: Path, code: dict[str, str]) -> tuple[float, float]:
    """Seconds until a new server listens, and MB that it has a while later."""
    began = time.perf_counter()
    with JjqServer(folder, small=False, environment=code | _HTTP) as server:
        started = time.perf_counter() - began
        time.sleep(IDLE_SECONDS)
        return started, psutil.Process(server.process.pid).memory_info().rss / 1e6


def _floor(code: dict[str, str]) -> tuple[float, float]:
    """What the largest of a server's libraries take by themselves: seconds to import them, and MB."""
    began = time.perf_counter()
    command = [sys.executable, "-c", _FLOOR]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=clean_environment(**code)).stdout
    return time.perf_counter() - began, int(said) / 1e6


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


def _command(times: int, code: dict[str, str], *words: str) -> float:
    """Seconds, the median of several runs after a first one."""
    found = []
    for _ in range(times + 1):
        began = time.perf_counter()
        command = [sys.executable, "-m", "jjq", *words]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=clean_environment(**code))
        found.append(time.perf_counter() - began)
    return statistics.median(found[1:])
