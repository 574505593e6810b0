"""Read: a range of a queue as a stream, without a subscriber."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

from coldstore.shared.errors import check
from coldstore.start_points import named_offset
from hotstore.port import Store
from jjq.server.cluster_port import Hint
from jjq.server.handlers import Call
from jjq.server.loop_steps import StepScheduler
from jjq.server.shutdown import Drain
from jjq.v1 import jjq_pb2 as pb
from jjq.wire.batches import encoding, pieces
from jjq.wire.batches import request as parse
from jjq.wire.enums import FORM


async def read(store: Store, drain: Drain, scheduler: StepScheduler, hint: Hint, call: Call) -> None:
    """Resolve both ends first and say so, so that a client can resume exactly, then send.

    A read of a range is work and is finished by a stopping server; one that follows is not. Where other
    nodes serve parts of the range, each part begins with the hint where it could be had directly.
    """
    request = parse(pb.ReadRequest, call.first)
    form = FORM.word(request.form)
    await scheduler.pace.turn()
    header = await _resolve(store, request)
    sent_owner = header.owner = hint(request.queue, header.start_offset)
    await call.write(header.SerializeToString())
    end = f"offset:{header.end_offset}" if header.HasField("end_offset") else request.end or None
    source: Any = store.read(request.queue, f"offset:{header.start_offset}", end, follow=request.follow)
    position = header.start_offset
    async with aclosing(source):
        while True:
            await scheduler.pace.turn()
            try:
                batch = await (drain.wait(anext(source)) if request.follow else anext(source))
            except StopAsyncIteration:
                return
            check(batch.column("offset")[0].as_py() == position, f"gap in a read at {position}")
            for part in pieces(batch, call.outgoing.room):
                await scheduler.pace.turn()
                position += part.num_rows
                message = pb.ReadResponse(next=position)
                if position != header.end_offset and (owner := hint(request.queue, position)) != sent_owner:
                    sent_owner = message.owner = owner
                await call.write(await scheduler.run(encoding(message, part, form)))
            call.meter.moved(batch.num_rows)


async def _resolve(store: Store, request: pb.ReadRequest) -> pb.ReadResponse:
    first, last = named_offset(request.start), named_offset(request.end)
    if first is not None and last is not None:  # a resumed read, or one between nodes: nothing to resolve
        return pb.ReadResponse(start_offset=first, end_offset=last)
    start = await store.create_subscriber(request.queue, start=request.start or "beginning", dry_run=True)
    check(start.resolved is not None, "a dry run resolves")
    header = pb.ReadResponse(start_offset=start.offset)
    if request.end and not request.follow:
        header.end_offset = (
            await store.create_subscriber(request.queue, start=request.end, dry_run=True)
        ).offset
    elif start.resolved is not None and not request.follow:
        header.end_offset = start.resolved.next_offset
    return header
