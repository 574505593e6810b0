"""What a run is to do, and who takes part in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.faults.nemeses.all import NEMESES
from tests.faults.schedule import Period, schedule

# One queue has small blocks, which go to the cold store and are merged all the time; the other has a
# block that never fills, so that it holds on to the journal.
QUEUES: dict[str, dict[str, Any]] = {
    "busy": {"block_bytes": 128 * 1024, "block_seconds": 1.0},
    "slow": {"block_bytes": 64 * 1024 * 1024, "block_seconds": 3_600.0},
}
WORKERS: tuple[tuple[tuple[str, str], ...], ...] = (  # of each client process
    (("PlainPusher", "busy"), ("Popper", "busy"), ("Streamer", "busy"), ("OncePusher", "slow"),
     ("Taker", "busy")),
    (("StreamPusher", "busy"), ("Peeker", "busy"), ("Replayer", "slow"), ("Popper", "slow"),
     ("Taker", "slow")),
    (("LibraryPusher", "busy"), ("Streamer", "slow"), ("Seeker", "busy"), ("Replayer", "busy"),
     ("PlainPusher", "slow"), ("Taker", "busy")),
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
    nodes: int = 1  # several share their queues, and have their journals on object storage
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


def workers(count: int) -> list[list[tuple[str, int, str]]]:
    """Kind, number and queue of each worker of each client process."""
    number = 0
    processes = []
    for some in WORKERS[:count]:
        processes.append([(kind, number + n, queue) for n, (kind, queue) in enumerate(some, 1)])
        number += len(some)
    return processes
