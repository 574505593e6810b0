"""Traces: OpenTelemetry spans of a server, and the trace context that elements carry. Off unless a setting names a
collector.

    context   W3C trace context: of the present call, and as a header of elements
    spans     makes spans and sends them to a collector (extra `jjq[otel]`)
    verbs     push, pop, take and ack of a store, each with a span

A door (gRPC, HTTP) notes the `traceparent` of a call in `context.TRACE`. The verbs of the node's own store make the
spans, so every door has them, and so has a push that another node passed on. Sealing and reads of cold blocks get
theirs through `coldstore.queue.spans`.

Invariants:
- Where it is off, nothing of OpenTelemetry is imported, no verb is replaced, and no metadata is read.
- An element that has headers keeps them as they are; the element of an idempotent producer is what the producer sent.
"""
