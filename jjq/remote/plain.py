"""Plain pushes over open streams (streams.py).

A plain push must not be sent twice, so unlike in a pipeline (pipeline.py) nothing is. Answers come in the
order of the pushes, so each queue has a stream of its own: a queue that has to wait keeps nobody else
waiting.
"""

from __future__ import annotations

from coldstore.shared.results import Receipt
from jjq.limits import PLAIN_STREAMS_MAX, STREAM_MESSAGE_BYTES, STREAM_MESSAGE_PUSHES
from jjq.remote.channels import Link
from jjq.remote.streams import Stream, Streams
from jjq.v1 import jjq_pb2 as pb
from jjq.wire.batches import parse
from jjq.wire.convert import receipt_in
from jjq.wire.pushes import joined
from jjq.wire.status import error_in


class PlainStream(Stream[bytes, Receipt]):
    """The plain pushes to one queue."""

    method = "PushStream"
    _several = False  # the server takes several pushes in one message

    def _message(self) -> bytes | None:
        raws: list[bytes] = []
        size = 0
        for _, raw in self._leaving():
            raws.append(raw)
            size += len(raw)
            behind = len(self._unsent[0][0]) if self._unsent else 0
            if (
                not self._several
                or size + behind > STREAM_MESSAGE_BYTES
                or len(raws) == STREAM_MESSAGE_PUSHES
            ):
                break
        return joined(raws) if raws else None

    def _heard(self, raw: bytes) -> None:
        response = parse(pb.PushStreamResponse, raw)
        self._link.learn(self._queue, response.owner)
        self._several = response.several
        for result in response.results:
            done = result.WhichOneof("result") == "receipt"
            self._settled(
                next(iter(self._sent)), receipt_in(result.receipt) if done else error_in(result.error)
            )


def plain_streams(link: Link) -> Streams[PlainStream]:
    return Streams(link, PlainStream, PLAIN_STREAMS_MAX)
