"""All nemeses by name."""

from __future__ import annotations

from tests.faults.nemeses.clock import CLOCK
from tests.faults.nemeses.disk import FSYNC, FULL, SLOW
from tests.faults.nemeses.flips import FLIPS
from tests.faults.nemeses.nemesis import Nemesis
from tests.faults.nemeses.network import CUT, PART, SWALLOW
from tests.faults.nemeses.power import POWER
from tests.faults.nemeses.process import KILL, PAUSE
from tests.faults.nemeses.storage import S3

NEMESES: dict[str, Nemesis] = {
    nemesis.kind: nemesis
    for nemesis in (KILL, PAUSE, POWER, FULL, SLOW, FSYNC, CLOCK, CUT, SWALLOW, PART, *FLIPS, *S3)
}
