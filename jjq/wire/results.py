"""The pops and the results of a PopStream: many replies in one message, their batches not copied through protobuf.

    PopStreamResponse = ( padding? · 0a · length · PopResult )*
    PopResult         = 08 · id · ( 12 · length · PopResponse | 1a · length · Error )

The results of a Work stream look the same: a WorkResult has a TakeResponse where a PopResult has a PopResponse, and
further fields for replies without a batch.

A length says how much follows, so padding inside of a PopResponse would change what stands before it, and
with that its own size. Padding between the results changes nothing: there it puts each Arrow stream at a
multiple of 8 bytes of the whole message, see frame.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
from google.protobuf.message import Message

from coldstore.shared.errors import JjqError
from jjq.v1 import jjq_pb2 as pb
from jjq.wire import arrow_field, arrow_ipc, repeated_elements
from jjq.wire.batches import decode, parse, request
from jjq.wire.repeated_elements import Steps
from jjq.wire.status import error_in, error_out

Reply = tuple[pb.PopResponse, pa.RecordBatch | None]

_POPS_TAG: Final = 1 << 3 | 2
_RESULTS_TAG: Final = 1 << 3 | 2
_POPPED_TAG: Final = 2 << 3 | 2
_ERROR_TAG: Final = 3 << 3 | 2


class Results:
    """A response as it is put together; `size` is that of what it has so far."""

    def __init__(self) -> None:
        self.size = 0
        self._parts: list[bytes | pa.Buffer] = []

    def popped(
        self, number: int, reply: pb.PopResponse | pb.TakeResponse, batch: pa.RecordBatch, form: str
    ) -> Steps[None]:
        """Add the reply to request `number`, with `batch` in it, in steps. The form is `arrow` or `elements`."""
        if form == "arrow":
            stream = arrow_ipc.encode(batch)
            self._add(number, _POPPED_TAG, reply.SerializeToString() + arrow_field.lead(stream), stream)
        else:
            content = yield from repeated_elements.encode(batch)
            head = reply.SerializeToString() + arrow_field.lead_elements(len(content))
            self._add(number, _POPPED_TAG, head + content)

    def failed(self, number: int, error: BaseException) -> None:
        self._add(number, _ERROR_TAG, error_out(error).SerializeToString())

    def plain(self, number: int, field: int, reply: Message) -> None:
        """Add a reply without a batch, as the field with this number."""
        self._add(number, field << 3 | 2, reply.SerializeToString())

    def _add(self, number: int, tag: int, head: bytes, stream: Sequence[bytes | pa.Buffer] = ()) -> None:
        size = len(head) + sum(map(len, stream))
        inner = pb.PopResult(id=number).SerializeToString() + bytes((tag,)) + arrow_field.varint(size)
        outer = bytes((_RESULTS_TAG,)) + arrow_field.varint(len(inner) + size)
        padding = arrow_field.padding(self.size + len(outer) + len(inner) + len(head)) if stream else b""
        self._parts += (padding, outer, inner, head, *stream)
        self.size += len(padding) + len(outer) + len(inner) + size

    def encode(self) -> bytes:
        return b"".join(self._parts)


def split_pops(raw: bytes) -> Iterator[pb.NumberedPop]:
    """The pops of a PopStreamRequest, each parsed when it is its turn: a message may hold millions of them, and all
    at once would take thirty times its size."""
    for tag, _, body, end in arrow_field.fields(raw, 0, len(raw), most=len(raw)):
        if tag == _POPS_TAG:
            yield request(pb.NumberedPop, raw[body:end])


def results(raw: bytes) -> Iterator[tuple[int, Reply | JjqError]]:
    """What each pop came to, by its number. Batches share the memory of `raw`."""
    for tag, _, body, end in arrow_field.fields(raw, 0, len(raw), most=len(raw)):
        if tag == _RESULTS_TAG:
            yield _result(raw, body, end)


def _result(raw: bytes, begin: int, end: int) -> tuple[int, Reply | JjqError]:
    popped, rest = None, b""
    for tag, at, body, after in arrow_field.fields(raw, begin, end):
        if tag == _POPPED_TAG:
            popped = body, after
        else:
            rest += raw[at:after]
    result = parse(pb.PopResult, rest)
    if popped is None:
        return result.id, error_in(result.error)
    try:
        return result.id, decode(pb.PopResponse, raw, *popped)
    except JjqError as error:
        return result.id, error
