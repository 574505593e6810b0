"""What a power cut leaves of a stopped server's files, by the log that the shim kept of them.

Of sectors that were not synced each keeps its new bytes or gets its old ones back, as chance will have
it; of names that were not synced, the last few changes are undone, as a file system with a journal
does it. A failed sync makes nothing durable, and neither does a later one that succeeds: the kernel
calls the pages clean after the first. The simulated disk (hotstore/testing/simulated_disk.py) is unkinder still, but
it is not a real server that runs on it.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from coldstore.shared.chance import Chance

SECTOR = 512
WRITE, SYNC, SYNC_FAILED, CREATE, RENAME, UNLINK, SYNC_NAMES = range(1, 8)
_HEAD = struct.Struct("<IIQQQQ")


class Record(NamedTuple):
    """One line of the shim's log; `at` is where in the log it stands."""

    at: int
    kind: int
    path: str
    inode: int
    position: int
    data: bytes
    size: int


def records(log: Path) -> Iterator[Record]:
    """Every record; a torn one at the end, of a server that was killed in the midst, is left out."""
    content = log.read_bytes() if log.exists() else b""
    at = 0
    while at + _HEAD.size <= len(content):
        kind, path_bytes, inode, position, count, size = _HEAD.unpack_from(content, at)
        body = at + _HEAD.size
        end = body + path_bytes + count
        if end > len(content):
            return
        path = content[body : body + path_bytes].decode()
        yield Record(at, kind, path, inode, position, content[body + path_bytes : end], size)
        at = end


@dataclass
class _File:
    """What is not durable of one file."""

    old: dict[int, tuple[int, bytes]] = field(default_factory=dict)  # by sector: last write, bytes before
    grown: dict[int, int] = field(default_factory=dict)  # size before: last write
    lost: dict[int, bytes] = field(default_factory=dict)  # called clean by a failed sync
    lost_size: int | None = None

    def write(self, record: Record) -> None:
        if not record.data:
            before = min([record.position, *self.grown])
            self.grown = {before: record.at}
            return
        for n in range(0, len(record.data), SECTOR):
            sector = (record.position + n) // SECTOR
            known = self.old[sector][1] if sector in self.old else self.lost.pop(sector, None)
            self.old[sector] = (record.at, record.data[n : n + SECTOR] if known is None else known)

    def sync(self, upto: int, *, failed: bool) -> None:
        for sector in [sector for sector, (at, _) in self.old.items() if at < upto]:
            _, before = self.old.pop(sector)
            if failed:
                self.lost[sector] = before
        for size in [size for size, at in self.grown.items() if at < upto]:
            del self.grown[size]
            if failed:
                self.lost_size = size

    def cut(self, path: Path, chance: Chance) -> int:
        """Undo; returns how many sectors were."""
        odds = (0.0, 0.0, 0.3, 1.0)[int(chance.jitter() * 4)]
        undone = 0
        with path.open("r+b") as file:
            sizes = [*self.grown, *([] if self.lost_size is None else [self.lost_size])]
            if sizes and chance.jitter() >= odds:
                file.truncate(min(sizes))
                undone += 1
            size = os.fstat(file.fileno()).st_size
            before = self.lost | {sector: data for sector, (_, data) in self.old.items()}
            for sector, data in sorted(before.items()):
                if sector * SECTOR < size and chance.jitter() >= odds:
                    os.pwrite(file.fileno(), data, sector * SECTOR)
                    undone += 1
        return undone


class PowerCut:
    """Reads the log of a dead server, and undoes what would be gone."""

    def __init__(self, log: Path, root: Path) -> None:
        self._log = log
        self._root = root
        self._files: dict[int, _File] = {}
        self._names: list[Record] = []
        for record in records(log):
            self._take(record)

    def _take(self, record: Record) -> None:
        match record.kind:
            case 1:
                self._files.setdefault(record.inode, _File()).write(record)
            case 2 | 3:
                file = self._files.setdefault(record.inode, _File())
                file.sync(record.position, failed=record.kind == SYNC_FAILED)
            case 7:
                folder = record.path.rstrip("/")
                self._names = [
                    name
                    for name in self._names
                    if name.at >= record.position or name.path.rpartition("/")[0] != folder
                ]
            case _:
                if record.kind == CREATE and record.inode:
                    self._files[record.inode] = _File()
                self._names.append(record)

    def strike(self, chance: Chance) -> tuple[int, int]:
        """Undo by chance; returns how many sectors and names. The log begins anew."""
        paths = {path.stat().st_ino: path for path in self._root.rglob("*") if path.is_file()}
        sectors = sum(file.cut(paths[inode], chance) for inode, file in self._files.items() if inode in paths)
        most = len(self._names)
        names = (0, most, most, int(chance.jitter() * (most + 1)))[int(chance.jitter() * 4)]
        for record in reversed(self._names[most - names :]):
            _undo_name(record)
        for saved in self._log.parent.glob(f"{self._log.name}.*"):
            saved.unlink()
        self._log.unlink(missing_ok=True)
        return sectors, names


def _undo_name(record: Record) -> None:
    path = Path(record.path)
    with suppress(FileNotFoundError):
        match record.kind:
            case 4:
                path.unlink()
            case 5:
                before, _, saved = record.data.decode().partition("\n")
                path.rename(before)
                if saved:
                    os.link(saved, path)
            case 6:
                with suppress(FileExistsError):
                    os.link(record.data.decode(), path)
