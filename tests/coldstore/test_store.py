"""Stores and their queues."""

from __future__ import annotations

from typing import Any

import pytest

from coldstore.layout import paths, sealed_json
from coldstore.objects.memory import MemoryObjects
from coldstore.shared import limits
from coldstore.shared.chance import SeededChance
from coldstore.shared.clock import ManualClock
from coldstore.shared.errors import Conflict, DataLoss, InvalidInput, NotFound
from coldstore.store import ColdStore
from tests.coldstore.making import Made, contents, elements, flip, keys, read_all


def opened(objects: MemoryObjects, seed: int = 1) -> ColdStore:
    return ColdStore(objects, ManualClock(), SeededChance(seed))


def test_a_queue_is_created_and_opened_by_its_name() -> None:
    objects = MemoryObjects()
    created = opened(objects).create_queue("orders", content="json", block_bytes=100_000, block_seconds=5)
    found = opened(objects, seed=2).open_queue("orders")
    assert found.settings == created.settings
    assert (found.settings.content, found.settings.block_bytes, found.settings.block_seconds) == (
        "json",
        100_000,
        5.0,
    )
    assert (found.first_offset, found.next_offset, len(found.list_blocks())) == (0, 0, 0)


def test_creating_it_again_with_the_same_settings_gives_the_existing_one() -> None:
    objects = MemoryObjects()
    first = opened(objects).create_queue("orders", block_seconds=60.0)
    first.write_block(elements(0, 3))
    again = opened(objects, seed=2).create_queue("orders", block_seconds=60)
    assert again.settings == first.settings
    assert again.next_offset == 3


@pytest.mark.parametrize("other", [{"content": "text"}, {"block_bytes": 100_000}, {"block_seconds": 1.0}])
def test_creating_it_again_with_other_settings_is_a_conflict_that_shows_them(other: dict[str, Any]) -> None:
    store = opened(MemoryObjects())
    store.create_queue("orders")
    with pytest.raises(Conflict, match="exists with other settings: content=bytes block_bytes=67108864"):
        store.create_queue("orders", **other)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"name": ""}, "queue name"),
        ({"name": "../etc"}, "queue name"),
        ({"name": "x" * 129}, "queue name"),
        ({"content": "xml"}, "content"),
        ({"block_bytes": 1}, "block_bytes is 1; use a whole number from 65536"),
        ({"block_bytes": limits.BLOCK_BYTES_MAX + 1}, "block_bytes"),
        ({"block_bytes": 1e6}, "block_bytes"),
        ({"block_bytes": True}, "block_bytes"),
        ({"block_seconds": 0}, "block_seconds is 0; use a number from 1"),
        ({"block_seconds": float("nan")}, "block_seconds"),
        ({"block_seconds": float("inf")}, "block_seconds"),
        ({"block_seconds": True}, "block_seconds"),
        ({"block_seconds": "5"}, "block_seconds"),
    ],
)
def test_wrong_settings_are_refused_before_anything_is_written(wrong: dict[str, Any], said: str) -> None:
    objects = MemoryObjects()
    with pytest.raises(InvalidInput, match=said):
        opened(objects).create_queue(**{"name": "orders", **wrong})
    assert keys(objects) == []


def test_an_unknown_queue_is_not_found() -> None:
    with pytest.raises(NotFound, match="no queue orders"):
        opened(MemoryObjects()).open_queue("orders")


def test_opening_and_listing_write_nothing() -> None:
    objects = MemoryObjects()
    store = opened(objects)
    assert store.list_queues() == []
    assert store.queue_names() == []
    assert store.id is None
    assert keys(objects) == []


def test_the_store_keeps_its_identity() -> None:
    objects = MemoryObjects()
    store = opened(objects)
    store.create_queue("orders")
    assert store.id is not None
    assert opened(objects, seed=2).id == store.id


def test_two_processes_that_create_the_first_queue_agree_on_the_store() -> None:
    objects = MemoryObjects()
    one, two = opened(objects, seed=1), opened(objects, seed=2)
    one.create_queue("a")
    two.create_queue("b")
    assert one.id == two.id


def test_queues_are_listed_by_name_without_reading_all_their_files() -> None:
    objects = MemoryObjects()
    store = opened(objects)
    names = ["b", "a", "a-b", "a.b", "a_b", "A", "a0", "zz"]
    for name in names:
        store.create_queue(name).write_block(elements(0, 2))
    objects.put("queues/stray/meta/file.json", b"no queue.json here")
    seen: list[str] = []
    listing = objects.list

    def counted(prefix: str, after: str = "") -> Any:
        for info in listing(prefix, after):
            seen.append(info.key)
            yield info

    objects.list = counted  # type: ignore[method-assign]
    assert [settings.name for settings in store.list_queues()] == sorted(names)
    assert len(seen) == len(names) + 1
    assert store.queue_names() == sorted(names)


def test_a_damaged_queue_does_not_hide_the_others() -> None:
    made = Made()
    made.store.create_queue("payments")
    flip(made.objects, paths.queue("orders"), 20)
    assert made.store.queue_names() == ["orders", "payments"]
    assert made.store.open_queue("payments").next_offset == 0
    with pytest.raises(DataLoss) as loss:
        made.store.open_queue("orders")
    assert loss.value.key == "queues/orders/queue.json"
    report = made.store.verify("orders")
    assert [defect.key for defect in report.defects] == ["queues/orders/queue.json"]


def test_the_settings_of_another_queue_under_this_name_are_refused() -> None:
    made = Made()
    made.store.create_queue("payments")
    made.objects.put(paths.queue("orders"), made.objects.get(paths.queue("payments")).data)
    with pytest.raises(DataLoss, match="swapped"):
        made.store.open_queue("orders")


def test_every_flipped_bit_of_the_two_documents_is_caught() -> None:
    made = Made()
    for key in (paths.STORE, paths.queue("orders")):
        for byte in range(len(made.objects.get(key).data)):
            before = flip(made.objects, key, byte, bit=byte % 8)
            with pytest.raises(DataLoss) as loss:
                ColdStore(made.objects, made.clock, SeededChance(2)).open_queue("orders")
            assert loss.value.key == key
            made.objects.put(key, before)


@pytest.mark.parametrize("key", [paths.STORE, paths.queue("orders")])
def test_a_newer_format_is_refused_and_nothing_is_changed(key: str) -> None:
    made = Made()
    made.objects.put(key, sealed_json.seal({"novelty": 1}, 2))
    before = contents(made.objects)
    with pytest.raises(InvalidInput, match="upgrade jjq"):
        ColdStore(made.objects, made.clock, SeededChance(2)).create_queue("orders")
    assert contents(made.objects) == before


def test_queues_of_one_store_do_not_see_each_other() -> None:
    made = Made()
    other = made.store.create_queue("payments")
    made.push(3)
    other.write_block(elements(0, 2, said="payment"))
    assert [value for _, value in read_all(made.queue)] == [b"value 0", b"value 1", b"value 2"]
    assert [value for _, value in read_all(other)] == [b"payment 0", b"payment 1"]
