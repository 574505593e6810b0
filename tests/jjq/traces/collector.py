"""A collector of traces as a process: takes OTLP over HTTP, and writes a line of JSON for each span that it gets.

python -m tests.jjq.traces.collector FILE      prints its port
"""

from __future__ import annotations

import gzip
import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


class Handler(BaseHTTPRequestHandler):
    file: Path

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        request = ExportTraceServiceRequest.FromString(body)
        lines = []
        for group in request.resource_spans:
            service = {each.key: each.value.string_value for each in group.resource.attributes}[
                "service.name"
            ]
            for scope in group.scope_spans:
                for span in scope.spans:
                    fields = {"service": service, "name": span.name, "trace": span.trace_id.hex()}
                    fields |= {"span": span.span_id.hex(), "parent": span.parent_span_id.hex()}
                    lines.append(json.dumps(fields) + "\n")
        with self.file.open("a") as out:
            out.write("".join(lines))
        reply = ExportTraceServiceResponse().SerializeToString()
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the file says it."""


if __name__ == "__main__":
    Handler.file = Path(sys.argv[1])
    server = HTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()
