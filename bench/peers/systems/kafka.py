"""Kafka: one broker that is its own controller, from Maven Central, through confluent-kafka."""

from __future__ import annotations

import asyncio
import re
import subprocess
import threading
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.peers.server import Server, StartFailed, command, free_port
from bench.peers.system import LIST, Client, Start, System

VERSION = "4.1.0"
JARS = Path(__file__).parents[3] / "build" / "kafka" / VERSION
CLUSTER = "jjqBenchAAAAAAAAAAAAAA"
HEAP = ("-Xmx1G", "-Xms1G")  # what kafka-server-start.sh gives a broker
BATCHING = {"linger.ms": 5, "batch.size": 1 << 20}
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>bench</groupId><artifactId>kafka</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{VERSION}</version></dependency>
</dependencies></project>
"""


class Kafka(System):
    name = "kafka"
    title = "Kafka"
    client = "confluent-kafka, acks=all, idempotent"
    durability = "log.flush.interval.messages=1: fsync of each batch, one broker"
    native_name = "kafka-producer-perf-test"

    @classmethod
    def missing(cls) -> str:
        if command("java") is None:
            return "no java: apt-get install default-jre-headless maven"
        if not JARS.exists() and command("mvn") is None:
            return "no mvn to get Kafka from Maven Central: apt-get install maven"
        return "" if find_spec("confluent_kafka") else "no Python package confluent-kafka: run `make bench`"

    @classmethod
    def prepare(cls) -> None:
        _fetch()

    async def start(self, relaxed: bool = False) -> None:
        self._port = free_port()
        config = self.root / "server.properties"
        data = self.root / "data"
        data.mkdir(parents=True, exist_ok=True)
        config.write_text(_properties(self._port, free_port(), data))
        if not (data / "meta.properties").exists():
            await asyncio.to_thread(
                _java, "kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(config)
            )
        self.server = Server(_java_command("kafka.Kafka", str(config)), self.root / "log")
        await asyncio.to_thread(self.server.wait_for_port, self._port)

    async def connect(self) -> Client:
        return _KafkaClient(f"127.0.0.1:{self._port}")

    async def native(self, size: int, seconds: float) -> float:
        topic = f"native{time.time_ns()}"
        client = await self.connect()
        await client.create(topic)
        await client.close()
        said = await asyncio.to_thread(
            _java,
            "org.apache.kafka.tools.ProducerPerformance",
            *("--topic", topic, "--num-records", str(int(200_000 * seconds)), "--throughput", "-1"),
            *("--record-size", str(size), "--producer-props", f"bootstrap.servers=127.0.0.1:{self._port}"),
            *("acks=all", *(f"{key}={value}" for key, value in BATCHING.items())),
        )
        rates: list[str] = re.findall(r"([\d.]+) records/sec", said)
        return float(rates[-1])


def _fetch() -> None:
    """Kafka's own jars, once."""
    if JARS.exists():
        return
    made = JARS.with_suffix(".new")
    made.mkdir(parents=True, exist_ok=True)
    pom = made / "pom.xml"
    pom.write_text(POM)
    options = ["-q", "-B", "-f", str(pom), "-DincludeScope=runtime", f"-DoutputDirectory={made}"]
    said = subprocess.run(
        [command("mvn") or "", *options, "dependency:copy-dependencies"],
        check=False,
        capture_output=True,
        text=True,
    )
    if said.returncode:
        raise StartFailed(f"mvn could not fetch Kafka {VERSION}: {said.stdout.strip()[-300:]}")
    made.rename(JARS)


def _java_command(main: str, *arguments: str, heap: Sequence[str] = HEAP) -> list[str]:
    return [command("java") or "", *heap, "-cp", f"{JARS}/*", main, *arguments]


def _java(main: str, *arguments: str) -> str:
    said = subprocess.run(
        _java_command(main, *arguments, heap=("-Xmx512M",)), check=False, capture_output=True, text=True
    )
    if said.returncode:
        raise StartFailed(f"{main}: {(said.stdout + said.stderr).strip()[-300:]}")
    return said.stdout


def _properties(port: int, controller: int, data: Path) -> str:
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(data),
        "log.flush.interval.messages": "1",
        "offsets.topic.replication.factor": "1",
        "group.initial.rebalance.delay.ms": "0",
        "log.retention.hours": "-1",
    }
    return "".join(f"{key}={value}\n" for key, value in settings.items())


class _KafkaClient(Client):
    def __init__(self, address: str) -> None:
        from confluent_kafka import Producer

        self._address = address
        common = {"bootstrap.servers": address, "enable.idempotence": True}
        self._single = Producer({**common, "linger.ms": 0})
        self._batching = Producer({**common, **BATCHING, "queue.buffering.max.messages": 1_000_000})
        self._failed: list[str] = []
        self._closing = threading.Event()
        self._poller = threading.Thread(target=self._poll, daemon=True)
        self._poller.start()
        self._readers = ThreadPoolExecutor(128)

    def _poll(self) -> None:
        while not self._closing.is_set():
            self._single.poll(0.1)

    async def create(self, queue: str) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self._address})
        made = admin.create_topics([NewTopic(queue, num_partitions=1, replication_factor=1)])
        await asyncio.to_thread(made[queue].result)
        await asyncio.to_thread(_wait_known, admin, queue)

    async def push(self, queue: str, value: bytes) -> None:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        def decided(error: Any, _: Any) -> None:
            loop.call_soon_threadsafe(_settle, done, error)

        self._single.produce(queue, value, on_delivery=decided)
        await done

    async def push_list(self, queue: str, values: list[bytes]) -> None:
        await self.push_each(queue, values)

    async def push_each(self, queue: str, values: Iterable[bytes]) -> None:
        produce = self._batching.produce
        for value in values:
            while True:
                try:
                    produce(queue, value, on_delivery=self._decided)
                except BufferError:
                    self._batching.poll(0.01)
                else:
                    break
        self._batching.flush()
        if self._failed:
            raise ConnectionError(f"Kafka refused elements: {self._failed[0]}")

    async def fill(self, queue: str, values: Iterable[bytes]) -> None:
        await self.push_each(queue, values)

    def _decided(self, error: Any, _: Any) -> None:
        if error is not None:
            self._failed.append(str(error))

    async def read(self, queue: str, start: Start) -> AsyncGenerator[Sequence[bytes]]:
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer(
            {"bootstrap.servers": self._address, "group.id": "bench", "enable.auto.commit": False}
        )
        place = TopicPartition(queue, 0)
        low, high = await asyncio.to_thread(consumer.get_watermark_offsets, place, 10)
        consumer.assign([TopicPartition(queue, 0, low if start == "beginning" else high)])
        return self._follow(consumer)

    async def _follow(self, consumer: Any) -> AsyncGenerator[Sequence[bytes]]:
        loop = asyncio.get_running_loop()

        def take() -> list[bytes]:
            one = consumer.poll(0.5)
            if one is None:
                return []
            return [one.value(), *(more.value() for more in consumer.consume(LIST, 0))]

        try:
            while not self._closing.is_set():
                if values := await loop.run_in_executor(self._readers, take):
                    yield values
        finally:
            await loop.run_in_executor(self._readers, consumer.close)

    async def close(self) -> None:
        self._closing.set()
        await asyncio.to_thread(self._poller.join)
        self._readers.shutdown(wait=False, cancel_futures=True)


def _wait_known(admin: Any, queue: str) -> None:
    """A topic is created a little before the broker can say who leads it."""
    while True:
        found = admin.list_topics(queue, timeout=10).topics[queue]
        if found.error is None and any(part.leader >= 0 for part in found.partitions.values()):
            return
        time.sleep(0.01)


def _settle(done: asyncio.Future[None], error: Any) -> None:
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(ConnectionError(str(error)))
