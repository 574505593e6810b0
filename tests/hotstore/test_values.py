"""VALUE records: pushes of one element that is nothing but a value, beside all other pushes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coldstore.shared.batch import elements, payload, payload_schema
from coldstore.shared.chance import SeededChance
from coldstore.shared.errors import Conflict, DataLoss
from coldstore.shared.limits import ELEMENT_BYTES_MAX, KIB
from hotstore.journal import records
from hotstore.journal.disk_journal import DiskJournal
from hotstore.journal.spares import Inline
from tests.hotstore.journaled import batches
from tests.hotstore.kit import World, push, read_all

WHOLE = st.integers(0, 2**63 - 1)
PARTS = st.lists(
    st.builds(records.ProducerPart, st.just(0), st.just(1), st.text(min_size=1, max_size=9), WHOLE),
    max_size=1,
)
SCHEMA = payload_schema("bytes")


@given(st.integers(0, 2**64 - 1), WHOLE, WHOLE, PARTS, st.binary(max_size=200))
def test_a_value_record_round_trips(
    queue: int, first: int, timestamp_us: int, parts: list[records.ProducerPart], value: bytes
) -> None:
    kind, written = records.push_value(queue, first, timestamp_us, parts, value)
    assert isinstance(written, bytes)

    read = records.read_push(memoryview(written), single=True)

    assert kind == records.VALUE
    assert (read.queue, read.first, read.timestamp_us, read.count) == (queue, first, timestamp_us, 1)
    assert read.parts == tuple(parts)
    assert records.read_columns(read, SCHEMA).equals(payload("bytes", [value]))
    assert records.read_columns(read, SCHEMA).schema.equals(SCHEMA)


def test_a_value_record_that_claims_more_than_one_element_is_damage() -> None:
    read = records.read_push(memoryview(records.push_value(1, 2, 3, [], b"a").payload), single=True)  # type: ignore[arg-type]

    with pytest.raises(DataLoss, match="has 1 elements, not 2"):
        records.read_columns(replace(read, count=2), SCHEMA)


PUSHES = st.lists(
    st.tuples(
        st.lists(st.binary(max_size=50), min_size=1, max_size=2),
        st.none() | st.binary(max_size=3),  # key of all of them
        st.none() | st.dictionaries(st.text(max_size=3), st.binary(max_size=3), max_size=2),
        st.booleans(),  # by a producer
    ),
    min_size=1,
    max_size=12,
)


@given(PUSHES)
async def test_a_journal_of_both_kinds_comes_back_as_it_was(pushes: list[Any]) -> None:
    # Given
    world = await World().start()
    await world.store.create_queue("q")
    receipts = []
    for number, (values, key, headers, by_producer) in enumerate(pushes):
        count = len(values)
        batch = payload("bytes", values, [key] * count, [headers] * count)
        identity: Any = {"producer": f"p{number}", "sequence": number} if by_producer else {}
        receipts.append((batch, identity, await world.store.push("q", batch, **identity)))
    before = await whole(world)
    written = [kind for *_, kinds in batches(world) for kind in kinds]
    alone = sum(len(v) == 1 and key is None and headers is None for v, key, headers, _ in pushes)
    assert written.count(records.VALUE) == alone
    assert written.count(records.PUSH) == len(pushes) - alone
    # When
    await world.restart()
    # Then
    assert await whole(world) == before
    for batch, identity, receipt in receipts:
        if identity:
            assert await world.store.push("q", batch, **identity) == replace(receipt, duplicate=True)
    await world.close()


async def whole(world: World) -> list[tuple[Any, ...]]:
    return [
        (e.offset, e.timestamp, e.key, e.value, e.headers)
        async for batch in world.store.read("q")
        for e in elements(batch)
    ]


@pytest.mark.parametrize("size", [0, 1, 4_000, 33_000, ELEMENT_BYTES_MAX])
async def test_a_value_of_any_size_survives_a_crash(size: int) -> None:
    world = await World(segment_bytes=2 * ELEMENT_BYTES_MAX if size > 100 * KIB else 256 * KIB).start()
    await world.store.create_queue("q")
    value = bytes(range(256)) * (size // 256) + bytes(size % 256)

    await push(world.store, "q", value)
    await world.restart()

    assert [e.value for e in await read_all(world.store, "q")] == [value]
    assert any(records.VALUE in kinds for *_, kinds in batches(world))
    await world.close()


async def test_values_pushed_together_share_one_record() -> None:
    """Given a group of several, they are gathered as ever: the short record is for a push that is alone."""
    world = await World().start()
    await world.store.create_queue("q")
    await asyncio.gather(*(push(world.store, "q", b"%d" % n) for n in range(5)))

    kinds = [kind for *_, kinds in batches(world) for kind in kinds]
    assert kinds.count(records.PUSH) == 1
    assert records.VALUE not in kinds
    assert [e.value for e in await read_all(world.store, "q")] == [b"0", b"1", b"2", b"3", b"4"]
    await world.close()


async def test_a_version_that_does_not_know_value_records_refuses_and_changes_nothing() -> None:
    world = await World().start()
    await world.store.create_queue("q")
    await push(world.store, "q", b"a")
    await world.crash()
    older = DiskJournal(
        world.disk,
        SeededChance(1),
        segment_bytes=world.settings.segment_bytes,
        kinds=records.KINDS - {records.VALUE},
        background=Inline(),
    )

    with pytest.raises(Conflict, match="start a newer one; nothing was changed"):
        list(older.recover())

    await world.start()
    assert [e.value for e in await read_all(world.store, "q")] == [b"a"]
    await world.close()
