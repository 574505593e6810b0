"""Spans of OpenTelemetry, sent to a collector over OTLP and HTTP.

    push, pop, take, ack, …       messaging conventions: `messaging.system` is jjq, the queue is the destination
    seal, read_cold_block         steps of the store, children of whatever waits for them

The library is imported here, when traces are switched on. Its own variables hold: `OTEL_TRACES_SAMPLER`,
`OTEL_RESOURCE_ATTRIBUTES`, `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_BSP_…`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Final, Literal

from coldstore.shared.errors import InvalidInput, JjqError
from coldstore.shared.results import queue_part

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
    from opentelemetry.trace import Span

Kind = Literal["send", "receive", "settle"]
_SYSTEM: Final = "jjq"
_PATH: Final = "/v1/traces"


class Traces:
    """Makes spans, until it is closed. `processor` gets them when they end."""

    def __init__(self, processor: SpanProcessor, node: str) -> None:
        from opentelemetry import trace
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        resource = Resource.create({"service.name": _SYSTEM, "service.instance.id": node})
        self._provider: TracerProvider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("jjq")
        self._api = trace
        self._contexts = TraceContextTextMapPropagator()
        self._kinds = {
            "send": trace.SpanKind.PRODUCER,
            "receive": trace.SpanKind.CONSUMER,
            "settle": trace.SpanKind.CLIENT,
        }

    def close(self) -> None:
        """Send what is left. Blocks."""
        self._provider.shutdown()

    # Spans -----------------------------------------------------------------------------------------------

    def begin(
        self, verb: str, kind: Kind, place: str, parent: str | None, links: Sequence[str] = (), **facts: Any
    ) -> Span:
        """A span of a verb on a queue, subscriber or group (`place`). It is exported only if it is ended."""
        queue, _, name = place.partition("/")
        attributes: dict[str, Any] = {
            "messaging.system": _SYSTEM,
            "messaging.operation.name": verb,
            "messaging.operation.type": kind,
            "messaging.destination.name": queue,
            **facts,
        }
        if name:
            is_group = kind == "settle" or verb == "take"
            attributes[
                "messaging.consumer.group.name" if is_group else "messaging.destination.subscription.name"
            ] = name
        return self._tracer.start_span(
            f"{verb} {queue_part(place)}",
            self._context(parent),
            self._kinds[kind],
            attributes,
            [self._api.Link(self._span_context(text)) for text in links],
        )

    def link(self, span: Span, links: Sequence[str]) -> None:
        """The span has to do with these contexts."""
        for text in links:
            span.add_link(self._span_context(text))

    @contextmanager
    def inside(self, span: Span) -> Iterator[None]:
        """Around the work of a span. An error is noted and ends the span; otherwise the caller ends it."""
        with self._api.use_span(span, record_exception=False, set_status_on_exception=False):
            try:
                yield
            except BaseException as error:
                self.failed(span, error)
                raise

    def failed(self, span: Span, error: BaseException) -> None:
        """The work of a span has failed: this ends it."""
        code = error.code if isinstance(error, JjqError) else type(error).__name__
        span.set_attribute("error.type", code)
        span.set_status(self._api.StatusCode.ERROR, str(error)[:200])
        span.end()

    def span(self, step: str, queue: str, **facts: int) -> AbstractContextManager[object]:
        """As `coldstore.queue.spans` has it."""
        attributes = {"messaging.destination.name": queue} | {
            f"jjq.{name}": fact for name, fact in facts.items()
        }
        return self._tracer.start_as_current_span(f"{step} {queue}", attributes=attributes)

    def text_of(self, span: Span) -> str:
        """The trace context that a span hands on."""
        carrier: dict[str, str] = {}
        self._contexts.inject(carrier, self._api.set_span_in_context(span))
        return carrier.get("traceparent", "")

    def _context(self, parent: str | None) -> Any:
        return None if parent is None else self._contexts.extract({"traceparent": parent})

    def _span_context(self, text: str) -> Any:
        return self._api.get_current_span(self._contexts.extract({"traceparent": text})).get_span_context()


def open_traces(url: str, node: str) -> Traces:
    """Traces to a collector at this address, such as http://127.0.0.1:4318."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise InvalidInput(
            "traces need OpenTelemetry: pip install 'jjq[otel]', or leave traces out"
        ) from None
    endpoint = url.rstrip("/")
    exporter = OTLPSpanExporter(endpoint=endpoint if endpoint.endswith(_PATH) else endpoint + _PATH)
    return Traces(BatchSpanProcessor(exporter), node)
