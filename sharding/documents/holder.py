"""Who holds a tenure: the process, for people to read; and its data directory, for the next start to compare.

A journal on a disk is in one data directory. Elements that were acknowledged and are not sealed yet are nowhere else.
So a tenure with such a journal belongs to that directory: a process that starts from another directory is refused,
however long the holder has been silent. A directory is known by two things: the inode of its lock file, and a random
name

    <data>/identity      32 hex digits and a line feed, written once, under the directory's lock

A process that finds its own directory in the tenure goes on at once: it has the lock, so the holder is dead. A copy of
the directory has the same name and another inode. There the holder may be alive, so the process waits to see whether
it is silent.

The tenure also says in which cold store it was written. In a copy of the whole store, the holders that it names do not
count.
"""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from coldstore.shared.chance import Chance
from coldstore.shared.clock import Clock
from coldstore.shared.errors import DataLoss
from hotstore.journal.directory_lock import LOCK_NAME
from hotstore.journal.disk import RealDisk, read_all, write_all

IDENTITY_NAME: Final = "identity"

_IDENTITY: Final = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Holder:
    """A process and its data directory."""

    identity: str  # of the data directory
    inode: int  # of the directory's lock file: a copy has another
    data: str
    host: str
    pid: int
    since_us: int  # wall time, for people
    store: str  # which cold store it meant; "" if that is not known
    lease_seconds: float
    stopped: bool = False  # in order: the process is gone

    def is_same_store(self, other: Holder) -> bool:
        """Whether both mean the same cold store, and not one of them a copy of it."""
        return not self.store or not other.store or self.store == other.store

    def __str__(self) -> str:
        since = datetime.fromtimestamp(self.since_us // 1_000_000, UTC)
        process = "a server that was stopped" if self.stopped else f"process {self.pid}"
        return f"{process} on {self.host}, data directory {self.data}, since {since:%Y-%m-%d %H:%M:%S} UTC"


def hold(directory: Path, store: str, lease_seconds: float, clock: Clock, chance: Chance) -> Holder:
    """This process and `directory`, whose lock it has."""
    return Holder(
        identity=_identity(directory, chance),
        inode=(directory / LOCK_NAME).stat().st_ino,
        data=str(directory.resolve()),
        host=socket.gethostname(),
        pid=os.getpid(),
        since_us=clock.now_us(),
        store=store,
        lease_seconds=lease_seconds,
    )


def _identity(directory: Path, chance: Chance) -> str:
    disk = RealDisk(directory)
    if IDENTITY_NAME not in disk.list():
        fresh, text = f"{IDENTITY_NAME}.new", f"{chance.token()}\n".encode()
        if fresh in disk.list():
            disk.remove(fresh)  # by a start that was broken off
        file = disk.open(fresh, create=True)
        write_all(file, 0, [text], len(text))
        file.sync()
        file.close()
        disk.rename(fresh, IDENTITY_NAME)
        disk.sync_directory()
    file = disk.open(IDENTITY_NAME)
    found = read_all(file, 0, 64).decode(errors="replace").strip()
    file.close()
    if not _IDENTITY.fullmatch(found):
        raise DataLoss(
            f"{directory / IDENTITY_NAME} is damaged: restore it from a copy, or remove it and then let the "
            f"server take its store back with `jjq release`"
        )
    return found


def encode(holder: Holder) -> dict[str, Any]:
    return {
        "data": holder.data,
        "host": holder.host,
        "identity": holder.identity,
        "inode": holder.inode,
        "lease": holder.lease_seconds,
        "pid": holder.pid,
        "since": holder.since_us,
        "stopped": holder.stopped,
        "store": holder.store,
    }


def decode(fields: dict[str, Any] | None) -> Holder | None:
    """The holder, None in a tenure of an earlier release; KeyError or TypeError if it is not one."""
    if fields is None:
        return None
    return Holder(
        identity=fields["identity"],
        inode=fields["inode"],
        data=fields["data"],
        host=fields["host"],
        pid=fields["pid"],
        since_us=fields["since"],
        store=fields["store"],
        lease_seconds=fields["lease"],
        stopped=fields["stopped"],
    )
