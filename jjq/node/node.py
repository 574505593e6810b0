"""The composition root of a node's store: from settings to the object store, the cold store and the hot store.

`jjq.open` uses it directly; `jjq serve` through serving.py, which adds the cluster and the server. Below it there are
only constructors, which are given all that they need:

    coldstore.objects.open.open_objects      an object store, from its URL
    hotstore.opening.open_engine             journal, checkpoints and engine, in a data directory
    sharding.single_node.open_single_node    … for a server that has its store for itself
    sharding.node.open_member                … for a node of a cluster
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from coldstore.objects.cache import BlockCache
from coldstore.objects.open import open_objects, place_of
from coldstore.objects.settings import S3Settings
from coldstore.queue.spans import NO_SPANS, Spans
from coldstore.shared.chance import Chance
from coldstore.shared.clock import Clock
from coldstore.shared.errors import InvalidInput
from coldstore.shared.limits import GIB, MIB
from coldstore.store import ColdStore
from hotstore.engine import Engine
from hotstore.limits import GROUP_BYTES_MAX
from hotstore.settings import HotSettings
from jjq.sql.query import QueryLimits
from jjq.traces.context import check_collector
from sharding.documents.tenure import JournalKind
from sharding.limits import JOURNAL_FLUSH_SECONDS
from sharding.routing.nodes import NodesSettings
from sharding.single_node import open_single_node
from sharding.takeover.watch import TenureSettings

if TYPE_CHECKING:
    from jjq.remote.settings import ClientTls
    from sharding.node import Member


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """Where a node keeps its data, and how much of it."""

    data: Path
    cold: str | None = None  # URL of the cold store; by default the folder `cold` in `data`
    s3: S3Settings | None = None
    hot: HotSettings = field(default_factory=HotSettings)
    cache_disk_bytes: int = 4 * GIB  # of blocks that were fetched from S3
    cache_memory_bytes: int = 64 * MIB
    node: str | None = None  # its name in a cluster; None: it shares its store with nobody
    journal: JournalKind = "disk"
    tenure: TenureSettings = field(default_factory=TenureSettings)
    flush_seconds: float = JOURNAL_FLUSH_SECONDS  # of a journal on object storage
    sql: QueryLimits = field(default_factory=QueryLimits)
    traces: str | None = None  # address of a collector of OpenTelemetry; None: no traces

    def __post_init__(self) -> None:
        if self.traces is not None:
            check_collector(self.traces)

    @property
    def cold_url(self) -> str:
        return str(self.data / "cold") if self.cold is None else self.cold


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Where other nodes reach this one, and how it talks to them."""

    journal: JournalKind = "disk"
    advertise: str | None = None  # HOST:PORT at which others reach it; by default where it listens
    tls: ClientTls | None = None  # how it talks to others
    nodes: NodesSettings = field(default_factory=NodesSettings)


async def open_node(settings: NodeSettings, clock: Clock, chance: Chance, spans: Spans = NO_SPANS) -> Engine:
    """Open the store of a server that shares it with nobody.

    `close` of the engine, or of its `store`, closes everything.
    """
    cold = await _prepare(settings, clock, chance, spans)
    place = await asyncio.to_thread(place_of, settings.cold_url)
    return await open_single_node(settings.data, cold, place, settings.hot, settings.tenure, clock, chance)


async def open_member(
    settings: NodeSettings, clock: Clock, chance: Chance, spans: Spans = NO_SPANS
) -> Member:
    """Open the store of a node of a cluster, or of one whose journal is on object storage. `close` closes all of it."""
    from sharding import node as member  # ownership, and the journal on object storage

    cold = await _prepare(settings, clock, chance, spans)
    hot = settings.hot
    if settings.journal == "s3":  # larger groups, several of them at once: a put costs much, its bytes little
        hot = replace(hot, group_bytes_max=GROUP_BYTES_MAX)
    node = settings.node or "local"
    place = await asyncio.to_thread(place_of, settings.cold_url)
    wanted = member.MemberSettings(
        node, settings.journal, hot, settings.tenure, place, settings.flush_seconds
    )
    return await member.open_member(settings.data, cold, wanted, clock, chance)


async def _prepare(settings: NodeSettings, clock: Clock, chance: Chance, spans: Spans) -> ColdStore:
    _make_directory(settings.data)
    return await asyncio.to_thread(open_cold, settings, clock, chance, spans)


def open_cold(settings: NodeSettings, clock: Clock, chance: Chance, spans: Spans = NO_SPANS) -> ColdStore:
    """The cold store, without a hot store. Blocks: it checks the object store."""
    objects = open_objects(settings.cold_url, s3=settings.s3, clock=clock, chance=chance)
    if not settings.cold_url.startswith("s3:") or not settings.cache_disk_bytes:
        return ColdStore(objects, clock, chance, spans=spans)
    cache = BlockCache(
        objects,
        settings.data / "cache",
        settings.cache_disk_bytes,
        settings.cache_memory_bytes,
        clock,
        chance,
    )
    return ColdStore(objects, clock, chance, cache, spans)


def _make_directory(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"cannot use {path} as data directory: {error.strerror}; choose another") from None
