"""A queue that arrives from another node: its subscribers and producers become this journal's.

What fits one group is one batch of the journal, there whole or not at all. More goes in several, and the
queue's row says ARRIVING until the last: a restart in between forgets the queue and claims it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from hotstore.journal import records
from hotstore.journal.port import Record
from hotstore.limits import CHECKPOINT_ROWS
from hotstore.queue.changes import StateChanges
from hotstore.queue.moves import chunks, commit_state
from hotstore.queue.owners import QueueState
from hotstore.queue.queue import HotQueue
from hotstore.queue.subscriber import Subscriber
from hotstore.write.committer import Committer


class SubscriberHome(Protocol):
    """Where subscribers are kept: the registry."""

    def add_subscriber(
        self, queue: HotQueue, name: str, start: str, clamp: bool, created_us: int
    ) -> Subscriber: ...

    @property
    def changes(self) -> StateChanges[HotQueue, Subscriber]: ...


async def arrive(home: SubscriberHome, committer: Committer, queue: HotQueue, state: QueueState) -> None:
    """Take `state` over for `queue`, which is not open yet, and journal all of it."""
    queue.promised = max(queue.promised, state.next)
    queue.last_us = max(queue.last_us, state.last_us)
    subscribers = [_settle(home, queue, row) for row in state.subscribers]
    for producer, receipts in state.producers:
        queue.producers.restore(producer, receipts)
    producers = [
        [queue.number, *row] for name in queue.producers.names() if (row := queue.producers.row(name))
    ]
    parts = [(_subscribers(some), some) for some in chunks(subscribers)]
    parts += [(records.rows(records.PRODUCERS, some), []) for some in chunks(producers)]
    if len(subscribers) + len(producers) <= CHECKPOINT_ROWS:
        made = [part for part, _ in parts]
        await commit_state(
            committer,
            lambda: [_row(queue), *made],
            done=lambda _: home.changes.stored(queue, subscribers=subscribers),
        )
        return
    queue.state.arrive()
    for part, some in ((_row(queue), []), *parts):
        await _commit(home, committer, queue, part, some)
    queue.state.settle()
    await _commit(home, committer, queue, _row(queue), [])


async def _commit(
    home: SubscriberHome,
    committer: Committer,
    queue: HotQueue,
    part: Record,
    subscribers: Sequence[Subscriber],
) -> None:
    await commit_state(
        committer, lambda: [part], done=lambda _: home.changes.stored(queue, subscribers=subscribers)
    )


def _settle(home: SubscriberHome, queue: HotQueue, row: Sequence[Any]) -> Subscriber:
    name, start, clamp, created_us, previous, offset, asleep = row
    subscriber = home.add_subscriber(queue, name, start, clamp, created_us)
    subscriber.place(previous, offset)
    subscriber.asleep = asleep
    return subscriber


def _row(queue: HotQueue) -> Record:
    return records.rows(records.QUEUES, [queue.row()])


def _subscribers(some: Sequence[Subscriber]) -> Record:
    return records.rows(records.SUBSCRIBERS, [subscriber.row() for subscriber in some])
