"""Planned moves of queues, asked of any node."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any, Self

import grpc

from coldstore.shared.chance import SeededChance
from jjq.v1 import jjq_pb2 as pb
from jjq.v1 import jjq_pb2_grpc
from tests.faults.cluster import Cluster

MOVE_SECONDS = 8.0


def move(cluster: Cluster, at: str, queue: str, to: str) -> str:
    """Ask the node `at` to let `to` serve the queue: what came of it, the code of an error."""
    with grpc.insecure_channel(cluster.node(at).listens) as channel:
        stub = jjq_pb2_grpc.OperatorStub(channel)
        request = pb.MoveShardRequest(queue=queue, to=to)
        try:
            stub.MoveShard(request, timeout=MOVE_SECONDS)
        except grpc.RpcError as error:
            failed: Any = error  # also a grpc.Call, which its type does not say
            return str(failed.code().name)
    return "OK"


class Mover:
    """Moves a queue every now and then while the run goes on, in a thread of its own."""

    def __init__(self, cluster: Cluster, queues: list[str], seed: int, seconds: float) -> None:
        self.outcomes: dict[str, int] = {}
        self._cluster = cluster
        self._queues = queues
        self._chance = SeededChance(seed)
        self._seconds = seconds
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _pick(self, some: list[str]) -> str:
        return some[int(self._chance.jitter() * len(some))]

    def _run(self) -> None:
        names = [node.name for node in self._cluster.nodes]
        while not self._end.wait(self._seconds * (0.5 + self._chance.jitter())):
            at, queue, to = self._pick(names), self._pick(self._queues), self._pick(names)
            outcome = move(self._cluster, at, queue, to)
            self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1

    def __enter__(self) -> Self:
        if self._seconds > 0:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        with suppress(RuntimeError):  # it never began
            self._thread.join(2 * MOVE_SECONDS)
