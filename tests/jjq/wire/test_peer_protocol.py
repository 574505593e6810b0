"""Frames between nodes come whole and in order, however the connection cuts them; nonsense ends it."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jjq.limits import PEER_FRAME_BYTES_MAX, WIRE_NUMBER_MAX
from jjq.wire.arrow_field import Span
from jjq.wire.peer_protocol import GREETING, Frames

SIZES = st.sampled_from([0, 1, 7, 8, 9]) | st.integers(0, 5_000)


class Kept(asyncio.Transport):
    """Keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def abort(self) -> None:
        self.aborted = True

    def is_closing(self) -> bool:
        return self.aborted


class Listener(Frames):
    """Keeps what it is told."""

    def __init__(self) -> None:
        super().__init__(GREETING)
        self.kept = Kept()
        self.greetings = 0
        self.spans: list[tuple[int, Span]] = []
        self.reasons: list[str] = []
        self.connection_made(self.kept)

    def greeted(self) -> None:
        self.greetings += 1

    def heard(self, number: int, message: Span) -> None:
        self.spans.append((number, message))

    def spoilt(self, why: str) -> None:
        assert self.kept.aborted
        self.reasons.append(why)

    @property
    def messages(self) -> list[tuple[int, bytes]]:
        return [(number, span.bytes) for number, span in self.spans]


def frame(number: int, message: bytes) -> bytes:
    """As the module's docstring has it."""
    size = len(message)
    return size.to_bytes(4, "little") + number.to_bytes(4, "little") + message + bytes(-size % 8)


def body(number: int, size: int) -> bytes:
    """Bytes that tell their message and their place."""
    return b"".join(b"%d/%d;" % (number, at) for at in range(0, size, 4))[:size]


def told(messages: list[tuple[int, bytes]]) -> bytes:
    """All that one side sends."""
    return GREETING + b"".join(frame(number, message) for number, message in messages)


@given(st.lists(SIZES, max_size=12), st.lists(st.integers(0, 60_000), max_size=25))
def test_each_message_comes_whole_once_and_in_order_whatever_the_cuts(
    sizes: list[int], places: list[int]
) -> None:
    messages = [(WIRE_NUMBER_MAX - n, body(n, size)) for n, size in enumerate(sizes)]
    stream = told(messages)
    listener = Listener()
    cuts = sorted({0, len(stream), *(place % len(stream) for place in places)})
    for begin, end in pairwise(cuts):
        listener.data_received(stream[begin:end])
    assert listener.messages == messages
    assert (listener.greetings, listener.reasons) == (1, [])
    for _, span in listener.spans:
        assert span.begin % 8 == 0  # where Arrow's buffers can be used as they lie
        assert span.raw[span.begin : span.end] == span.bytes


def test_bytes_may_come_one_by_one() -> None:
    messages = [(n, body(n, size)) for n, size in enumerate([0, 1, 7, 8, 9, 0, 100])]
    stream = told(messages)
    listener = Listener()
    for at in range(len(stream)):
        assert (listener.greetings == 1) == (at >= len(GREETING))
        listener.data_received(stream[at : at + 1])
    assert listener.messages == messages


def test_a_message_is_heard_when_its_last_byte_has_come() -> None:
    """Those that follow it may be long in coming."""
    listener = Listener()
    stream = GREETING + frame(1, b"twelve bytes") + frame(2, body(2, 1_000))
    listener.data_received(stream[:-1])
    assert listener.messages == [(1, b"twelve bytes")]
    listener.data_received(stream[-1:])
    assert listener.messages == [(1, b"twelve bytes"), (2, body(2, 1_000))]


def test_several_frames_may_come_with_the_greeting() -> None:
    messages = [(n, body(n, 10 * n)) for n in range(5)]
    listener = Listener()
    listener.data_received(told(messages))
    assert (listener.greetings, listener.messages) == (1, messages)


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 5_000])
def test_what_one_side_says_the_other_hears(size: int) -> None:
    speaker, listener = Listener(), Listener()
    listener.data_received(GREETING)
    for number in (0, 1, WIRE_NUMBER_MAX):
        speaker.say(number, body(number, size))
    assert (
        speaker.kept.written == told([(n, body(n, size)) for n in (0, 1, WIRE_NUMBER_MAX)])[len(GREETING) :]
    )
    assert len(speaker.kept.written) % 8 == 0
    listener.data_received(speaker.kept.written)
    assert listener.messages == [(n, body(n, size)) for n in (0, 1, WIRE_NUMBER_MAX)]


def test_a_small_part_of_what_came_gets_memory_of_its_own_and_a_large_one_none() -> None:
    listener = Listener()
    listener.data_received(GREETING)
    chunk = frame(1, body(1, 4_000)) + frame(2, b"small")
    listener.data_received(chunk)
    (_, large), (_, small) = listener.spans
    assert large.raw is chunk
    assert small == Span(b"small", 0, 5)  # a few bytes do not hold many


def test_a_message_that_comes_alone_is_not_copied() -> None:
    listener = Listener()
    listener.data_received(GREETING)
    chunk = frame(1, b"alone")
    listener.data_received(chunk)
    assert listener.spans[0][1].raw is chunk


@pytest.mark.parametrize(
    "greeting", [b"GET / HTTP/1.1\r\n", GREETING[:-1] + b"x", b"jjq-peer/2\n\n\n\n\n\n", bytes(16)]
)
@pytest.mark.parametrize("pieces", [1, 2])
def test_who_greets_otherwise_is_hung_up_on_and_not_heard(greeting: bytes, pieces: int) -> None:
    listener = Listener()
    stream = greeting + GREETING + frame(1, b"a")
    cut = len(stream) if pieces == 1 else 5
    for piece in (stream[:cut], stream[cut:], frame(2, b"b")):
        listener.data_received(piece)
    assert listener.kept.aborted
    assert (listener.greetings, listener.spans) == (0, [])
    (why,) = listener.reasons
    assert repr(greeting) in why


def test_too_long_a_frame_ends_the_connection_before_it_is_kept() -> None:
    listener = Listener()
    head = (PEER_FRAME_BYTES_MAX + 1).to_bytes(4, "little") + bytes(4)
    listener.data_received(told([(1, b"before")]) + head + bytes(100))
    assert listener.kept.aborted
    assert listener.messages == [(1, b"before")]
    (why,) = listener.reasons
    assert str(PEER_FRAME_BYTES_MAX + 1) in why
    for _ in range(3):
        listener.data_received(frame(2, b"after"))
    assert (listener.messages, len(listener.reasons)) == ([(1, b"before")], 1)


def test_the_longest_frame_is_heard() -> None:
    listener = Listener()
    stream = told([(1, bytes(PEER_FRAME_BYTES_MAX)), (2, b"after")])
    for at in range(0, len(stream), 2**20):
        listener.data_received(stream[at : at + 2**20])
    assert [(number, span.size) for number, span in listener.spans] == [(1, PEER_FRAME_BYTES_MAX), (2, 5)]
    assert not listener.reasons


def test_a_long_message_is_put_together_once() -> None:
    """With every piece that comes, it would cost the square of its size."""
    listener = Listener()
    stream = told([(1, body(1, 4_000))])
    pieces = [stream[at : at + 100] for at in range(0, len(stream), 100)]
    for count, piece in enumerate(pieces[:-1]):
        listener.data_received(piece)
        assert len(listener._parts) == count + 1
    listener.data_received(pieces[-1])
    assert (listener.messages, listener._parts) == ([(1, body(1, 4_000))], [])
