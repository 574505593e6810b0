"""The Arrow form: what any library writes is read, everything else is refused before it hurts."""

from __future__ import annotations

import random  # noqa: TID251 - seeded, to damage bytes at reproducible places
from typing import Any

import pyarrow as pa
import pytest

from coldstore.shared.batch import HEADERS, check_payload, payload, payload_schema, schema, stamp
from coldstore.shared.errors import InvalidInput, JjqError
from coldstore.shared.limits import BATCH_ELEMENTS_MAX
from jjq.wire import arrow_field, arrow_ipc
from jjq.wire.arrow_field import Span


def written(*batches: Any, schema: pa.Schema | None = None, **options: Any) -> bytes:
    """A stream as Arrow's own writer makes it."""
    sink = pa.BufferOutputStream()
    options_ = pa.ipc.IpcWriteOptions(**options)
    with pa.ipc.new_stream(sink, schema or batches[0].schema, options=options_) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def decode(raw: bytes) -> pa.RecordBatch:
    return arrow_ipc.decode(Span(raw, 0, len(raw)))[0]


def batch_of(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


FULL = payload(
    "bytes", [b"a", b"", b"ccc"], keys=[b"k", None, b""], headers=[{"x": b"1", "y": b""}, None, {}]
)


@pytest.mark.parametrize(
    "batch",
    [FULL, payload("text", ["ä", ""]), stamp(FULL, 7, 1), FULL.slice(1, 1), batch_of(value=[b"x"])],
    ids=["payload", "text", "elements", "slice", "value only"],
)
def test_our_writing_and_arrows_own_are_the_same_stream(batch: pa.RecordBatch) -> None:
    ours = b"".join(bytes(part) for part in arrow_ipc.encode(batch))
    assert pa.ipc.open_stream(ours).read_all().to_batches()[0].equals(batch)
    assert decode(ours).equals(batch)
    assert decode(written(batch)).equals(batch)


@pytest.mark.parametrize("at", range(8))
def test_a_stream_may_begin_at_any_address(at: int) -> None:
    raw = b"x" * at + written(stamp(FULL, 7, 1))
    batch, _ = arrow_ipc.decode(Span(raw, at, len(raw)))
    assert batch.equals(stamp(FULL, 7, 1))
    assert batch.column("offset").buffers()[1].address % 8 == 0


def test_what_we_send_is_taken_as_it_lies() -> None:
    """From the first field on, whatever its length, the stream is at a multiple of 8: nothing is copied."""
    for length in range(20):
        raw = arrow_field.join(
            b"\x0a" + bytes((length,)) + b"q" * length, arrow_ipc.encode(stamp(FULL, 0, 0))
        )
        _, span = arrow_field.split(raw)
        assert span is not None
        begin = pa.py_buffer(raw).address
        batch, serialized = arrow_ipc.decode(span)
        assert serialized is not None
        assert bytes(serialized) == bytes(batch.serialize())
        for column in batch.columns:
            assert all(b is None or begin <= b.address < begin + len(raw) for b in column.buffers())


FORMS = {
    "large": batch_of(value=pa.array([b"a"], pa.large_binary())),
    "utf8": batch_of(value=pa.array(["a"])),
    "view": batch_of(value=pa.array([b"a"], pa.binary_view()), key=pa.array(["k"], pa.string_view())),
    "dictionary": batch_of(value=pa.array([b"a"]).dictionary_encode()),
    "null key": batch_of(value=[b"a"], key=pa.nulls(1)),
    "other order": batch_of(headers=pa.nulls(1, HEADERS), value=[b"a"]),
}


@pytest.mark.parametrize("name", FORMS)
def test_other_forms_of_the_same_types_are_accepted(name: str) -> None:
    got = check_payload(decode(written(FORMS[name])), "bytes")
    assert got.schema.equals(payload_schema("bytes"))
    assert got.column("value").to_pylist() == [b"a"]


def test_a_stream_without_end_marker_is_accepted() -> None:
    assert decode(written(FULL)[: -len(arrow_ipc.END)]).equals(FULL)


REFUSED = {
    "empty": (b"", "nothing"),
    "noise": (b"\x00\x01\x02", "Arrow"),
    "schema only": (written(schema=FULL.schema), "holds schema"),
    "two batches": (written(FULL, FULL), "several record batches"),
    "garbage behind the end": (written(FULL) + b"x" * 9, "9 bytes follow"),
    "two streams": (written(FULL) * 2, "bytes follow"),
    "cut": (written(FULL)[:-60], "malformed"),
    "zstd": (written(FULL, compression="zstd"), "compressed"),
    "lz4": (written(FULL, compression="lz4"), "compressed"),
    "number": (written(batch_of(value=pa.array([1], pa.int32()))), "value has type int32"),
    "list": (written(batch_of(value=pa.array([[b"a"]]))), "value has type list"),
    "struct": (written(batch_of(value=pa.array([{"a": 1}]))), "value has type struct"),
    "file": (b"ARROW1\x00\x00" + written(FULL), "Arrow"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_one_batch_is_refused_with_its_reason(name: str) -> None:
    raw, reason = REFUSED[name]
    with pytest.raises(InvalidInput, match=reason):
        decode(raw)


def test_a_compressed_bomb_is_refused_without_inflating_it() -> None:
    before = pa.total_allocated_bytes()
    bomb = written(batch_of(value=[b"\x00" * (64 << 20)]), compression="zstd")
    assert len(bomb) < 100_000
    with pytest.raises(InvalidInput, match="compressed"):
        decode(bomb)
    assert pa.total_allocated_bytes() - before < 1 << 20


@pytest.mark.parametrize(
    "column",
    [
        pa.DictionaryArray.from_arrays(pa.array([0] * 1000, pa.int8()), pa.array([b"x" * (1 << 20)])),
        pa.DictionaryArray.from_arrays(
            pa.array([0] * 1000, pa.int8()), pa.array([b"x" * (1 << 20)], pa.binary_view())
        ),
        pa.array([b"x" * (1 << 20)] * 40, pa.binary_view()),
    ],
    ids=["dictionary", "dictionary of views", "view"],
)
def test_a_column_that_expands_beyond_the_limit_is_refused_before_it_does(column: pa.Array) -> None:
    with pytest.raises(InvalidInput, match="once expanded"):
        decode(written(batch_of(value=column)))


def test_more_elements_than_a_batch_may_have_are_refused() -> None:
    many = batch_of(value=pa.nulls(BATCH_ELEMENTS_MAX + 1))
    with pytest.raises(InvalidInput, match="elements"):
        decode(written(many))


def test_offsets_that_point_outside_are_refused() -> None:
    raw = bytearray(written(payload("bytes", [b"abc", b"def"])))
    at = raw.rindex(b"\x03\x00\x00\x00\x06\x00\x00\x00")
    raw[at : at + 4] = b"\xff\xff\xff\x7f"
    with pytest.raises(InvalidInput, match="malformed"):
        decode(bytes(raw))


def test_text_that_is_not_utf8_is_refused() -> None:
    raw = written(payload("text", ["ABCDEFGH"])).replace(b"ABCDEFGH", b"ABC\xff\xfeFGH")
    with pytest.raises(InvalidInput, match="malformed"):
        decode(raw)


@pytest.mark.parametrize("seed", range(20))
def test_flipped_bytes_are_refused_or_give_a_sound_batch(seed: int) -> None:
    """Nothing but our own errors, and whatever is accepted can be used to the last byte."""
    source = random.Random(seed)
    whole = [written(FULL), written(FORMS["dictionary"]), written(FORMS["view"]), written(stamp(FULL, 0, 0))]
    for _ in range(250):
        raw = bytearray(source.choice(whole))
        for _ in range(source.randint(1, 4)):
            raw[source.randrange(len(raw))] = source.randrange(256)
        try:
            batch = check_payload(decode(bytes(raw)), "bytes")
        except JjqError:
            continue
        stamp(batch, 0, 0).serialize()
        batch.to_pylist()


def test_schemas_of_both_sides_are_known() -> None:
    assert {s.to_string() for s in arrow_ipc.SCHEMAS} >= {
        s(content).to_string() for s in (schema, payload_schema) for content in ("bytes", "text", "json")
    }
