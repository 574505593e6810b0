"""Push, pop, take and ack of a store, each with a span.

`trace_store` replaces these verbs on one store. A store that wraps another would have to pass on all its verbs and
ports, and would cost each of them a step more.

    push   child of the caller's span. Its elements carry that one, or the span of the push if the caller has none
    pop    child of the caller's span, and linked with the contexts of the elements
    take   the same; remembers the contexts of the tasks for their acks
    ack    (and nack, release, bury, …) linked with the contexts that the take remembers; without a caller's span it
           is a child of its task's, if all tasks have the same

A pop or take that finds nothing makes no span.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from coldstore.shared.batch import elements
from coldstore.shared.bounded_dict import BoundedDict
from hotstore.groups.values import Take, TakenTasks, TaskChange, TaskOutcomes
from hotstore.port import Popped, Push, Receipt
from jjq.limits import HINTS_MAX, TRACE_LINKS_MAX
from jjq.traces.context import NAME, TRACE, is_trace, traces_in, with_trace

if TYPE_CHECKING:
    from jjq.traces.spans import Traces

_COUNT: Final = "messaging.batch.message_count"


def trace_store(store: Any, traces: Traces) -> None:
    """From now on the verbs of this store make spans."""
    traced = _TracedVerbs(store, traces)
    for name in ("append", "pop", "take", "change_tasks", "complete_tasks"):
        setattr(store, name, getattr(traced, name))


class _TracedVerbs:
    """The verbs, around those that the store had."""

    def __init__(self, store: Any, traces: Traces) -> None:
        self._traces = traces
        self._append, self._pop, self._take = store.append, store.pop, store.take
        self._change, self._complete = store.change_tasks, store.complete_tasks
        self._taken: BoundedDict[tuple[str, int], str] = BoundedDict(HINTS_MAX)

    async def append(self, push: Push) -> Receipt:
        traces, caller = self._traces, TRACE.get()
        rows = push.payload.num_rows
        own = caller or _only(traces_in(push.payload, 2))
        span = traces.begin("push", "send", push.queue, own, **{_COUNT: rows})
        if push.producer is None:  # what a producer sends again must be the same
            traced = with_trace(push.payload, caller or traces.text_of(span))
            if traced is not None:
                push = push._replace(payload=traced, serialized=None)
        with traces.inside(span):
            receipt: Receipt = await self._append(push)
        span.set_attribute("jjq.offset", receipt.first_offset)
        span.end()
        return receipt

    async def pop(
        self, subscriber: str, max: int = 1, wait: float = 0.0, *, position: int | None = None
    ) -> Popped:
        span = self._traces.begin("pop", "receive", subscriber, TRACE.get())
        with self._traces.inside(span):
            popped: Popped = await self._pop(subscriber, max, wait, position=position)
        if popped.batch.num_rows:
            span.set_attribute("jjq.offset", popped.position)
            self._received(span, popped.batch)
        return popped

    async def take(self, take: Take) -> TakenTasks:
        span = self._traces.begin("take", "receive", take.group, TRACE.get())
        with self._traces.inside(span):
            taken: TakenTasks = await self._take(take)
        if taken.elements.num_rows:
            links = self._received(span, taken.elements)
            if links:
                for element in elements(taken.elements):
                    text = (element.headers or {}).get(NAME, b"").decode("latin-1")
                    if is_trace(text):
                        self._taken[take.group, element.offset] = text
        return taken

    async def change_tasks(self, change: TaskChange) -> TaskOutcomes:
        span = self._settling(change.verb, change.group, change.ids)
        with self._traces.inside(span):
            outcomes: TaskOutcomes = await self._change(change)
        span.set_attribute("jjq.refused", len(outcomes.errors))
        span.end()
        return outcomes

    async def complete_tasks(
        self, change: TaskChange, pushes: list[Push]
    ) -> tuple[TaskOutcomes, list[Receipt]]:
        span = self._settling("complete", change.group, change.ids)
        text = self._traces.text_of(span)
        traced = [
            (push, with_trace(push.payload, text) if push.producer is None else None) for push in pushes
        ]
        pushes = [
            push if payload is None else push._replace(payload=payload, serialized=None)
            for push, payload in traced
        ]
        with self._traces.inside(span):
            done: tuple[TaskOutcomes, list[Receipt]] = await self._complete(change, pushes)
        span.end()
        return done

    def _received(self, span: Any, batch: Any) -> Sequence[str]:
        """End the span of a verb that found something; the contexts of the elements."""
        links = traces_in(batch, TRACE_LINKS_MAX)
        self._traces.link(span, links)
        span.set_attribute(_COUNT, batch.num_rows)
        span.end()
        return links

    def _settling(self, verb: str, group: str, ids: Sequence[int]) -> Any:
        found = [self._taken.pop((group, task)) for task in ids]
        links = list(dict.fromkeys(text for text in found if text is not None))[:TRACE_LINKS_MAX]
        return self._traces.begin(
            verb, "settle", group, TRACE.get() or _only(links), links, **{_COUNT: len(ids)}
        )


def _only(found: Sequence[str]) -> str | None:
    return found[0] if len(found) == 1 else None
