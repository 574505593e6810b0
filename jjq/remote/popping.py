"""Pops over open streams (streams.py): one for all subscribers of a server.

Results come in any order, so nobody waits for anybody else. All pops that are made while a message is on
its way travel together in the next one. Only pops that do not wait for elements are asked over a stream:
a call that waits can be cancelled, and the server then knows that nobody wants its elements any more.
"""

from __future__ import annotations

from coldstore.shared.bounded_dict import BoundedDict
from jjq.limits import LAGGING_MAX, POP_TARGETS_MAX
from jjq.remote.channels import Link
from jjq.remote.streams import Stream, Streams
from jjq.v1 import jjq_pb2 as pb
from jjq.wire.results import Reply, results


class PopStream(Stream[pb.PopRequest, Reply]):
    """The pops at one server."""

    method = "PopStream"

    def _message(self) -> bytes | None:
        pops = [pb.NumberedPop(id=number, pop=request) for number, request in self._leaving()]
        return pb.PopStreamRequest(pops=pops).SerializeToString() if pops else None

    def _heard(self, raw: bytes) -> None:
        for number, result in results(raw):
            self._settled(number, result)


def pop_streams(link: Link) -> Streams[PopStream]:
    return Streams(link, PopStream, POP_TARGETS_MAX)


class Lagging:
    """Subscribers whose last pop got all that it asked for, so that there is probably more; the latest ones."""

    def __init__(self) -> None:
        self._known: BoundedDict[str, bool] = BoundedDict(LAGGING_MAX)

    def __contains__(self, subscriber: str) -> bool:
        return subscriber in self._known

    def saw(self, subscriber: str, full: bool) -> None:
        """A pop got as much as it asked for, or not."""
        if full:
            self._known[subscriber] = True
        else:
            self._known.pop(subscriber)
