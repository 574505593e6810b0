"""Large objects: a file into a queue and out of it, beside a plain copy on disk and a plain transfer to S3, by turns.

Server and client are processes of their own. A transfer counts as the user sees it: an upload from `push_file` to its
acknowledgement, a download until the file is synced under its name. Memory is what a process takes at most meanwhile,
above what it takes when it does nothing. Server, client and S3 server share the machine, so figures say what the
software costs. The rate of SHA-256 on one core is beside them: bytes are hashed one after the other, by the client and,
on their way up, by the server, so nothing is faster than that. `python -m bench.objects VERB PLACE FILE` is one
transfer, and what the suite starts.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jjq
from bench.row import Row, at_least, at_most
from coldstore.shared.limits import GIB, MIB
from tests.servers.s3 import S3Server
from tests.servers.seaweed import running_seaweed

ROUNDS = 3  # the best counts: others use this machine, too
SHARE = 0.6  # of the speed of a plain transfer
HASHED = 256 * MIB
MEMORY_MB = 100.0
Transfer = Callable[[Path], float]  # of a file; the seconds that it took


def run(quick: bool) -> list[Row]:
    """Up and down, on disk and on S3."""
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-objects-") as name:
        root = Path(name)
        size = 256 * MIB if quick else 2 * GIB
        _fill(root / "source", size)
        rows = _on_disk(root, size)
        with running_seaweed(root / "s3", volume_mb=1_024) as s3:
            return rows + _on_s3(root, size, s3)


def _on_disk(root: Path, size: int) -> list[Row]:
    def copy(source: Path) -> float:
        return _copied(source, root / "plain")

    with _server(root / "disk", {}) as (pid, place):
        side = Side(place, pid)
        return _by_turns("disk", root, size, side, (copy, copy), "a copy with fsync")


def _on_s3(root: Path, size: int, s3: S3Server) -> list[Row]:
    def up(source: Path) -> float:
        return float(_transfer("s3-up", s3.endpoint, source)["seconds"])

    def down(_: Path) -> float:
        return float(_transfer("s3-down", s3.endpoint, root / "plain")["seconds"])

    environment = {
        "JJQ_COLD": f"s3://{s3.bucket}/bench",
        "JJQ_S3_ENDPOINT": s3.endpoint,
        "JJQ_S3_ACCESS_KEY": s3.access_key,
        "JJQ_S3_SECRET_KEY": s3.secret_key,
    }
    with _server(root / "on-s3", environment) as (pid, place):
        return _by_turns("S3", root, size, Side(place, pid), (up, down), "boto3")


class Side:
    """Transfers by a server, and the memory that they took."""

    def __init__(self, place: str, pid: int) -> None:
        self.place = place
        self.pid = pid
        self.server_kib = self.client_kib = 0

    def transfer(self, verb: str, file: Path) -> float:
        _forget_peak(self.pid)
        idle = _memory(self.pid, "VmRSS")
        told = _transfer(verb, self.place, file)
        self.server_kib = max(self.server_kib, _memory(self.pid, "VmHWM") - idle)
        self.client_kib = max(self.client_kib, int(told["kib"]))
        return float(told["seconds"])


def _by_turns(
    title: str, root: Path, size: int, side: Side, plain: tuple[Transfer, Transfer], than: str
) -> list[Row]:
    """Plain and through the server, up and down, one after the other; the best of each."""
    source = root / "source"
    _transfer("make", side.place, source)
    found: dict[str, list[float]] = {"up": [], "down": [], "plain up": [], "plain down": []}
    hashed: list[float] = []
    for number in range(ROUNDS):
        hashed.append(_hashing())
        _change(source, f"{title} {number}")  # the same bytes would not be sent
        found["plain up"].append(plain[0](source))
        found["up"].append(side.transfer("up", source))
        found["plain down"].append(plain[1](source))
        found["down"].append(side.transfer("down", root / "back"))
        if _differ(source, root / "back"):
            raise RuntimeError("what came back is not what was sent")
    rate = {name: size / min(seconds) / 1e6 for name, seconds in found.items()}
    rows = [Row(f"{title}: SHA-256 on one core", HASHED / min(hashed) / 1e6, "MB/s")]
    for way, verb in (("up", "upload"), ("down", "download")):
        rows += [
            Row(f"{title}: {verb}", rate[way], "MB/s"),
            Row(f"{title}: {than}, {way}", rate[f"plain {way}"], "MB/s"),
            at_least(f"{title}: {verb} against {than}", rate[way] / rate[f"plain {way}"], "×", SHARE),
        ]
    return [
        *rows,
        at_most(f"{title}: memory of the server, above idle", side.server_kib / 1e3 * 1.024, "MB", MEMORY_MB),
        at_most(f"{title}: memory of the client, above idle", side.client_kib / 1e3 * 1.024, "MB", MEMORY_MB),
    ]


@contextmanager
def _server(data: Path, environment: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    command = [sys.executable, "-m", "jjq", "serve", "--data", str(data), "--listen", "127.0.0.1:0"]
    command += ["--http-listen", "127.0.0.1:0"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **environment},
    ) as process:
        try:
            greeting = process.stdout.readline() if process.stdout else ""
            yield process.pid, greeting.removeprefix("jjq listens on ").split(",")[0].strip()
        finally:
            process.terminate()


def _transfer(verb: str, place: str, file: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.objects", verb, place, str(file)]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=600).stdout
    found: dict[str, Any] = json.loads(said)
    return found


def _fill(path: Path, size: int) -> None:
    block = os.urandom(8 * MIB)  # too long for a compressor to see that it comes again
    with path.open("wb") as file:
        for _ in range(size // len(block)):
            file.write(block)


def _change(path: Path, mark: str) -> None:
    with path.open("r+b") as file:
        file.write(mark.encode())
        os.fsync(file.fileno())


def _copied(source: Path, target: Path) -> float:
    target.unlink(missing_ok=True)
    begun = time.perf_counter()
    shutil.copyfile(source, target)
    with target.open("rb") as file:
        os.fsync(file.fileno())
    return time.perf_counter() - begun


def _hashing() -> float:
    """The seconds that the digest of `HASHED` bytes takes."""
    block, digest = bytes(MIB), hashlib.sha256()
    begun = time.perf_counter()
    for _ in range(HASHED // len(block)):
        digest.update(block)
    return time.perf_counter() - begun


def _differ(one: Path, other: Path) -> bool:
    return subprocess.run(["cmp", "-s", one, other], check=False).returncode != 0


def _memory(pid: int | str, field: str) -> int:
    """KiB of a process: VmRSS is now, VmHWM the most so far."""
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    return int(status.partition(f"{field}:")[2].split()[0])


def _forget_peak(pid: int | str) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text("5", "ascii")


# What runs in a process of its own -------------------------------------------------------------------


def one_transfer(verb: str, place: str, file: Path) -> dict[str, float]:
    """Do it; the seconds that it took, and the memory above idle."""
    if verb.startswith("s3-"):
        return _plain_s3(verb, S3Server(place), file)
    with jjq.connect(place) as client:
        if verb == "make":
            client.create_queue("bench")
            client.push_file("bench", __file__)
            return {}
        at = client.get_queue("bench").next_offset
        element = list(client.replay("bench", start=at - 1).elements())[-1]
        with element.open() as opened:
            opened.read(1)  # all that a first transfer loads is loaded
        if verb == "down":
            file.unlink(missing_ok=True)
        _forget_peak("self")
        idle, begun = _memory("self", "VmRSS"), time.perf_counter()
        if verb == "up":
            client.push_file("bench", file)
        else:
            element.save(file)
        return {"seconds": time.perf_counter() - begun, "kib": _memory("self", "VmHWM") - idle}


def _plain_s3(verb: str, s3: S3Server, file: Path) -> dict[str, float]:
    client = s3.client()
    try:
        client.head_object(Bucket=s3.bucket, Key="ready")
        if verb == "s3-down":
            file.unlink(missing_ok=True)
        begun = time.perf_counter()
        if verb == "s3-up":
            client.upload_file(str(file), s3.bucket, "plain")
        else:
            client.download_file(s3.bucket, "plain", str(file))
        return {"seconds": time.perf_counter() - begun}
    finally:
        client.close()


if __name__ == "__main__":
    print(json.dumps(one_transfer(sys.argv[1], sys.argv[2], Path(sys.argv[3]))))
