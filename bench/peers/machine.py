"""What this machine can do at best, beside the systems: disk, gRPC, Parquet; and what it is."""

from __future__ import annotations

import asyncio
import os
import platform
import statistics
import time
from pathlib import Path
from typing import Any

import grpc
import psutil
import pyarrow.parquet as pq

from bench.coldstore import json_elements
from bench.frontserver import ANYWHERE, echo_server
from bench.hotstore import Machine
from bench.peers.scale import Scale
from bench.row import Row
from jjq.server.settings import ServerSettings

IN_FLIGHT = 64


def limits(root: Path, scale: Scale) -> list[Row]:
    """Measured in turns with nothing else."""
    root.mkdir(parents=True, exist_ok=True)
    return [*_disk(root, scale), *_paced(root, scale), *asyncio.run(_echo(scale)), *_parquet(root, scale)]


def _disk(root: Path, scale: Scale) -> list[Row]:
    rows = []
    for size, label in ((100, "100 B"), (100_000, "100 KB"), (1_000_000, "1 MB")):
        machine = Machine(root / f"machine{size}", size)
        times = [machine.seconds(20) for _ in range(3 * scale.rounds)]
        machine.close()
        rows.append(Row(f"write {label} + fdatasync", statistics.median(times) * 1e3, "ms"))
    return rows


def _paced(root: Path, scale: Scale) -> list[Row]:
    """As the latency from push to subscriber is measured, with nothing between but the disk: no system is better."""
    machine = Machine(root / "paced", 100)
    late = []
    began = time.perf_counter()
    for n in range(int(scale.rate * scale.latency_seconds)):
        due = began + n / scale.rate
        time.sleep(max(0.0, due - time.perf_counter()))
        machine.write()
        late.append(time.perf_counter() - due)
    machine.close()
    late.sort()
    name = f"write 100 B + fdatasync at {scale.rate}/s, from when it is due"
    return [
        Row(f"{name}, p50", statistics.median(late) * 1e3, "ms"),
        Row(f"{name}, p99", late[len(late) * 99 // 100] * 1e3, "ms"),
    ]


async def _echo(scale: Scale) -> list[Row]:
    """Client and server in one process: the least that gRPC for Python costs."""
    server, address = await echo_server()
    options = ServerSettings(listen=ANYWHERE).options()
    async with grpc.aio.insecure_channel(address, options) as channel:
        call: Any = channel.unary_unary("/bench/Echo")
        message = bytes(200)
        await call(message)
        one = [await _calls(call, message, scale.seconds, 1) for _ in range(scale.rounds)]
        many = [await _calls(call, message, scale.seconds, IN_FLIGHT) for _ in range(scale.rounds)]
    await server.stop(None)
    return [
        Row("gRPC echo, 1 in flight", statistics.median(one), "calls/s"),
        Row(f"gRPC echo, {IN_FLIGHT} in flight", statistics.median(many), "calls/s"),
    ]


async def _calls(call: Any, message: bytes, seconds: float, in_flight: int) -> float:
    began, count = time.perf_counter(), 0

    async def caller() -> None:
        nonlocal count
        while time.perf_counter() - began < seconds:
            await call(message)
            count += 1

    await asyncio.gather(*(caller() for _ in range(in_flight)))
    return count / (time.perf_counter() - began)


def _parquet(root: Path, scale: Scale) -> list[Row]:
    table = json_elements(min(500_000, scale.growth[-1]))
    path = root / "plain.parquet"
    writes, reads = [], []
    for _ in range(scale.rounds):
        began = time.perf_counter()
        pq.write_table(table, path, compression="zstd")
        between = time.perf_counter()
        pq.read_table(path)
        writes.append(between - began)
        reads.append(time.perf_counter() - between)
    megabytes = table.nbytes / 1e6
    return [
        Row("pyarrow writes Parquet (zstd)", megabytes / statistics.median(writes), "MB/s"),
        Row("pyarrow reads Parquet", megabytes / statistics.median(reads), "MB/s"),
    ]


def description(root: Path) -> dict[str, str]:
    """What the figures were taken on, without names."""
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return {
        "cores": str(os.cpu_count()),
        "memory": f"{psutil.virtual_memory().total / 1e9:.0f} GB",
        "file system": filesystem(root),
        "kernel": platform.release().split("-")[0],
        "Python": platform.python_version(),
        "load before": load,
    }


def filesystem(root: Path) -> str:
    """The type of the file system that a directory is on."""
    mounts = sorted(psutil.disk_partitions(all=True), key=lambda mount: len(mount.mountpoint), reverse=True)
    for mount in mounts:
        if root.resolve().is_relative_to(mount.mountpoint):
            return mount.fstype
    return "unknown"
