"""Nodes of one cluster in one process, over one object store; time moves by hand, nothing happens on its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from coldstore.objects.memory import MemoryObjects
from coldstore.objects.port import ObjectStore
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import ManualClock
from coldstore.shared.limits import KIB
from coldstore.store import ColdStore
from hotstore.settings import HotSettings
from hotstore.store import HotStore
from sharding.documents.tenure import JournalKind
from sharding.node import Member, MemberSettings, open_member
from sharding.takeover.watch import TenureSettings
from tests.hotstore.kit import Seen, read_all
from tests.hotstore.kit import push as push_values
from tests.hotstore.kit import settings as small

SLOW = TenureSettings(beat_seconds=1_000.0, look_seconds=1_000.0, lease_seconds=3_000.0)
BLOCK_BYTES = 64 * KIB


class Cluster:
    """Opens nodes by name; the same name again is a restart."""

    def __init__(self, folder: Path, objects: ObjectStore | None = None) -> None:
        self.clock = ManualClock()
        self.objects: ObjectStore = MemoryObjects(self.clock) if objects is None else objects
        self._folder = folder
        self._members: list[Member] = []
        self._closed: set[int] = set()

    async def open(
        self,
        node: str,
        journal: JournalKind = "s3",
        objects: ObjectStore | None = None,
        **changes: Any,
    ) -> Member:
        directory = self._folder / node
        directory.mkdir(exist_ok=True)
        cold = await asyncio.to_thread(ColdStore, objects or self.objects, self.clock, SystemChance())
        hot: HotSettings = small(maintain_seconds=3_600.0, **changes)
        member = await open_member(
            directory, cold, MemberSettings(node, journal, hot, SLOW), self.clock, SystemChance()
        )
        self._members.append(member)
        return member

    async def close(self, member: Member) -> None:
        if id(member) not in self._closed:
            self._closed.add(id(member))
            await member.close()

    async def stop(self, member: Member) -> None:
        """As kill -9: the process does nothing any more. What it was told is durable, or not."""
        await member._watch.close()
        await member.ownership.close()
        await member.engine.maintenance.stop()
        journal: Any = member.engine.journal
        spares = getattr(getattr(journal, "_inner", journal), "_spares", None)
        if spares is not None:  # the thread that prepares files of the directory
            await asyncio.to_thread(spares._background.shutdown)
        member.engine._on_closed()  # the lock of its directory

    async def end(self) -> None:
        for member in self._members:
            await self.close(member)

    async def pronounce_dead(self, observer: Member, *alive: Member) -> None:
        """Let so much time pass that a node which does not beat is dead for `observer`, which then acts."""
        for _ in range(5):
            for member in (observer, *alive):
                await member._watch.beat()
            self.clock.advance(2_000.0)
            await observer._watch.look()


@asynccontextmanager
async def cluster(folder: Path, objects: ObjectStore | None = None) -> AsyncIterator[Cluster]:
    made = Cluster(folder, objects)
    try:
        yield made
    finally:
        await made.end()


async def push(member: Member, queue: str, *values: bytes, **more: Any) -> int:
    return (await push_values(member.engine.store, queue, *values, **more)).first_offset


async def contents(member: Member, queue: str) -> list[bytes | str]:
    return [seen.value for seen in await everything(member.engine.store, queue)]


async def everything(store: HotStore, queue: str) -> list[Seen]:
    found = await read_all(store, queue)
    assert [seen.offset for seen in found] == list(range(len(found)))
    return found
