"""The whole life of a queue over each kind of store, with a cache where one is of use."""

from __future__ import annotations

from pathlib import Path

import pytest

from coldstore.objects.cache import BlockCache
from coldstore.objects.local import LocalObjects
from coldstore.objects.memory import MemoryObjects
from coldstore.objects.port import ObjectStore
from coldstore.shared import limits
from coldstore.shared.chance import SeededChance
from coldstore.shared.clock import SystemClock
from coldstore.store import ColdStore
from tests.coldstore.making import elements, keys, read_all, shape
from tests.servers.s3 import S3Server


class AheadClock(SystemClock):
    """Two days ahead: whatever is young is due, whatever was merged may be swept."""

    def now_us(self) -> int:
        return super().now_us() + 2 * 86_400 * 1_000_000


@pytest.fixture(params=["memory", "local", "moto", "seaweed"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "memory":
        return MemoryObjects()
    if request.param == "local":
        return LocalObjects(tmp_path / "store")
    server: S3Server = request.getfixturevalue(request.param)
    return server.objects()


def test_a_queue_lives_on_every_store(
    objects: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ROLLUP_BLOCKS", 2)
    clock, chance = AheadClock(), SeededChance(1)
    cache = BlockCache(objects, tmp_path / "cache", 1 << 20, 1 << 20, clock, chance)
    queue = ColdStore(objects, clock, chance, cache).create_queue("orders", content="text")
    for count, final in ((4, True), (3, False), (2, False), (5, True), (1, True), (2, False), (6, False)):
        queue.write_block(elements(queue.next_offset, count, content="text"), final=final)
    assert shape(queue) == [
        ("final", 0, 3),
        ("final", 4, 13),
        ("final", 14, 14),
        ("young", 15, 16),
        ("young", 17, 22),
    ]
    expected = [(offset, f"value {offset}") for offset in range(23)]
    assert read_all(queue) == expected

    merged = queue.merge()
    assert [(block.first, block.last) for block in merged] == [(15, 22)]
    swept = queue.sweep()
    assert swept.young == 4
    assert not keys(objects, "queues/orders/young/")

    reader = ColdStore(objects, clock, chance).open_queue("orders")
    assert shape(reader) == shape(queue)
    assert read_all(reader) == read_all(queue) == expected
    assert len(keys(objects, "queues/orders/index/")) == 2
    report = ColdStore(objects, clock, chance).verify("orders")
    assert report.ok, report.defects
    assert report.notes == ()
    assert [settings.name for settings in ColdStore(objects, clock, chance).list_queues()] == ["orders"]


def test_a_block_of_many_pieces_goes_to_every_store_and_back(
    objects: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ROW_GROUP_BYTES", 50_000)
    queue = ColdStore(objects, SystemClock(), SeededChance(1)).create_queue("orders")
    table = elements(0, 60_000)
    queue.write_block(table)
    assert queue.read_block(0).equals(table)
    assert queue.verify().ok
