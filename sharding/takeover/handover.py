"""A planned move: the owner gives a queue to another node. Nothing is lost; pushes wait for a moment.

    1  seal while pushes go on, until little is left
    2  journal: LEAVING. Later requests wait; seal the rest                 (hotstore.lifecycle.departure)
    3  put the state document: subscribers and producers
    4  swap the shards document: the next epoch, the next owner             the queue has moved
    5  journal: LEFT; waiting requests are answered with the new owner

Any node may die at any step. Before step 4 the queue is the old owner's, which finds LEAVING in its journal and reads
the shards document again (`Claims.confirm`). From step 4 on it is the new owner's, which finds everything in the cold
store.
"""

from __future__ import annotations

from coldstore.shared import failpoint
from coldstore.shared.errors import Conflict, Fenced, NotFound, Unavailable
from hotstore.lifecycle.departure import Departures, moved
from hotstore.queue.queue import HotQueue
from hotstore.runner import Runner
from sharding.documents import queue_state, shards, tenure
from sharding.documents.shards import Shards
from sharding.takeover.claims import Claims


async def hand_over(queue: str, to: str, claims: Claims, departures: Departures, runner: Runner) -> Shards:
    """Move a queue of ours to node `to`, by the steps above. Must not be cancelled half-way."""
    now, run = await runner.run(lambda: _look(queue, to, claims))
    if now.owner == to:
        return now
    hot, what = await departures.begin(queue, moved(queue, to))
    swapping = False
    try:
        name = await runner.run(lambda: queue_state.put(claims.objects, queue, hot.epoch + 1, what))
        failpoint.reach("move.state_put")
        swapping = True
        new = await runner.run(lambda: _swap(hot, to, run, name, claims))
        failpoint.reach("move.swapped")
    except Fenced as lost:
        await departures.leave(hot, moved(queue, lost.owner or to))
        raise
    except BaseException as error:
        if swapping and isinstance(error, Unavailable):
            departures.unsure(hot)
        else:
            await departures.stay(hot)
        raise
    claims.forget(queue)
    await departures.leave(hot, moved(queue, to))
    await runner.run(lambda: queue_state.sweep(claims.objects, queue, name))
    return new


def _look(queue: str, to: str, claims: Claims) -> tuple[Shards, int]:
    """The document of a queue of ours, and the run of the node that is to have it."""
    found = shards.read(claims.objects, queue)
    if found is None:
        raise NotFound(f"queue {queue} has no owner yet: push to it first, or correct the name")
    if found.shards.owner == to:
        return found.shards, 0
    if not claims.is_ours(found.shards):
        raise moved(queue, found.shards.owner)
    target = tenure.read(claims.objects, to)
    if target is None:
        raise NotFound(f"there is no node {to}: start it, or correct the name")
    if target.tenure.state != "open":
        raise Conflict(f"node {to} does not serve at present: start it, or choose another")
    return found.shards, target.tenure.run


def _swap(hot: HotQueue, to: str, run: int, name: str, claims: Claims) -> Shards:
    def move(now: Shards) -> Shards:
        if now.epoch == hot.epoch + 1 and now.owner == to and now.state == name:
            return now  # by an attempt that seemed to fail
        if not claims.is_ours(now) or now.epoch != hot.epoch:
            raise moved(hot.name, now.owner)
        return now.moved(to, run, name)

    busy = Unavailable(f"queue {hot.name} keeps changing: look at it again")
    try:
        return shards.change(claims.objects, hot.name, move, busy=busy)
    except NotFound:
        raise Unavailable(f"the shards document of queue {hot.name} is gone: restore it") from None
