"""The hand-made framing says exactly what protobuf says."""

from __future__ import annotations

import pyarrow as pa
import pytest
from google.protobuf.message import DecodeError
from hypothesis import example, given
from hypothesis import strategies as st

from coldstore.shared.errors import InvalidInput
from jjq.limits import MESSAGE_FIELDS_MAX
from jjq.v1 import jjq_pb2 as pb
from jjq.wire import arrow_field

requests = st.builds(
    pb.PushRequest,
    queue=st.text(max_size=300),
    producer=st.none() | st.text(max_size=10),
    sequence=st.none() | st.integers(-(2**63), 2**63 - 1),
    expected_offset=st.none() | st.integers(0, 2**63 - 1),
    stage=st.sampled_from(pb.Stage.values()),
)


@given(requests, st.binary(max_size=70_000))
def test_a_joined_message_is_what_protobuf_would_write_and_splits_again(
    request: pb.PushRequest, stream: bytes
) -> None:
    head = request.SerializeToString()
    raw = arrow_field.join(head, [stream[:5], pa.py_buffer(stream[5:])])
    request.arrow.ipc = stream
    read = pb.PushRequest.FromString(raw)
    read.ClearField("padding")
    assert read == request
    for encoded in (raw, request.SerializeToString()):
        rest, found = arrow_field.split(encoded)
        other = pb.PushRequest.FromString(rest)
        other.ClearField("padding")
        assert other == pb.PushRequest.FromString(head)
        assert found is not None
        assert found.raw[found.begin : found.end] == stream


@given(requests)
def test_a_message_without_a_batch_is_left_alone(request: pb.PushRequest) -> None:
    raw = request.SerializeToString()
    assert arrow_field.split(raw) == (raw, None)


@given(requests)
def test_the_friendly_form_is_cut_out_unparsed(request: pb.PushRequest) -> None:
    head = request.SerializeToString()
    request.elements.elements.add(value=b"a")
    rest, found = arrow_field.split(request.SerializeToString())
    assert rest == head
    assert isinstance(found, arrow_field.RepeatedElementsSpan)
    assert pb.Elements.FromString(found.bytes) == request.elements


def parsed(raw: bytes) -> pb.PushRequest | None:
    try:
        return pb.PushRequest.FromString(raw)
    except DecodeError:
        return None


pieces = st.sampled_from(
    [b"\x7a", b"\x0a", b"\x72", b"\x02", b"\x00", b"\x80", b"\x05abcde", b"\x7a\x02\x0a\x00"]
)


@given(st.binary(max_size=200) | st.lists(pieces, max_size=8).map(b"".join))
@example(b"\x7a\x02\x0a\x80")  # the length in the field arrow is cut off
def test_any_bytes_split_or_are_refused(raw: bytes) -> None:
    """What is split says what protobuf says; what protobuf cannot read is refused here, or by it afterwards."""
    whole = parsed(raw)
    refusal, rest, found = "", b"", None
    try:
        rest, found = arrow_field.split(raw)
    except InvalidInput as error:
        refusal = str(error)
    if refusal:
        assert whole is None or "more than one batch" in refusal
        return
    if found is None:
        assert rest == raw
        return
    other = parsed(rest)
    if isinstance(found, arrow_field.RepeatedElementsSpan):  # protobuf reads it later, and may refuse it then
        if whole is not None:
            assert pb.Elements.FromString(found.bytes) == whole.elements
            whole.ClearField("elements")
            assert other == whole
        return
    assert (other is None) == (whole is None)
    if whole is not None and other is not None:
        assert found.raw[found.begin : found.end] == whole.arrow.ipc
        whole.ClearField("arrow")
        assert other == whole


def elements() -> bytes:
    return pb.PushRequest(elements=pb.Elements(elements=[pb.Element(value=b"a")])).SerializeToString()


@pytest.mark.parametrize("order", [1, -1])
def test_both_forms_at_once_are_refused_where_protobuf_would_keep_the_last(order: int) -> None:
    both = [elements(), arrow_field.join(b"", [b"stream"])][::order]
    with pytest.raises(InvalidInput, match="more than one batch"):
        arrow_field.split(b"".join(both))


def test_a_form_given_twice_is_refused() -> None:
    with pytest.raises(InvalidInput, match="more than one batch"):
        arrow_field.split(arrow_field.join(arrow_field.join(b"", [b"one"]), [b"two"]))


def test_an_arrow_field_of_another_shape_is_left_to_protobuf() -> None:
    inner = pb.ArrowBatch(ipc=b"stream").SerializeToString() + b"\x50\x01"  # an unknown field follows
    raw = bytes((0x7A, len(inner))) + inner
    assert arrow_field.split(raw)[1] == arrow_field.Span(b"stream", 0, 6)
    assert arrow_field.split(b"\x7a\x00")[1] == arrow_field.Span(b"", 0, 0)


def test_a_swarm_of_fields_is_refused_before_it_costs_time() -> None:
    with pytest.raises(InvalidInput, match="too many fields"):
        arrow_field.split(b"\x50\x01" * (MESSAGE_FIELDS_MAX + 1))
