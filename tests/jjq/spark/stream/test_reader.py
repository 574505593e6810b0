"""The stream reader by itself: how far a batch goes, what it holds, and that a restart changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from coldstore.shared.errors import Conflict, InvalidInput, NotFound, OutOfRange
from jjq.spark.limits import LOOK_SECONDS, PARTITION_BYTES_MIN
from tests.jjq.spark.making import START_US, Made, make
from tests.jjq.spark.stream.reading import ALL, batches, flat, read, reader, streaming


@pytest.fixture
def queue(tmp_path: Path) -> Made:
    return make(tmp_path / "cold", [100, 200, 300], [20, 30])


def test_a_stream_reads_everything_once_from_the_beginning(queue: Made) -> None:
    with streaming(queue.options()) as stream:
        ((start, end),) = batches(stream)
        assert (start["offset"], end["offset"]) == (0, 650)
        assert flat(read(stream, start, end)) == list(range(650))


@pytest.mark.parametrize(
    ("start", "offset"),
    [
        ("beginning", 0),
        ("end", 650),
        ("offset:123", 123),
        ("last:50", 600),
        ("time:2026-01-01T00:05:00Z", 300),
        ("ago:36500d", 0),
    ],
)
def test_a_stream_begins_at_any_starting_point(queue: Made, start: str, offset: int) -> None:
    assert START_US == 1_767_225_600_000_000  # 2026-01-01, element n is n seconds later
    with streaming(queue.options(start=start)) as stream:
        assert stream.initialOffset()["offset"] == offset


def test_the_starting_point_is_recorded_before_anything_is_there_to_be_read(queue: Made) -> None:
    with streaming(queue.options(start="end")) as stream:
        start = stream.initialOffset()
        end = stream.latestOffset(start, ALL)
        assert end != start
        assert stream.partitions(start, end) == []
        assert stream.latestOffset(end, ALL) == end
        queue.add(10)
        later = stream.latestOffset(end, ALL)
        assert flat(read(stream, end, later)) == list(range(650, 660))


def test_batches_are_limited_in_elements(queue: Made) -> None:
    with streaming(queue.options(maxOffsetsPerTrigger=200)) as stream:
        assert stream.getDefaultReadLimit() == ReadMaxRows(200)
        found = [flat(read(stream, *batch)) for batch in batches(stream)]
        assert [len(offsets) for offsets in found] == [200, 200, 200, 50]
        assert flat(found) == list(range(650))
        start = stream.initialOffset()
        assert stream.latestOffset(start, ReadAllAvailable())["offset"] == 650  # Trigger.Once takes it all


def test_batches_are_limited_in_bytes(queue: Made) -> None:
    block = queue.queue.list_blocks()[0]
    each = block.raw_bytes / block.count
    with streaming(queue.options(maxBytesPerTrigger=int(100 * each))) as stream:
        found = [flat(read(stream, *batch)) for batch in batches(stream)]
    assert flat(found) == list(range(650))
    assert len(found[0]) == pytest.approx(100, abs=2)
    assert max(len(offsets) for offsets in found) < 130


def test_a_batch_has_at_least_one_element_and_the_stricter_limit_rules(queue: Made) -> None:
    with streaming(queue.options(maxBytesPerTrigger=1)) as stream:
        assert stream.latestOffset(stream.initialOffset(), stream.getDefaultReadLimit())["offset"] == 1
    both = queue.options(maxBytesPerTrigger=10**9, maxOffsetsPerTrigger=7)
    with streaming(both) as stream:
        assert stream.latestOffset(stream.initialOffset(), stream.getDefaultReadLimit())["offset"] == 7


def test_available_now_ends_where_the_queue_ended_when_it_began(queue: Made) -> None:
    with streaming(queue.options(maxOffsetsPerTrigger=400)) as stream:
        stream.prepareForTriggerAvailableNow()
        queue.add(100)
        assert [end["offset"] for _, end in batches(stream)] == [400, 650]
        assert stream.reportLatestOffset()["offset"] == 750


def test_an_idle_stream_looks_into_the_cold_store_once_a_second(queue: Made) -> None:
    with streaming(queue.options(start="end")) as stream:
        clock = stream._clock
        end = stream.latestOffset(stream.initialOffset(), ALL)
        began = clock.monotonic()
        for _ in range(10):
            assert stream.latestOffset(end, ALL) == end
        assert clock.monotonic() - began == pytest.approx(10 * LOOK_SECONDS)
        queue.add(5)
        assert stream.latestOffset(end, ALL)["offset"] == 655


def test_a_batch_run_again_is_cut_the_same_way_whatever_became_of_its_blocks(tmp_path: Path) -> None:
    queue = make(tmp_path, [900] * 8, [50] * 4)
    options = queue.options(partition_bytes=PARTITION_BYTES_MIN)
    with streaming(options) as stream:
        start = stream.initialOffset()
        end = stream.latestOffset(start, ALL)
        first = read(stream, start, end)
    assert flat(first) == list(range(7_400))
    queue.queue.merge(everything=True)
    queue.add(1_000)
    with streaming(queue.options()) as stream:  # after a restart, with other options
        assert read(stream, start, end) == first


def test_history_is_cut_into_several_partitions_along_blocks(tmp_path: Path) -> None:
    queue = make(tmp_path, [])
    for _ in range(16):
        queue.add(400, width=1_000)
    with streaming(queue.options()) as stream:
        start = stream.initialOffset()
        parts = read(stream, start, stream.latestOffset(start, ALL))
    assert flat(parts) == list(range(6_400))
    assert len(parts) > 1
    assert {part[0] for part in parts} <= {block.first for block in queue.queue.list_blocks()}


def test_young_blocks_that_were_merged_and_swept_after_the_plan_are_still_read(queue: Made) -> None:
    with streaming(queue.options()) as stream:
        start = stream.initialOffset()
        planned = stream.partitions(start, stream.latestOffset(start, ALL))
        queue.queue.merge(everything=True)
        assert queue.queue.sweep(grace_seconds=-3_600).young == 2
        columns = [batch.column("offset").to_pylist() for part in planned for batch in stream.read(part)]
    assert flat(columns) == list(range(650))


def test_a_checkpoint_of_another_queue_is_refused(queue: Made, tmp_path: Path) -> None:
    other = make(tmp_path / "other", [10])
    with streaming(other.options()) as stream:
        elsewhere = stream.initialOffset()
    with streaming(queue.options()) as stream, pytest.raises(Conflict, match="another queue"):
        stream.latestOffset(elsewhere, ALL)


def test_a_checkpoint_that_is_ahead_of_the_cold_store_waits_or_asks_for_the_server(queue: Made) -> None:
    with streaming(queue.options()) as stream:
        start = stream.initialOffset()
        ahead = start | {"offset": 1_000}
        assert stream.latestOffset(ahead, ALL)["offset"] == 1_000  # never back
        with pytest.raises(OutOfRange, match="add option server"):
            stream.partitions(start, ahead)


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"end": "offset:7"}, InvalidInput, "a stream has no end"),
        ({"maxOffsetsPerTrigger": "0"}, InvalidInput, "whole number above 0"),
        ({"maxBytesPerTrigger": "1 MB"}, InvalidInput, "maxBytesPerTrigger is '1 MB'"),
        ({"maxFilesPerTrigger": "1"}, InvalidInput, "is not known"),
        ({"start": "offset:651"}, OutOfRange, "outside 0..650"),
        ({"start": "subscriber:billing"}, InvalidInput, "needs option server"),
        ({"queue": "order"}, NotFound, "no queue order"),
    ],
)
def test_bad_options_are_told_in_one_line(
    queue: Made, options: dict[str, str], error: type[Exception], said: str
) -> None:
    stream = reader(queue.options() | options)
    with pytest.raises(error, match=said) as caught:
        _ = stream.getDefaultReadLimit(), stream.initialOffset()
    assert "\n" not in str(caught.value)
