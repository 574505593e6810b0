"""Damage to the journal: harmless or reported, never other bytes, and never the business of other queues."""

from __future__ import annotations

from itertools import pairwise

from coldstore.shared.errors import DataLoss
from coldstore.shared.limits import KIB
from hotstore.journal import layout, records
from hotstore.limits import PAGE_BYTES
from tests.hotstore.journaled import batches
from tests.hotstore.kit import BLOCK_BYTES, World, push, read_around, settings
from tests.hotstore.oracle import Log, Oracle


async def busy_world(segment_bytes: int = 48 * KIB) -> tuple[World, Oracle]:
    """Two queues with pushes, pops and subscribers between each other; two segments; killed."""
    world = await World(hot=settings(segment_bytes=segment_bytes, group_bytes_max=20 * KIB)).start()
    oracle = Oracle(world, {"a": "bytes", "b": "bytes"})
    for log in oracle.logs.values():
        await world.store.create_queue(log.name, block_bytes=BLOCK_BYTES)
        await oracle.create(log, "s")
    a, b = oracle.logs.values()
    for n in range(3):
        await oracle.push(a, [30, 40], "p")
        await oracle.push(b, [2_000])
        await oracle.pop(a, "s", 1, None)
        if n == 1:
            await oracle.push(b, [9_000, 9_000])
            await oracle.create(b, "t")
    await oracle.push(a, [5])
    await oracle.push(b, [5])
    return world, oracle


async def judge(world: World, oracle: Oracle, what: str) -> str:
    """Start a damaged copy: everything is right, or what is missing is reported."""
    await world.start()
    corrupt = [damage for damage in world.journal.damage if damage.kind == "corrupt"]
    torn = [damage for damage in world.journal.damage if damage.kind == "torn"]
    verdict = "corrupt" if corrupt else "torn" if torn else "harmless"
    for log in oracle.logs.values():
        try:
            there = await read_around(world.store, log.name)
            refuses = await takes_no_pushes(world, log)
        except DataLoss:
            there, refuses = [], True
        assert all(log.elements.get(e.offset) == e for e in there), f"{what}: other bytes"
        missing = log.next - len(there)
        if verdict == "harmless":
            assert missing == 0, f"{what}: {log.name} lost elements and nobody says so"
            assert not refuses, what
        elif verdict == "corrupt" and missing:
            assert refuses, f"{what}: {log.name} would give offsets out a second time"
        elif missing:  # torn: the last batch alone is ambiguous
            assert missing <= 1, what
    await world.crash()
    return verdict


async def takes_no_pushes(world: World, log: Log) -> bool:
    before = world.journal.next_sequence
    try:
        await push(world.store, log.name, b"more")
    except DataLoss:
        assert world.journal.next_sequence == before
        return True
    return False


async def flips(oracle_world: tuple[World, Oracle], places: list[tuple[str, int]]) -> dict[str, int]:
    world, oracle = oracle_world
    verdicts: dict[str, int] = {"harmless": 0, "torn": 0, "corrupt": 0}
    for n, (name, position) in enumerate(places):
        fork = world.fork()
        fork.disk.corrupt(name, position, 1 << n % 8)
        verdicts[await judge(fork, oracle, f"bit {n % 8} of byte {position} of {name}")] += 1
    return verdicts


async def test_a_bit_flipped_in_any_header_is_harmless_or_reported() -> None:
    # Given
    world, oracle = await busy_world()
    places = [
        (name, position)
        for name in world.disk.files()
        if name.endswith(".seg")
        for position in range(layout.HEADER_BYTES)
    ]
    found = list(batches(world))
    written = {kind for *_, kinds in found for kind in kinds}
    assert written >= {
        records.PUSH, records.VALUE, records.POSITIONS, records.QUEUES, records.SUBSCRIBERS,
    }  # fmt: skip
    places += [(name, start + n) for name, _, start, _ in found for n in range(layout.HEADER_BYTES)]
    # When, Then
    verdicts = await flips((world, oracle), places)
    # One in a segment's header costs nothing; one in a batch's is damage, and in the last batch a torn tail.
    assert verdicts["corrupt"] >= (len(found) - 2) * layout.HEADER_BYTES * 0.8
    assert verdicts["torn"] >= layout.HEADER_BYTES // 2
    assert verdicts["harmless"] >= layout.HEADER_BYTES // 2


async def test_a_bit_flipped_in_any_body_is_harmless_or_reported() -> None:
    # Given every seventh byte of every record, and of what fills the page
    world, oracle = await busy_world()
    places = []
    for name, header, start, _ in batches(world):
        end = start + layout.HEADER_BYTES + header.body_bytes
        step = 7 if header.body_bytes < 1_000 else 331
        places += [(name, position) for position in range(start + layout.HEADER_BYTES, end, step)]
        places.append((name, end + 1)) if end + 1 < start + header.span else None
    # When, Then
    verdicts = await flips((world, oracle), places)
    assert verdicts["corrupt"] > 100
    assert verdicts["torn"] > 5
    assert verdicts["harmless"] > 5


async def test_zeroed_pages_and_files_cut_short_are_harmless_or_reported() -> None:
    world, oracle = await busy_world()
    first = min(name for name in world.disk.files() if name.endswith(".seg"))
    # The very last batch, zeroed, is one that was never written, as in any log.
    for name, header, start, _ in list(batches(world))[:-1]:
        for page in range(start, start + header.span, PAGE_BYTES):
            fork = world.fork()
            for position, byte in enumerate(fork.disk.files()[name][page : page + PAGE_BYTES]):
                if byte:
                    fork.disk.corrupt(name, page + position, byte)
            await judge(fork, oracle, f"page {page} of {name} zeroed")
        if name == first:  # with the segment that is being written, more than one batch may look torn
            fork = world.fork()
            fork.disk.truncate(name, start + 10)
            await judge(fork, oracle, f"{name} cut at {start + 10}")


async def test_two_batches_lost_together_are_reported() -> None:
    world, oracle = await busy_world()
    found = list(batches(world))
    for (one, _, at, _), (other, _, beside, _) in pairwise(found):
        fork = world.fork()
        fork.disk.corrupt(one, at, 1)
        fork.disk.corrupt(other, beside, 1)
        await judge(fork, oracle, f"batches at {at} of {one} and {beside} of {other}")
