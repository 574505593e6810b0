"""What a run is to do, and who takes part in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.faults.clients.priority import MAIL_GROUP
from tests.faults.clients.takers import GROUP
from tests.faults.clients.worker import KEYED
from tests.faults.nemeses.all import NEMESES
from tests.faults.schedule import Period, schedule

# One queue has small blocks, which go to the cold store and are merged all the time; another has a
# block that never fills, so that it holds on to the journal. The others are there for their groups.
SMALL = {"block_bytes": 128 * 1024, "block_seconds": 1.0}
QUEUES: dict[str, dict[str, Any]] = {
    "busy": SMALL,
    "slow": {"block_bytes": 64 * 1024 * 1024, "block_seconds": 3_600.0},
    KEYED: SMALL,
    "bounded": {},
    "mail": {},
}
CAPACITY = 12
GROUPS: dict[str, tuple[str, dict[str, Any]]] = {  # of each queue: its name, and what is special about it
    "busy": (GROUP, {}),
    "slow": (GROUP, {}),
    KEYED: (GROUP, {"driver": "utube"}),
    "bounded": (GROUP, {"driver": "limfifottl", "capacity": CAPACITY}),
    "mail": (MAIL_GROUP, {"driver": "fifottl"}),
}
Place = tuple[str, str, str]  # kind of worker, queue, door
WORKERS: tuple[tuple[Place, ...], ...] = (  # of each client process
    (("PlainPusher", "busy", "grpc"), ("Popper", "busy", "grpc"), ("Streamer", "busy", "grpc"),
     ("OncePusher", "slow", "grpc"), ("Taker", "busy", "grpc"), ("PlainPusher", KEYED, "socket"),
     ("Taker", KEYED, "grpc"), ("PlainPusher", "bounded", "socket"), ("Taker", "bounded", "http")),
    (("StreamPusher", "busy", "grpc"), ("Peeker", "busy", "socket"), ("Replayer", "slow", "grpc"),
     ("Popper", "slow", "http"), ("Taker", "slow", "socket"), ("Taker", KEYED, "http"), ("Poster", "mail", "connect"),
     ("PlainPusher", "bounded", "grpc"), ("SessionTaker", "slow", "grpc")),
    (("LibraryPusher", "busy", "grpc"), ("Streamer", "slow", "grpc"), ("Seeker", "busy", "http"),
     ("Replayer", "busy", "grpc"), ("PlainPusher", "slow", "http"), ("Taker", "busy", "http"),
     ("OncePusher", KEYED, "http"), ("Taker", "bounded", "socket"), ("Poster", "mail", "connect"),
     ("SessionTaker", "busy", "grpc")),
)  # fmt: skip
READS = {"Popper", "Streamer", "Peeker", "Seeker"}


@dataclass(frozen=True)
class Plan:
    """What to do; with the same plan the same faults come in the same order."""

    seed: int
    kinds: tuple[str, ...]
    seconds: float
    longest: float = 2.0  # of one fault
    bug: str | None = None
    cold: str = "folder"
    clients: int = 3  # processes
    progress: int = 3  # pushes that each client is acknowledged between two faults
    nodes: int = 1  # several share their queues
    journal: str = "s3"  # of several: on object storage, where others can take over, or "disk"
    lease: float = 2.0  # seconds; others take over after 1.5 of them
    moves: float = 0.0  # seconds between two planned moves of a queue, whatever else happens; 0: none

    @property
    def undo(self) -> bool:
        """Whether the last restart is a power cut: then nothing unsynced may be needed in the end."""
        return any(NEMESES[kind].undo for kind in self.kinds)

    @property
    def names(self) -> list[str]:
        """Of the nodes."""
        return [f"n{n}" for n in range(1, self.nodes + 1)]

    @property
    def periods(self) -> list[Period]:
        return schedule(self.seed, self.kinds, self.seconds, self.longest)


def workers(count: int) -> list[list[tuple[str, int, str, str]]]:
    """Kind, number, queue and door of each worker of each client process."""
    number = 0
    processes = []
    for some in WORKERS[:count]:
        processes.append([(kind, number + n, queue, door) for n, (kind, queue, door) in enumerate(some, 1)])
        number += len(some)
    return processes
