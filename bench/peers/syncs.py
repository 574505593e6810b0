"""Does an acknowledged push reach the disk? Counted by strace while a server takes single pushes."""

from __future__ import annotations

import asyncio
import re
import subprocess
import tempfile
import time
from pathlib import Path

from bench.peers.server import command
from bench.peers.system import Client

PUSHES = 20
ATTACH_SECONDS = 10.0
CALLS = "fsync,fdatasync,sync_file_range,msync"
O_DSYNC = 0o10000


async def seen(pid: int, client: Client, queue: str) -> str:
    """A sentence on what the process did during some pushes, one after the other."""
    program = command("strace")
    if program is None:
        return "not looked at: no strace (apt-get install strace)"
    with tempfile.TemporaryDirectory(prefix="jjq-bench-") as folder:
        trace = Path(folder) / "trace"
        tracer = _attach(program, pid, trace)
        try:
            if not await asyncio.to_thread(_attached, tracer):
                return "not looked at: strace may not attach here"
            for _ in range(PUSHES):
                await client.push(queue, bytes(100))
        finally:
            tracer.terminate()
            await asyncio.to_thread(tracer.wait)
        calls = re.findall(r"\b(fsync|fdatasync|sync_file_range|msync)\(", trace.read_text())
    kinds = ", ".join(sorted(set(calls)))
    if len(calls) >= PUSHES:
        return f"{len(calls)} calls of {kinds} for {PUSHES} pushes"
    if _writes_through(pid):
        return f"files open with O_SYNC or O_DSYNC, and {len(calls)} calls of fsync for {PUSHES} pushes"
    return f"{len(calls)} calls of fsync for {PUSHES} pushes"


def _attach(program: str, pid: int, trace: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [program, "-f", "-p", str(pid), "-e", f"trace={CALLS}", "-o", str(trace)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def _attached(tracer: subprocess.Popen[str]) -> bool:
    """strace says so in its first line."""
    deadline = time.monotonic() + ATTACH_SECONDS
    while tracer.stderr is not None and time.monotonic() < deadline:
        line = tracer.stderr.readline()
        if "attached" in line:
            return True
        if not line or "Operation not permitted" in line:
            return False
    return False


def _writes_through(pid: int) -> bool:
    """Whether a file is open such that each write goes to the disk by itself."""
    for entry in Path(f"/proc/{pid}/fdinfo").iterdir():
        try:
            flags = re.search(r"flags:\s*(\d+)", entry.read_text())
        except OSError:
            continue
        if flags and int(flags[1], 8) & O_DSYNC:
            return True
    return False
