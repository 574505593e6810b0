"""Traces: spans of a server, and the trace context that elements carry."""
