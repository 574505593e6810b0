"""Damage to a data file: whatever it is, a read says DATA_LOSS, names it, and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coldstore.layout import paths
from coldstore.shared import limits
from coldstore.shared.errors import DataLoss
from tests.coldstore.making import Made, contents, flip, read_all

FIRST, SECOND = paths.data("orders", 0), paths.data("orders", 40)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    monkeypatch.setattr(limits, "ROW_GROUP_BYTES", 400)
    made = Made()
    made.push(40)
    made.push(40)
    made.push(3, final=False)
    return made


def regions(data: bytes) -> Iterator[tuple[str, range]]:
    """Every region of a Parquet file, as its own footer tells: each column chunk of each row group,
    the page index between them and the footer, the footer, its length, both magics."""
    footer = pq.read_metadata(pa.BufferReader(data))
    yield "magic", range(4)
    end = 4
    for group in range(footer.num_row_groups):
        for column in range(footer.num_columns):
            chunk = footer.row_group(group).column(column)
            end = chunk.data_page_offset + chunk.total_compressed_size
            yield f"row group {group}, {chunk.path_in_schema}", range(chunk.data_page_offset, end)
    footer_start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    yield "page index", range(end, footer_start)
    yield "footer", range(footer_start, len(data) - 8)
    yield "footer length", range(len(data) - 8, len(data) - 4)
    yield "magic at the end", range(len(data) - 4, len(data))


def test_the_regions_cover_the_whole_file(made: Made) -> None:
    data = bytes(made.objects.get(FIRST).data)
    covered = [byte for _, region in regions(data) for byte in region]
    assert covered == list(range(len(data)))
    assert len(list(regions(data))) > 20


def test_a_flipped_bit_in_every_region_is_caught_and_named(made: Made) -> None:
    data = bytes(made.objects.get(SECOND).data)
    for name, region in regions(data):
        for byte in {region.start, region.stop - 1, *region[:: max(1, len(region) // 5)]}:
            flip(made.objects, SECOND, byte, bit=byte % 8)
            with pytest.raises(DataLoss, match="sha256 is not the one") as loss:
                made.queue.read_block(40)
            assert (loss.value.key, loss.value.block) == (SECOND, 40), name
            made.objects.put(SECOND, data)
    assert made.queue.read_block(40).num_rows == 40


@pytest.mark.parametrize("length", [0, 1, 4, 100, -100, -8, -4, -1])
def test_a_truncated_file_is_caught_and_named(made: Made, length: int) -> None:
    data = bytes(made.objects.get(FIRST).data)
    made.objects.put(FIRST, data[:length])
    with pytest.raises(DataLoss, match="bytes instead of") as loss:
        made.queue.read_block(0)
    assert (loss.value.key, loss.value.block) == (FIRST, 0)


def test_a_file_with_bytes_after_its_end_is_caught(made: Made) -> None:
    made.objects.put(FIRST, bytes(made.objects.get(FIRST).data) + b"\0")
    with pytest.raises(DataLoss, match="more than its"):
        made.queue.read_block(0)


def test_a_missing_file_is_caught_and_named(made: Made) -> None:
    made.objects.delete(FIRST)
    with pytest.raises(DataLoss, match="is missing") as loss:
        made.queue.read_block(0)
    assert (loss.value.key, loss.value.block) == (FIRST, 0)


def test_two_swapped_files_are_caught_both(made: Made) -> None:
    first, second = made.objects.get(FIRST).data, made.objects.get(SECOND).data
    made.objects.put(FIRST, second)
    made.objects.put(SECOND, first)
    for block in (0, 40):
        with pytest.raises(DataLoss) as loss:
            made.queue.read_block(block)
        assert loss.value.block == block


def test_damage_to_one_block_leaves_the_others_readable(made: Made) -> None:
    flip(made.objects, FIRST, 200)
    queue = made.reopened()
    assert queue.read_block(40).num_rows == 40
    assert queue.read_block(80).num_rows == 3


def test_nothing_is_changed_by_reading_damage(made: Made) -> None:
    flip(made.objects, FIRST, 200)
    made.objects.delete(SECOND)
    before = contents(made.objects)
    for block in (0, 40):
        with pytest.raises(DataLoss):
            made.queue.read_block(block)
    assert contents(made.objects) == before
    made.push(2)
    after = contents(made.objects)
    assert after[FIRST] == before[FIRST]
    assert SECOND not in after


def test_a_file_that_unpacks_to_more_than_was_committed_is_not_unpacked(made: Made) -> None:
    """A bomb: right digest, small file, and a footer that promises far more than the block has."""
    from dataclasses import replace

    block = made.queue.list_blocks()[0]
    tiny = replace(block, raw_bytes=1)
    file = made.queue._files.open(block, made.objects.get(FIRST).data)
    assert file.unpacked_bytes() < 2 * limits.MIB
    from coldstore.block import files

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(files, "unpacked_bytes_max", lambda raw_bytes: 2 * raw_bytes)
        with pytest.raises(DataLoss, match="would unpack to"):
            made.queue._files.open(tiny, made.objects.get(FIRST).data)


def test_a_sound_file_of_another_block_is_not_taken_even_with_its_digest(made: Made) -> None:
    from dataclasses import replace

    one, two = made.queue.list_blocks()[:2]
    wrong = replace(one, sha256=two.sha256, stored_bytes=two.stored_bytes)
    made.objects.put(FIRST, made.objects.get(SECOND).data)
    with pytest.raises(DataLoss, match="does not hold block"):
        made.queue._files.read(wrong)


def test_everything_is_still_readable_when_nothing_is_damaged(made: Made) -> None:
    assert len(read_all(made.reopened())) == 83
