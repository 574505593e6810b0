"""Queries on a server: each in a process of its own (worker.py), so that none slows a push or harms the server.

The server starts the process, hands it the query, answers what it asks (tails of queues, system tables), and passes
its rows on, as quickly as the caller reads them. The process is killed when the caller has gone, when its time is over,
or when the server stops.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress
from dataclasses import asdict
from typing import Any, Final

import orjson
import pyarrow as pa

from coldstore.objects.settings import S3Settings
from coldstore.shared.errors import Exhausted, InvalidInput, JjqError, Unavailable
from jjq.limits import SQL_RETRY_SECONDS
from jjq.sql import frames
from jjq.sql.query import Query, QueryLimits, out_of_time
from jjq.sql.source import QueueVerbs, StoreAnswers
from jjq.sql.system_tables import ClusterVerbs

# Arrow imports pandas where it is installed, which would be half of the time that the process takes to start.
_START: Final = (
    "import sys; sys.path[:] = {path!r}\n"
    "from jjq.cli.lean import without_pandas; without_pandas()\n"
    "from jjq.sql.worker import main; main()"
)
# What the interpreter and boto3 may need; nothing else of the environment is for queries.
_KEPT: Final = (
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TMPDIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "LD_LIBRARY_PATH",
)
_PIPE_BYTES: Final = 1 << 20


class ProcessQueries:
    """Answers queries over a store of this process and its cold store."""

    def __init__(
        self,
        store: QueueVerbs,
        operator: ClusterVerbs | None,
        cold: str | None,
        s3: S3Settings | None,
        limits: QueryLimits,
    ) -> None:
        """`cold` is None where no other process can read it: then history comes through the store."""
        self._answers = StoreAnswers(store, operator)
        self._cold = None if cold == "memory:" else cold
        self._s3 = s3
        self._limits = limits
        self._running: set[QueryProcess] = set()
        self._count = 0  # of queries that were admitted
        self._closed = False

    async def run(self, query: Query) -> AsyncIterator[pa.RecordBatch]:
        """See `Queries`."""
        self._admit()
        self._count += 1
        try:
            async with aclosing(self._run(query)) as rows:
                async for batch in rows:
                    yield batch
        finally:
            self._count -= 1

    async def _run(self, query: Query) -> AsyncGenerator[pa.RecordBatch, None]:
        process = await self._start()
        self._running.add(process)
        seconds = self._limits.seconds_of(query)
        late = False

        def stop() -> None:
            nonlocal late
            late = True
            process.kill()

        timer = None if seconds is None else asyncio.get_running_loop().call_later(seconds, stop)
        try:
            async with aclosing(self._converse(process, query)) as rows:
                async for batch in rows:
                    yield batch
        except _Ended:
            if late and seconds is not None:
                raise out_of_time(seconds) from None
            if self._closed:
                raise Unavailable("the server is stopping: ask again") from None
            raise InvalidInput(
                "the process of the query has died, probably for lack of memory: ask for less at once"
            ) from None
        finally:
            if timer is not None:
                timer.cancel()
            self._running.discard(process)
            await asyncio.shield(process.end())

    def _admit(self) -> None:
        if self._closed:
            raise Unavailable("the server is stopping: ask again", sent=False)
        if self._count >= self._limits.queries:
            raise Exhausted(
                f"the server runs {self._limits.queries} queries already: ask again when one has ended",
                retry_after=SQL_RETRY_SECONDS,
            )

    async def close(self) -> None:
        """Stop all queries."""
        self._closed = True
        for process in list(self._running):
            process.kill()

    async def _start(self) -> QueryProcess:
        path = [entry for entry in sys.path if entry] or [os.getcwd()]  # noqa: PTH109 - as Python has it
        return await QueryProcess.start(_START.format(path=path), self._environment())

    def _environment(self) -> dict[str, str]:
        cloud = self._cold is not None and self._cold.startswith("s3:")
        return {
            name: value
            for name, value in os.environ.items()
            if name in _KEPT or (cloud and name.startswith(("AWS_", "BOTO_")))
        }

    async def _converse(self, process: QueryProcess, query: Query) -> AsyncGenerator[pa.RecordBatch, None]:
        """Hand over the job, answer questions, and pass on the rows."""
        await process.say(frames.json_frame(frames.JOB, self._job(query)))
        await process.say(frames.frame(frames.PARAMS, query.params))
        while True:
            kind, payload = await process.next_frame()
            if kind == frames.BATCH:
                yield frames.from_stream(payload)
            elif kind == frames.ASK:
                with suppress(_Ended):  # what the process said last tells why
                    await self._answer(process, orjson.loads(payload))
            elif kind == frames.FAILED:
                raise frames.error_in(payload)
            else:
                return

    def _job(self, query: Query) -> dict[str, Any]:
        return {
            "query": query.text,
            "memory_bytes": self._limits.memory_bytes,
            "threads": self._limits.threads,
            "cold": self._cold,
            "s3": None if self._s3 is None else asdict(self._s3),
        }

    async def _answer(self, process: QueryProcess, question: dict[str, Any]) -> None:
        """What the process needs to know. An error of ours is an answer, too."""
        try:
            verb = question["verb"]
            if verb == "queue":
                found = asdict(await self._answers.queue(question["queue"]))
                await process.say(frames.json_frame(frames.ANSWER, found))
            elif verb == "queue_names":
                await process.say(frames.json_frame(frames.ANSWER, await self._answers.queue_names()))
            elif verb == "read":
                await self._send_range(process, question["queue"], question["start"], question["end"])
            elif verb == "system":
                table = await self._answers.system(question["table"], question["queues"])
                empty = pa.RecordBatch.from_pylist([], table.schema)
                for batch in [empty, *table.to_batches()]:
                    await process.say(frames.batch_frame(batch))
                await process.say(frames.frame(frames.DONE))
        except JjqError as error:
            await process.say(frames.error_frame(error))

    async def _send_range(self, process: QueryProcess, queue: str, start: int, end: int) -> None:
        batches: Any = self._answers.read(queue, start, end)
        async with aclosing(batches):
            async for batch in batches:
                await process.say(frames.batch_frame(batch))
        await process.say(frames.frame(frames.DONE))


class _Ended(Exception):
    """The process is gone, and did not say why."""


class QueryProcess:
    """A process, and the pipes to it.

    Started by `subprocess`, which uses vfork, and not by the event loop, which forks: after a fork gRPC begins its
    threads again in the child, and one such child crashed there before it had become the process of the query.
    """

    def __init__(
        self, child: subprocess.Popen[bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._child = child
        self._reader = reader
        self._writer = writer

    @classmethod
    async def start(cls, code: str, environment: dict[str, str]) -> QueryProcess:
        child = await asyncio.to_thread(_spawn, code, environment)
        try:
            loop = asyncio.get_running_loop()
            reader = asyncio.StreamReader(_PIPE_BYTES)
            await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), child.stdout)
            transport, protocol = await loop.connect_write_pipe(
                lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), child.stdin
            )
        except BaseException:
            child.kill()
            await asyncio.to_thread(child.wait)
            raise
        return cls(child, reader, asyncio.StreamWriter(transport, protocol, None, loop))

    async def say(self, data: bytes) -> None:
        try:
            self._writer.write(data)
            await self._writer.drain()
        except (ConnectionError, RuntimeError) as error:
            raise _Ended from error

    async def next_frame(self) -> tuple[int, bytes]:
        """The next frame of the process."""
        try:
            kind, size = frames.unpack(await self._reader.readexactly(frames.HEADER.size))
            return kind, await self._reader.readexactly(size)
        except asyncio.IncompleteReadError:
            raise _Ended from None

    def kill(self) -> None:
        self._child.kill()

    async def end(self) -> None:
        """Kill it, and wait until nothing of it is left."""
        self._child.kill()
        self._writer.close()
        await asyncio.to_thread(self._child.wait)


def _spawn(code: str, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,  # a Ctrl-C at the server's terminal is the server's
    )
