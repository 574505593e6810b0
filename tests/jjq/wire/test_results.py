"""The hand-made framing of a PopStream's results says exactly what protobuf says."""

from __future__ import annotations

import pyarrow as pa
import pytest
from google.protobuf.message import DecodeError
from hypothesis import example, given
from hypothesis import strategies as st

from coldstore.shared.batch import payload, stamp
from coldstore.shared.errors import InvalidInput, JjqError, NotFound, OutOfRange, Unavailable
from jjq.v1 import jjq_pb2 as pb
from jjq.wire import arrow_field, arrow_ipc
from jjq.wire.repeated_elements import finish
from jjq.wire.results import Results, results
from tests.jjq.serving import said

numbers = st.integers(0, 2**64 - 1)
replies = st.builds(
    pb.PopResponse, position=st.integers(0, 2**63 - 1), next=st.integers(0, 300), owner=st.text(max_size=200)
)
batches = st.lists(st.binary(max_size=300), max_size=60).map(
    lambda values: stamp(payload("bytes", values), 0, 1)
)


def made(*entries: tuple[int, pb.PopResponse, pa.RecordBatch, str]) -> bytes:
    response = Results()
    for number, reply, batch, form in entries:
        finish(response.popped(number, reply, batch, form))
    raw = response.encode()
    assert response.size == len(raw)
    return raw


@given(st.lists(st.tuples(numbers, replies, batches, st.sampled_from(["arrow", "elements"])), max_size=5))
def test_results_are_what_protobuf_would_write_and_are_read_again(
    entries: list[tuple[int, pb.PopResponse, pa.RecordBatch, str]],
) -> None:
    raw = made(*((number, _copy(reply), batch, form) for number, reply, batch, form in entries))
    by_protobuf = pb.PopStreamResponse.FromString(raw).results
    found = list(results(raw))
    assert len(by_protobuf) == len(found) == len(entries)
    for (number, reply, batch, form), result, (same, answer) in zip(entries, by_protobuf, found, strict=True):
        assert number == same == result.id
        assert not isinstance(answer, JjqError)
        for message in (answer[0], result.popped):
            assert (message.position, message.next, message.owner) == (
                reply.position,
                reply.next,
                reply.owner,
            )
        if form == "arrow":
            assert answer[1] is not None
            assert answer[1].equals(batch)
            assert result.popped.arrow.ipc == b"".join(map(bytes, arrow_ipc.encode(batch)))
        else:
            assert [e.value for e in result.popped.elements.elements] == said(batch)


def _copy(reply: pb.PopResponse) -> pb.PopResponse:
    return pb.PopResponse.FromString(reply.SerializeToString())


@given(st.lists(st.tuples(numbers, replies, batches), min_size=1, max_size=5))
def test_every_arrow_stream_lies_at_a_multiple_of_eight(
    entries: list[tuple[int, pb.PopResponse, pa.RecordBatch]],
) -> None:
    raw = made(*((*entry, "arrow") for entry in entries))
    streams = [arrow_ipc.encode(batch)[0] for _, _, batch in entries]
    at = 0
    for stream in streams:
        at = raw.index(stream, at)
        assert at % 8 == 0
        at += 1


def test_batches_share_the_memory_of_the_message() -> None:
    batch = stamp(payload("bytes", [b"x" * 1_000] * 10), 0, 1)
    raw = made((1, pb.PopResponse(), batch, "arrow"), (2, pb.PopResponse(), batch, "arrow"))
    begin = pa.py_buffer(raw).address
    for _, answer in results(raw):
        assert not isinstance(answer, JjqError)
        assert answer[1] is not None
        values = answer[1].column("value").buffers()[2]
        assert begin <= values.address < begin + len(raw)


def test_errors_are_results_too() -> None:
    response = Results()
    response.failed(3, OutOfRange("no", first=1, next=2))
    response.failed(4, ZeroDivisionError())
    (three, out), (four, unforeseen) = results(response.encode())
    assert (three, four) == (3, 4)
    assert isinstance(out, OutOfRange)
    assert (out.first, out.next) == (1, 2)
    assert isinstance(unforeseen, Unavailable)


def test_a_result_that_says_nothing_is_of_unknown_outcome() -> None:
    raw = pb.PopStreamResponse(results=[pb.PopResult(id=5)]).SerializeToString()
    ((number, answer),) = results(raw)
    assert number == 5
    assert isinstance(answer, Unavailable)


def test_a_damaged_batch_spoils_its_own_result_only() -> None:
    broken = pb.PopResult(id=1, popped=pb.PopResponse(arrow=pb.ArrowBatch(ipc=b"nonsense")))
    missing = pb.PopResult(id=2, error=pb.Error(kind=pb.ERROR_KIND_NOT_FOUND, message="gone"))
    raw = pb.PopStreamResponse(results=[broken, missing]).SerializeToString()
    (_, one), (_, two) = results(raw)
    assert isinstance(one, InvalidInput)
    assert isinstance(two, NotFound)


pieces = st.sampled_from(
    [b"\x0a", b"\x12", b"\x1a", b"\x08\x05", b"\x02", b"\x00", b"\x80", b"\x0a\x02\x08\x07"]
)


@given(st.binary(max_size=200) | st.lists(pieces, max_size=8).map(b"".join))
@example(b"\x0a\x08\x08\x05\x12\x04\x7a\x02\x0a\x80")
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    """What is read has the numbers that protobuf reads; a result that is spoilt is an error of its own."""
    try:
        whole = pb.PopStreamResponse.FromString(raw)
    except DecodeError:
        whole = None
    try:
        found = list(results(raw))
    except InvalidInput:
        found = None
    if whole is None or found is None:
        assert whole is None, "what protobuf can read is read"
        return
    assert [number for number, _ in found] == [result.id for result in whole.results]
    for (_, answer), result in zip(found, whole.results, strict=True):
        if not result.HasField("popped"):
            assert isinstance(answer, JjqError)
        elif not isinstance(answer, JjqError):
            assert answer[0].position == result.popped.position


def test_a_field_does_not_reach_beyond_the_message_it_is_in() -> None:
    inner = b"\x12\x05abc"  # says five bytes, has three
    with pytest.raises(InvalidInput):
        list(arrow_field.fields(inner + b"defg", 0, len(inner)))
