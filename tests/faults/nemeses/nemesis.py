"""What a nemesis is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coldstore.chance import SeededChance
from tests.faults.cluster import Cluster, Node
from tests.faults.history import Recorder


@dataclass
class Harm:
    """Everything a nemesis may touch. `notes` is what it did, for the report."""

    cluster: Cluster
    chance: SeededChance
    pen: Recorder  # for those that also ask
    folder: Path  # scratch of its own
    queues: list[str]
    now_ns: Callable[[], int]
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def node(self) -> Node:
        """The victim."""
        nodes = self.cluster.nodes
        return nodes[int(self.chance.jitter() * len(nodes))]

    def below(self, most: int) -> int:
        return int(self.chance.jitter() * most)


@dataclass(frozen=True)
class Nemesis:
    """`begin` does harm and `end` ends it; what is dead then is started by the run."""

    kind: str
    begin: Callable[[Harm], None]
    end: Callable[[Harm], None] = lambda harm: None
    shim: bool = False  # needs the C shim
    undo: bool = False  # needs its log of what is not durable
    s3: bool = False  # needs object storage
