"""Bad input: each a clear error of the tree, before anything is written."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Any

import pyarrow as pa
import pytest

from coldstore.shared import limits
from coldstore.shared.batch import payload
from coldstore.shared.errors import Conflict, InvalidInput, JjqError, NotFound, OutOfRange
from hotstore.limits import GROUP_BYTES_MAX
from hotstore.settings import HotSettings
from hotstore.store import HotStore
from tests.hotstore.kit import BLOCK_BYTES, World, push

BAD_NAMES = [
    "", "..", "a..b", "/", "a/b", ".hidden", "-dash", "_under", "ä", "a b", "a\n", "a\0", "x" * 10_000, None, 7,
]  # fmt: skip
BAD_STARTS = [
    "", "start", "beginning:1", "end:", "offset", "offset:", "offset:x", "offset:1.5", "offset: 1", "offset:1e3",
    "offset:99999999999999999999", "last:-1", "last:", "time:", "time:yesterday", "time:2026-01-01T00:00:00", "ago:",
    "ago:-1d", "ago:7", "ago:7y", "ago:d", "ago:1d2h", "ago:inf", "ago:nan", "subscriber:", "subscriber:..", None, 5,
    "Beginning", "offset:0\n", "\ud800",
]  # fmt: skip

Call = Callable[[HotStore], Awaitable[Any]]


def values_of(*values: Any, content: Any = "bytes") -> pa.RecordBatch:
    return payload(content, list(values))


async def refused(world: World, call: Call, error: type[JjqError], text: str | None = None) -> JjqError:
    """Make the call; it fails as said, and the journal has nothing new."""
    before, queues = world.journal.next_sequence, dict(world.engine.registry.queues)
    with pytest.raises(error, match=text) as raised:
        await call(world.store)
    assert type(raised.value) is error
    assert "\n" not in str(raised.value), "an error is one line"
    assert len(str(raised.value)) < 500
    assert world.journal.next_sequence == before
    assert world.engine.registry.queues == queues
    return raised.value


@pytest.mark.parametrize("name", BAD_NAMES, ids=lambda name: ascii(name)[:20])
async def test_names_outside_the_pattern_are_refused_everywhere(world: World, name: Any) -> None:
    calls: list[Call] = [
        lambda s: s.create_queue(name),
        lambda s: s.list_blocks(name),
        lambda s: s.seal(name),
        lambda s: s.create_subscriber(name, "s"),
        lambda s: s.list_subscribers(name if name is not None else ""),
        lambda s: s.push(name, values_of(b"x")),
        lambda s: anext(s.read(name)),
    ]
    for call in calls:
        await refused(world, call, InvalidInput, "queue name")
    if name is not None:
        await refused(world, lambda s: s.create_subscriber("q", name), InvalidInput, "subscriber name")
    if not isinstance(name, str) or "/" not in name:
        await refused(world, lambda s: s.get_queue(name), InvalidInput)
        await refused(world, lambda s: s.pop(name), InvalidInput)
    if isinstance(name, str):
        await refused(world, lambda s: s.pop(f"q/{name}"), InvalidInput)


@pytest.mark.parametrize("name", ["nobody", "q", "Q", "x" * 128])
async def test_an_unknown_queue_or_subscriber_is_not_found(world: World, name: str) -> None:
    if name != "q":
        for call in (
            lambda s: s.get_queue(name),
            lambda s: s.push(name, values_of(b"x")),
            lambda s: s.create_subscriber(name, "s"),
            lambda s: s.list_subscribers(name),
            lambda s: s.list_blocks(name),
            lambda s: s.seal(name),
            lambda s: s.pop(f"{name}/s"),
            lambda s: anext(s.read(name)),
        ):
            await refused(world, call, NotFound, f"no queue {name}: create it")
    for call in (
        lambda s: s.get_subscriber(f"q/{name}"),
        lambda s: s.get_queue(f"q/{name}"),
        lambda s: s.pop(f"q/{name}"),
        lambda s: s.peek(f"q/{name}"),
        lambda s: s.confirm(f"q/{name}", 0),
        lambda s: s.seek(f"q/{name}", "end"),
        lambda s: s.sleep(f"q/{name}"),
        lambda s: s.wakeup(f"q/{name}"),
        lambda s: s.delete_subscriber(f"q/{name}"),
    ):
        await refused(
            world, call, NotFound, f"queue q has no subscriber {name}: create it, or correct the name"
        )


@pytest.mark.parametrize("subscriber", ["s", "", "/", "q/", "/s", "q/s/x", "q/../s", 7, None, "x" * 10_000])
async def test_what_is_no_subscriber_id_is_refused(world: World, subscriber: Any) -> None:
    await world.store.create_subscriber("q", "s")
    for verb in ("pop", "peek", "get_subscriber", "sleep", "wakeup", "delete_subscriber"):
        await refused(world, lambda s, verb=verb: getattr(s, verb)(subscriber), InvalidInput)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"content": "xml"}, "bytes, text, json"),
        ({"content": None}, "bytes, text, json"),
        ({"block_bytes": 0}, "block_bytes"),
        ({"block_bytes": -1}, "block_bytes"),
        ({"block_bytes": 1 << 40}, "block_bytes"),
        ({"block_bytes": 1e6}, "block_bytes"),
        ({"block_bytes": True}, "block_bytes"),
        ({"block_seconds": 0}, "block_seconds"),
        ({"block_seconds": math.nan}, "block_seconds"),
        ({"block_seconds": math.inf}, "block_seconds"),
        ({"block_seconds": "1"}, "block_seconds"),
    ],
)
async def test_settings_of_a_queue_outside_their_range_are_refused(
    world: World, settings: dict[str, Any], text: str
) -> None:
    await refused(world, lambda s: s.create_queue("new", **settings), InvalidInput, text)
    assert [q.name for q in await world.store.list_queues()] == ["q"]


async def test_a_queue_that_exists_with_other_settings_is_a_conflict(world: World) -> None:
    error = await refused(world, lambda s: s.create_queue("q", block_bytes=2 * BLOCK_BYTES), Conflict)
    assert str(BLOCK_BYTES) in str(error)
    assert (await world.store.create_queue("q", block_bytes=BLOCK_BYTES)).name == "q"


async def test_an_empty_batch_is_refused(world: World) -> None:
    await refused(world, lambda s: s.push("q", values_of()), InvalidInput, "empty")


async def test_an_oversize_element_is_refused_and_named(world: World) -> None:
    large = bytes(limits.ELEMENT_BYTES_MAX + 1)
    error = await refused(
        world, lambda s: s.push("q", values_of(b"", large)), InvalidInput, "element 1: it has"
    )
    assert isinstance(error, InvalidInput)
    assert error.position == 1


async def test_an_oversize_batch_is_refused(world: World) -> None:
    half = bytes(limits.ELEMENT_BYTES_MAX - 10)
    await refused(world, lambda s: s.push("q", values_of(half, half, half)), InvalidInput, "split it")
    many = pa.RecordBatch.from_pydict({"value": pa.repeat(b"", limits.BATCH_ELEMENTS_MAX + 1)})
    await refused(world, lambda s: s.push("q", many), InvalidInput, "at most 1000000")


@pytest.mark.parametrize("batch", [[b"x"], b"x", None, pa.table({"value": [b"x"]}), {"value": [b"x"]}])
async def test_what_is_no_record_batch_is_refused(world: World, batch: Any) -> None:
    await refused(world, lambda s: s.push("q", batch), InvalidInput, "record batch")


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"producer": "p"}, "both producer and sequence"),
        ({"sequence": 1}, "both producer and sequence"),
        ({"producer": "", "sequence": 1}, "producer"),
        ({"producer": "x" * 129, "sequence": 1}, "producer"),
        ({"producer": "ä" * 65, "sequence": 1}, "producer"),
        ({"producer": "\ud800", "sequence": 1}, "producer"),
        ({"producer": b"p", "sequence": 1}, "producer"),
        ({"producer": "p", "sequence": -1}, "sequence"),
        ({"producer": "p", "sequence": 2**63}, "sequence"),
        ({"producer": "p", "sequence": 1.0}, "sequence"),
        ({"producer": "p", "sequence": "1"}, "sequence"),
        ({"producer": "p", "sequence": True}, "sequence"),
        ({"expected_offset": -1}, "expected_offset"),
        ({"expected_offset": 2**63}, "expected_offset"),
        ({"expected_offset": "0"}, "expected_offset"),
        ({"expected_offset": 0.0}, "expected_offset"),
        ({"stage": "soon"}, "stage"),
        ({"stage": None}, "stage"),
        ({"stage": ["synced"]}, "stage"),
    ],
)
async def test_bad_options_of_a_push_are_refused(world: World, more: dict[str, Any], text: str) -> None:
    await refused(world, lambda s: s.push("q", values_of(b"x"), **more), InvalidInput, text)
    assert world.engine.committer.pending_bytes == 0


@pytest.mark.parametrize("verb", ["pop", "peek"])
@pytest.mark.parametrize(
    ("most", "wait"),
    [
        *((most, 0) for most in (0, -1, 1.5, "1", True, None)),
        *((1, wait) for wait in (-1, math.nan, math.inf, -math.inf, "1", None)),
    ],
)
async def test_a_bad_max_or_wait_is_refused(world: World, verb: str, most: Any, wait: Any) -> None:
    await world.store.create_subscriber("q", "s")
    await push(world.store, "q", b"a")
    text = "wait must" if most == 1 and most is not True else "max must"
    await refused(world, lambda s: getattr(s, verb)("q/s", most, wait), InvalidInput, text)


@pytest.mark.parametrize("position", ["0", 1.5, True, b"1"])
async def test_a_position_that_is_no_number_is_refused(world: World, position: Any) -> None:
    await world.store.create_subscriber("q", "s")
    await push(world.store, "q", b"a", b"b")
    await refused(world, lambda s: s.pop("q/s", 1, position=position), InvalidInput, "position")


@pytest.mark.parametrize("offset", [-1, 3, 2**63, 2**80])
async def test_confirming_what_is_not_there_is_out_of_range(world: World, offset: int) -> None:
    await push(world.store, "q", b"a", b"b")
    await world.store.create_subscriber("q", "s", "beginning")
    error = await refused(world, lambda s: s.confirm("q/s", offset), OutOfRange, r"0\.\.1")
    assert isinstance(error, OutOfRange)
    assert (error.first, error.next) == (0, 2)


@pytest.mark.parametrize("offset", ["1", 1.0, None, True])
async def test_confirming_what_is_no_offset_is_refused(world: World, offset: Any) -> None:
    await push(world.store, "q", b"a", b"b")
    await world.store.create_subscriber("q", "s", "beginning")
    await refused(world, lambda s: s.confirm("q/s", offset), InvalidInput, "offset")


@pytest.mark.parametrize("start", BAD_STARTS, ids=ascii)
async def test_bad_starting_points_are_refused_everywhere(world: World, start: Any) -> None:
    await world.store.create_subscriber("q", "s")
    for call in (
        lambda s: s.create_subscriber("q", "new", start),
        lambda s: s.create_subscriber("q", "new", start, dry_run=True),
        lambda s: s.seek("q/s", start),
        lambda s: anext(s.read("q", start)),
    ):
        await refused(world, call, InvalidInput)
    assert [s.name for s in await world.store.list_subscribers("q")] == ["s"]


@pytest.mark.parametrize(
    "changes",
    [
        {"segment_bytes": 2 * GROUP_BYTES_MAX - 1},
        {"journal_bytes_max": 100 * limits.MIB},
        {"unsealed_bytes_max": limits.BATCH_BYTES_MAX - 1},
        {"pending_bytes_max": 0},
        {"idle_seconds": 0},
        {"producer_seconds": -1},
        {"maintain_seconds": 0},
        {"checkpoint_seconds": math.nan},
        {"group_bytes_max": 0},
        {"group_bytes_max": 1 << 30},
        {"hot_bytes_max": -1},
        {"disk_free_bytes_min": -1},
    ],
)
def test_settings_that_cannot_work_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(changes))):
        HotSettings(**changes)
