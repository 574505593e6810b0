"""All nemeses by name."""

from __future__ import annotations

from tests.faults.nemeses.between import LINKS
from tests.faults.nemeses.clock import CLOCK
from tests.faults.nemeses.disk import FSYNC, FULL, SLOW
from tests.faults.nemeses.flips import FLIPS
from tests.faults.nemeses.moves import MOVING
from tests.faults.nemeses.nemesis import Nemesis
from tests.faults.nemeses.network import CUT, PART, SWALLOW, SWALLOW_REQUESTS
from tests.faults.nemeses.nodes import NODES
from tests.faults.nemeses.power import POWER
from tests.faults.nemeses.process import KILL, PAUSE
from tests.faults.nemeses.storage import S3

NEMESES: dict[str, Nemesis] = {
    nemesis.kind: nemesis
    for nemesis in (
        KILL,
        PAUSE,
        POWER,
        FULL,
        SLOW,
        FSYNC,
        CLOCK,
        CUT,
        SWALLOW,
        SWALLOW_REQUESTS,
        PART,
        *FLIPS,
        *S3,
        *NODES,
        *MOVING,
        *LINKS,
    )
}


def fits(kind: str, *, shim: bool, s3: bool, nodes: int, journal: str = "s3") -> bool:
    """Whether a nemesis has something to harm. A skewed clock and signed requests do not go together."""
    nemesis = NEMESES[kind]
    if nodes > 1:
        return not (nemesis.shim or nemesis.alone or (nemesis.taken and journal == "disk"))
    return (
        not nemesis.nodes
        and (shim or not nemesis.shim)
        and (s3 or not nemesis.s3)
        and not (s3 and kind.startswith(("flip", "clock")))
    )
