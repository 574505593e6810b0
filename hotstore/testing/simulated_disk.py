"""A disk in memory that can lose power, fail and lie as real ones do. Ships with the product, for tests.

The model is as unkind as the standards allow. Of what was not synced, a power cut keeps, drops or
tears each 512-byte sector on its own; of names not synced, it keeps or drops each creation, rename
and removal on its own. A failed sync marks the pages clean although they never reached the disk, as
ext4, XFS and Btrfs do: a second sync succeeds, reads show the bytes, and a power cut loses them.

`cut_at(n)` stops the machine before its n-th change from now: PowerCut goes through all code as a
BaseException, so that no handler runs that a dead machine would not have run.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from coldstore.shared.chance import Chance
from coldstore.shared.clock import Clock
from hotstore.journal.disk import File, write_all
from hotstore.journal.port import Buffer

SECTOR_BYTES: Final = 512
Verb = Literal["open", "read", "write", "sync", "rename", "remove", "sync_directory"]
_KEEP_ODDS: Final = (0.0, 0.1, 0.5, 0.9, 1.0)


class PowerCut(BaseException):
    """The machine stops here; nothing runs any more."""


@dataclass
class _Inode:
    cache: bytearray = field(default_factory=bytearray)  # what programs read
    disk: bytearray = field(default_factory=bytearray)  # what a power cut leaves
    dirty: set[int] = field(default_factory=set)  # sectors in which the two differ, as the kernel knows

    def flush(self) -> None:
        self.resize(len(self.cache))
        for sector in self.dirty:
            part = slice(sector * SECTOR_BYTES, (sector + 1) * SECTOR_BYTES)
            self.disk[part] = self.cache[part]
        self.dirty.clear()

    def resize(self, size: int) -> None:
        self.disk = self.disk[:size].ljust(size, b"\0")

    def cut(self, chance: Chance) -> None:
        """Of each dirty sector keep all, nothing, or a part."""
        odds = _KEEP_ODDS[int(chance.jitter() * len(_KEEP_ODDS))]
        if chance.jitter() < odds:
            self.resize(max(len(self.disk), len(self.cache)))
        for sector in sorted(self.dirty):
            if chance.jitter() < odds:
                start, end = sector * SECTOR_BYTES, min((sector + 1) * SECTOR_BYTES, len(self.disk))
                if chance.jitter() < 0.1:
                    end = min(end, start + int(chance.jitter() * SECTOR_BYTES))
                self.disk[start:end] = self.cache[start:end]
        self.dirty.clear()
        self.cache = bytearray(self.disk)


@dataclass
class _Fault:
    verb: Verb
    nth: int
    strike: Callable[[], int | None]  # raises, or says how many bytes a write takes


_Change = tuple[str | None, str | None, _Inode]  # old name, new name, which file


class SimDisk:
    """The model. A `clock` is needed only to be slow."""

    def __init__(self, clock: Clock | None = None, capacity_bytes: int = 1 << 40) -> None:
        self.changes = 0  # how many changes were made: what `cut_at` counts
        self.capacity_bytes = capacity_bytes
        self._clock = clock
        self._live: dict[str, _Inode] = {}
        self._durable: dict[str, _Inode] = {}
        self._pending: list[_Change] = []  # of names, since their directory was synced
        self._faults: list[_Fault] = []
        self._cut_at: int | None = None
        self.life = 0  # files opened in an earlier life are gone

    # What tests do to it

    def cut_at(self, nth: int | None) -> None:
        """Raise PowerCut instead of the `nth` change from now (1 is the next); None: no longer."""
        self._cut_at = None if nth is None else self.changes + nth

    def power_cut(self, chance: Chance) -> None:
        """Lose power: what was not synced survives as chance will have it."""
        odds = _KEEP_ODDS[int(chance.jitter() * len(_KEEP_ODDS))]
        for change in self._pending:
            if chance.jitter() < odds:
                _apply(self._durable, change)
        inodes = {id(inode): inode for inode in [*self._live.values(), *self._durable.values()]}
        for inode in inodes.values():
            inode.cut(chance)
        self._live = dict(self._durable)
        self.crash()
        self._pending.clear()

    def crash(self) -> None:
        """Kill the process: the page cache survives, open files do not, faults are forgotten."""
        self._faults.clear()
        self._cut_at = None
        self.life += 1

    def fail(self, verb: Verb, nth: int = 1, code: int = errno.EIO) -> None:
        """Let the `nth` use of `verb` from now raise OSError."""

        def strike() -> int | None:
            raise OSError(code, os.strerror(code))

        self._faults.append(_Fault(verb, nth, strike))

    def shorten(self, nth: int, taken: int) -> None:
        """Let the `nth` write from now take at most `taken` bytes."""
        self._faults.append(_Fault("write", nth, lambda: taken))

    def slow(self, verb: Verb, nth: int, seconds: float) -> None:
        """Let the `nth` use of `verb` from now take `seconds` of the clock."""

        def strike() -> int | None:
            if self._clock:
                self._clock.sleep(seconds)
            return None

        self._faults.append(_Fault(verb, nth, strike))

    @property
    def pending_faults(self) -> int:
        """How many faults have not happened yet."""
        return len(self._faults)

    def corrupt(self, name: str, position: int, mask: int) -> None:
        """Flip bits on the disk and in the cache."""
        inode = self._live[name]
        for content in (inode.cache, inode.disk):
            if position < len(content):
                content[position] ^= mask

    def truncate(self, name: str, size: int) -> None:
        """Cut a file short behind everyone's back."""
        inode = self._live[name]
        del inode.cache[size:], inode.disk[size:]

    def files(self) -> dict[str, bytes]:
        """Every file as programs see it."""
        return {name: bytes(inode.cache) for name, inode in sorted(self._live.items())}

    # What the journal does with it

    def open(self, name: str, *, create: bool = False) -> SimFile:
        self.strike("open", change=create)
        if create:
            if name in self._live:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
            self._rename(None, name, _Inode())
        return SimFile(self, self._inode(name))

    def rename(self, old: str, new: str) -> None:
        self.strike("rename", change=True)
        self._rename(old, new, self._inode(old))

    def remove(self, name: str) -> None:
        self.strike("remove", change=True)
        self._rename(name, None, self._inode(name))

    def list(self, directory: str = "") -> list[str]:
        prefix = f"{directory}/" if directory else ""
        inside = (name.removeprefix(prefix) for name in self._live if name.startswith(prefix))
        return sorted({name.split("/")[0] for name in inside})

    def make_directory(self, name: str = "") -> None:
        """Directories are as durable as they are promised to be, so there is nothing to model."""

    def sync_directory(self, name: str = "") -> None:
        self.strike("sync_directory", change=True)
        left: list[_Change] = []
        for change in self._pending:
            old, new, inode = change
            here = [path for path in (old, new) if path is not None and _directory(path) == name]
            if len(here) == sum(path is not None for path in (old, new)):
                _apply(self._durable, change)
            elif here:  # a move between directories: this side of it becomes durable
                side = (old, None, inode) if here == [old] else (None, new, inode)
                rest = (None, new, inode) if here == [old] else (old, None, inode)
                _apply(self._durable, side)
                left.append(rest)
            else:
                left.append(change)
        self._pending = left

    def leads_to(self, name: str, file: File) -> bool:
        return isinstance(file, SimFile) and file.is_one(self._live.get(name))

    def adopt(self, made: Path, name: str) -> None:
        """A file that another program made is here as if written a moment ago: nothing of it is durable."""
        data = made.read_bytes()
        file = self.open(name, create=True)
        write_all(file, 0, [data], len(data))
        file.close()
        made.unlink()

    def stamp(self, name: str) -> tuple[int, ...]:
        inode = self._inode(name)
        return id(inode), len(inode.cache)

    def free_bytes(self) -> int:
        return max(0, self.capacity_bytes - sum(len(inode.cache) for inode in self._live.values()))

    def strike(self, verb: Verb, *, change: bool) -> int | None:
        """Count a use of `verb`, and let happen what was asked to happen at it."""
        if change:
            if self._cut_at is not None and self.changes + 1 >= self._cut_at:
                raise PowerCut
            self.changes += 1
        result = None
        for fault in [fault for fault in self._faults if fault.verb == verb]:
            fault.nth -= 1
            if fault.nth == 0:
                self._faults.remove(fault)
                result = fault.strike()
        return result

    def _inode(self, name: str) -> _Inode:
        if name not in self._live:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        return self._live[name]

    def _rename(self, old: str | None, new: str | None, inode: _Inode) -> None:
        change = (old, new, inode)
        _apply(self._live, change)
        self._pending.append(change)


class SimFile:
    """An open file of a SimDisk."""

    def __init__(self, disk: SimDisk, inode: _Inode) -> None:
        self._disk = disk
        self._inode = inode
        self._life = disk.life

    def read(self, position: int, length: int) -> bytes:
        self._alive()
        self._disk.strike("read", change=False)
        return bytes(self._inode.cache[position : position + length])

    def write(self, position: int, buffers: Sequence[Buffer]) -> int:
        self._alive()
        taken = self._disk.strike("write", change=True)
        data = b"".join(buffers)[:taken]
        cache, end = self._inode.cache, position + len(data)
        if end - len(cache) > self._disk.free_bytes():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if end > len(cache):
            cache.extend(bytes(end - len(cache)))
        cache[position:end] = data
        self._inode.dirty.update(range(position // SECTOR_BYTES, -(-end // SECTOR_BYTES)))
        return len(data)

    def sync(self) -> None:
        self._alive()
        try:
            self._disk.strike("sync", change=True)
        except OSError:
            self._inode.dirty.clear()  # clean, says the kernel; the disk never saw them
            raise
        self._inode.flush()

    def size(self) -> int:
        self._alive()
        return len(self._inode.cache)

    def is_one(self, inode: _Inode | None) -> bool:
        return self._inode is inode

    def forget(self) -> None:
        """Nothing that would show."""

    def close(self) -> None:
        """Nothing to give back."""

    def _alive(self) -> None:
        if self._life != self._disk.life:
            raise OSError(errno.EBADF, "this file was opened before the machine stopped")


def _directory(path: str) -> str:
    return path.rpartition("/")[0]


def _apply(names: dict[str, _Inode], change: _Change) -> None:
    old, new, inode = change
    if old is not None and names.get(old) is inode:
        del names[old]
    if new is not None:
        names[new] = inode
