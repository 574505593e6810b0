"""The node registry: heartbeats, who is alive, and what it costs to know."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from coldstore.layout import paths
from coldstore.objects.memory import MemoryObjects
from coldstore.objects.port import Object, ObjectInfo
from coldstore.shared.clock import ManualClock
from coldstore.shared.errors import DataLoss, InvalidInput, Unavailable
from hotstore.runner import InlineRunner
from sharding.documents import node_info
from sharding.documents.load import Load
from sharding.documents.node_info import Node
from sharding.limits import NODE_READS_MAX
from sharding.routing.nodes import Nodes, NodesSettings


class Counting(MemoryObjects):
    """Counts requests by verb."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.asked: dict[str, int] = {}

    def get(self, key: str, start: int = 0, end: int | None = None) -> Object:
        self.asked["get"] = self.asked.get("get", 0) + 1
        return super().get(key, start, end)

    def list(self, prefix: str, after: str = "") -> Iterator[ObjectInfo]:
        self.asked["list"] = self.asked.get("list", 0) + 1
        return super().list(prefix, after)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def objects(clock: ManualClock) -> Counting:
    return Counting(clock)


def a_node(
    objects: MemoryObjects, clock: ManualClock, name: str, run: str = "1", load: Load | None = None
) -> Nodes:
    described = Node(name, f"{name}:7575", run)
    return Nodes(objects, described, clock, InlineRunner(), lambda: load or Load(count=0))


async def test_nodes_see_each_other_with_address_and_load(objects: Counting, clock: ManualClock) -> None:
    a = a_node(objects, clock, "a", load=Load(1, 2.0, 3, 4))
    b = a_node(objects, clock, "b")
    await a.start(background=False)
    await b.start(background=False)
    assert [each.id for each in b.alive()] == ["a", "b"]
    found = b.get("a")
    assert found is not None
    assert (found.address, found.load) == ("a:7575", Load(1, 2.0, 3, 4))
    assert a.get("b") is None  # not looked since
    await a.look()
    assert a.address("b") == "b:7575"


async def test_a_node_is_dead_when_its_heartbeat_is_not_seen_to_change(
    objects: Counting, clock: ManualClock
) -> None:
    a, b = a_node(objects, clock, "a"), a_node(objects, clock, "b")
    await a.start(background=False)
    await b.start(background=False)
    for _ in range(20):
        clock.advance(2.0)
        await a.beat()
        await b.look()
        assert b.is_alive("a")
    clock.advance(10.0)
    await b.look()
    assert b.is_alive("a")
    clock.advance(0.1)
    await b.look()
    assert not b.is_alive("a")
    assert [each.id for each in b.alive()] == ["b"]
    assert b.address("a") == "a:7575"  # dead, not forgotten: its queues are still its
    await a.beat()
    await b.look()
    assert b.is_alive("a")


async def test_who_cannot_look_takes_nobody_for_dead(
    objects: Counting, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = a_node(objects, clock, "a"), a_node(objects, clock, "b")
    await a.start(background=False)
    await b.start(background=False)

    def away(prefix: str, after: str = "") -> Iterator[ObjectInfo]:
        raise Unavailable("the store is away")

    with monkeypatch.context() as patch:
        patch.setattr(objects, "list", away)
        clock.advance(3600)
        with pytest.raises(Unavailable):
            await b.look()
        assert b.is_alive("a")
    await b.look()  # an hour, and nothing has changed: it is dead
    assert not b.is_alive("a")


async def test_wall_clocks_do_not_matter(objects: Counting, clock: ManualClock) -> None:
    a, b = a_node(objects, clock, "a"), a_node(objects, ManualClock(0), "b")
    await a.start(background=False)
    await b.start(background=False)
    clock.jump(86_400)
    await a.look()
    await b.look()
    assert a.is_alive("b")
    assert b.is_alive("a")


async def test_a_node_that_stops_in_order_is_gone_at_once(objects: Counting, clock: ManualClock) -> None:
    a, b = a_node(objects, clock, "a"), a_node(objects, clock, "b")
    await a.start(background=False)
    await b.start(background=False)
    await a.close()
    await b.look()
    assert b.get("a") is None
    assert not b.is_alive("a")


async def test_the_last_process_with_a_name_wins_and_the_other_is_told(
    objects: Counting, clock: ManualClock
) -> None:
    first, second = a_node(objects, clock, "a", "1"), a_node(objects, clock, "a", "2")
    await first.start(background=False)
    await second.start(background=False)
    await first.beat()
    assert first.taken.is_set()
    await second.beat()
    assert not second.taken.is_set()
    await first.close()
    assert node_info.decode(objects.get(paths.node("a")).data, paths.node("a")).incarnation == "2"


async def test_a_document_that_someone_deleted_comes_back(objects: Counting, clock: ManualClock) -> None:
    a = a_node(objects, clock, "a")
    await a.start(background=False)
    objects.delete(paths.node("a"))
    await a.beat()
    await a.beat()
    assert not a.taken.is_set()
    assert node_info.decode(objects.get(paths.node("a")).data, paths.node("a")).beat == 3


async def test_draining_is_told_at_once(objects: Counting, clock: ManualClock) -> None:
    a, b = a_node(objects, clock, "a"), a_node(objects, clock, "b")
    await a.start(background=False)
    await a.drain(True)
    await b.start(background=False)
    found = b.get("a")
    assert found is not None
    assert found.draining


async def test_watching_many_nodes_costs_one_listing_and_a_few_reads(
    objects: Counting, clock: ManualClock
) -> None:
    others = [a_node(objects, clock, f"n{i}") for i in range(100)]
    for other in others:
        await other.beat()
    watcher = a_node(objects, clock, "watcher")
    await watcher.beat()
    for _ in range(20):
        objects.asked.clear()
        clock.advance(2.0)
        for other in others:
            await other.beat()
        await watcher.look()
        assert objects.asked == {"list": 1, "get": NODE_READS_MAX}
    assert len(watcher.alive()) == 101  # all were read, in turns


async def test_a_damaged_document_is_reported_and_hides_nobody_else(
    objects: Counting, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    objects.put(paths.node("bad"), b"{}")
    await a_node(objects, clock, "a").beat()
    b = a_node(objects, clock, "b")
    await b.start(background=False)
    assert [each.id for each in b.alive()] == ["a", "b"]
    assert "cluster/nodes/bad.json is damaged" in caplog.text


def test_a_document_under_another_name_is_refused() -> None:
    data = node_info.encode(Node("a", "a:1", "1"))
    assert node_info.decode(data, paths.node("a")) == Node("a", "a:1", "1")
    with pytest.raises(DataLoss):
        node_info.decode(data, paths.node("b"))


def test_settings_that_take_one_lost_heartbeat_for_a_death_are_refused() -> None:
    with pytest.raises(InvalidInput, match="dead_seconds"):
        NodesSettings(beat_seconds=2.0, dead_seconds=3.0)
    for lease in (0.1, 1.0, 10.0, 600.0):
        assert NodesSettings.for_lease(lease).dead_seconds == lease


def test_a_node_survives_its_document() -> None:
    described = Node("a", "a:1", "1", "s3", 7, True, Load(1, 2.5, 3, 4))
    assert node_info.decode(node_info.encode(described), paths.node("a")) == described
    assert replace(described, beat=8) != described
