"""The process of one query on a server: started for it, limited, and gone with it.

    reads its job · gives way to others (nice) and is the first to go where memory is short · runs the engine ·
    asks the server for tails and system tables · writes rows · ends

A thread reads what the server says. When the server has gone, or has closed the pipe since its caller has gone,
that thread ends the process at once, whatever DuckDB does just then. Another thread looks at the memory of the
process: DuckDB does not count everything. The time is measured by the server, which kills the process.

The process has the server's rights on files, as it reads the cold store, but SQL has no way to use them (statement.py,
connection.py). Its environment has nothing but what is needed to reach the cold store.
"""

from __future__ import annotations

import gc
import os
import queue
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, NoReturn

import orjson
import pyarrow as pa

from coldstore.objects.open import open_objects
from coldstore.objects.settings import S3Settings
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from coldstore.shared.errors import JjqError, Unavailable
from coldstore.shared.results import QueueInfo
from coldstore.store import ColdStore
from jjq.limits import SQL_NICE, SQL_PROCESS_BYTES
from jjq.sql import frames
from jjq.sql.connection import out_of_memory
from jjq.sql.engine import Execution
from jjq.sql.query import Query, QueryLimits, first_line
from jjq.sql.source import OpenQueues

_LOOK_SECONDS: Final = 0.1


class ServerPipe:
    """The server at the other end of the pipe: an `EngineSource`, and where rows go."""

    def __init__(self, incoming: int, outgoing: int) -> None:
        self._in = os.fdopen(incoming, "rb")
        self._out = os.fdopen(outgoing, "wb", buffering=0)
        self._said: queue.Queue[tuple[int, bytes]] = queue.Queue(2)
        self._asking = threading.Lock()  # one question at a time: scans run in several threads
        self._writing = threading.Lock()
        threading.Thread(target=self._listen, name="jjq-sql-pipe", daemon=True).start()

    def _listen(self) -> None:
        while True:
            header = self._in.read(frames.HEADER.size)
            if len(header) < frames.HEADER.size:
                os._exit(1)  # the server has gone, or does not want the rows any more
            kind, size = frames.unpack(header)
            payload = self._in.read(size)
            if len(payload) < size:
                os._exit(1)
            self._said.put((kind, payload))

    def receive(self, *kinds: int) -> tuple[int, bytes]:
        kind, payload = self._said.get()
        if kind == frames.FAILED:
            raise frames.error_in(payload)
        if kind not in kinds:
            raise Unavailable(f"the server sent a frame of kind {kind}")
        return kind, payload

    def send(self, data: bytes) -> None:
        with self._writing:
            left = memoryview(data)
            while left:
                left = left[self._out.write(left) :]

    def _ask(self, **question: Any) -> None:
        self.send(frames.json_frame(frames.ASK, question))

    # EngineSource -------------------------------------------------------------------------------------

    def queue(self, name: str) -> QueueInfo:
        with self._asking:
            self._ask(verb="queue", queue=name)
            return QueueInfo(**orjson.loads(self.receive(frames.ANSWER)[1]))

    def queue_names(self) -> list[str]:
        with self._asking:
            self._ask(verb="queue_names")
            names: list[str] = orjson.loads(self.receive(frames.ANSWER)[1])
            return names

    def read(self, queue: str, start: int, end: int) -> Iterator[pa.RecordBatch]:
        with self._asking:
            self._ask(verb="read", queue=queue, start=start, end=end)
            yield from self._batches()

    def system(self, table: str, queues: Sequence[str] | None) -> pa.Table:
        with self._asking:
            self._ask(verb="system", table=table, queues=None if queues is None else list(queues))
            return pa.Table.from_batches(self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        while True:
            kind, payload = self.receive(frames.BATCH, frames.DONE)
            if kind == frames.DONE:
                return
            yield frames.from_stream(payload)


def _stand_back(memory_bytes: int, server: ServerPipe) -> None:
    """Be polite, and watch the memory."""
    with suppress(OSError):
        os.nice(SQL_NICE)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:  # noqa: PTH123 - not a file of ours
        score.write("1000")
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    watch = threading.Thread(
        target=_watch_memory, args=(memory_bytes, server), name="jjq-sql-memory", daemon=True
    )
    watch.start()


def _watch_memory(memory_bytes: int, server: ServerPipe) -> None:
    page, pause = os.sysconf("SC_PAGE_SIZE"), threading.Event()
    with suppress(OSError), open("/proc/self/statm", "rb", buffering=0) as status:  # noqa: PTH123
        while not pause.wait(_LOOK_SECONDS):
            status.seek(0)
            used = status.read().split()
            own = (int(used[1]) - int(used[2])) * page  # without files that are mapped
            if own > memory_bytes + SQL_PROCESS_BYTES:
                server.send(frames.error_frame(out_of_memory(memory_bytes)))
                os._exit(1)


def _open_cold(job: dict[str, Any]) -> OpenQueues | None:
    """The cold store, if this process can read it."""
    if job["cold"] is None:
        return None
    clock, chance = SystemClock(), SystemChance()
    s3 = None if job["s3"] is None else S3Settings(**job["s3"])
    return OpenQueues(ColdStore(open_objects(job["cold"], s3=s3, clock=clock, chance=chance), clock, chance))


def _run(server: ServerPipe) -> None:
    job = orjson.loads(server.receive(frames.JOB)[1])
    params = server.receive(frames.PARAMS)[1]
    limits = QueryLimits(None, job["memory_bytes"], 1, job["threads"])
    _stand_back(limits.memory_bytes, server)
    pa.set_cpu_count(limits.threads)
    execution = Execution(Query(job["query"], params), server, _open_cold(job), limits)
    schema = execution.open()
    server.send(frames.batch_frame(pa.RecordBatch.from_pylist([], schema)))
    for batch in execution.batches():
        server.send(frames.batch_frame(batch))
    server.send(frames.frame(frames.DONE))


def main() -> NoReturn:
    """What the process runs. Its ends of the pipe are taken first: nothing else may write there."""
    incoming, outgoing = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(nowhere, descriptor)
    gc.disable()  # it lives for one query
    server = ServerPipe(incoming, outgoing)
    code = 0
    try:
        _run(server)
    except JjqError as error:
        server.send(frames.error_frame(error))
    except BaseException as error:  # noqa: BLE001 - the server must hear of it, whatever it is
        said = f"the query failed unexpectedly: {type(error).__name__}: {first_line(error)}"
        server.send(frames.error_frame(Unavailable(said)))
        code = 1
    sys.stderr.flush()
    os._exit(code)  # without the destructors of DuckDB, which may wait for its threads
