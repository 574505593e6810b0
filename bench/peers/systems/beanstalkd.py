"""beanstalkd: single jobs over its plain protocol, each taken and deleted by one worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence

from bench.peers.server import Server, command, free_port
from bench.peers.system import Client, Start, System, chunks

CONNECTIONS = 64


class Beanstalkd(System):
    name = "beanstalkd"
    title = "beanstalkd"
    client = "its text protocol over asyncio"
    durability = "-b DIR -f 0: fsync at each write"
    fills_relaxed = True
    many_subscribers = False

    @classmethod
    def missing(cls) -> str:
        return "" if command("beanstalkd") else "no beanstalkd: apt-get install beanstalkd"

    async def start(self, relaxed: bool = False) -> None:
        self.port = free_port()
        data = self.root / "data"
        data.mkdir(parents=True, exist_ok=True)
        options = ["-l", "127.0.0.1", "-p", str(self.port), "-b", str(data)]
        sync = ["-F"] if relaxed else ["-f", "0"]
        self.server = Server([command("beanstalkd") or "", *options, *sync], self.root / "log")
        await asyncio.to_thread(self.server.wait_for_port, self.port)

    async def connect(self) -> Client:
        return _BeanstalkdClient(self.port)


class BeanstalkdConnection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.tube = ""

    async def use(self, tube: str) -> None:
        if tube != self.tube:
            self.writer.write(b"use %b\r\n" % tube.encode())
            await self.expect(b"USING")
            self.tube = tube

    async def expect(self, word: bytes) -> list[bytes]:
        line = await self.reader.readline()
        if not line.startswith(word):
            raise ConnectionError(f"beanstalkd said {line!r}, not {word!r}")
        return line.split()


class _BeanstalkdClient(Client):
    def __init__(self, port: int) -> None:
        self._port = port
        self._idle: list[BeanstalkdConnection] = []
        self._room = asyncio.Semaphore(CONNECTIONS)
        self._all: list[BeanstalkdConnection] = []

    async def create(self, queue: str) -> None:
        return  # the first job makes it

    async def _open(self) -> BeanstalkdConnection:
        made = BeanstalkdConnection(*await asyncio.open_connection("127.0.0.1", self._port))
        self._all.append(made)
        return made

    async def push(self, queue: str, value: bytes) -> None:
        async with self._room:
            connection = self._idle.pop() if self._idle else await self._open()
            await connection.use(queue)
            connection.writer.write(put_line(value))
            await connection.expect(b"INSERTED")
            self._idle.append(connection)

    async def fill(self, queue: str, values: Iterable[bytes]) -> None:
        connection = await self._open()
        await connection.use(queue)
        for chunk in chunks(values):
            connection.writer.write(b"".join(map(put_line, chunk)))
            for _ in chunk:
                await connection.expect(b"INSERTED")

    async def read(self, queue: str, start: Start) -> AsyncGenerator[Sequence[bytes]]:
        connection = await self._open()
        connection.writer.write(b"watch %b\r\nignore default\r\n" % queue.encode())
        await connection.expect(b"WATCHING")
        await connection.expect(b"WATCHING")
        return self._take(connection)

    async def _take(self, connection: BeanstalkdConnection) -> AsyncGenerator[Sequence[bytes]]:
        while True:
            connection.writer.write(b"reserve\r\n")
            _, job, size = await connection.expect(b"RESERVED")
            body = await connection.reader.readexactly(int(size) + 2)
            connection.writer.write(b"delete %b\r\n" % job)
            await connection.expect(b"DELETED")
            yield [body[:-2]]

    async def close(self) -> None:
        for connection in self._all:
            connection.writer.close()


def put_line(value: bytes) -> bytes:
    return b"put 1024 0 600 %d\r\n%b\r\n" % (len(value), value)
