"""`python -m tests.faults.launch serve …`: a server with small files and short ages, and maybe a mistake.

Journal segments of 256 KiB, checkpoints and merges every second: in a run of seconds everything happens
that takes a real server hours. `JJQ_TEST_BUG` names a mistake of `bugs` to be made. Nothing of this is
in the product: it is patched into this process before the command line runs.
"""

from __future__ import annotations

import os

from coldstore.limits import KIB, MIB
from hotstore.settings import HotSettings
from tests.faults import bugs

SMALL = {
    "segment_bytes": 256 * KIB,
    "group_bytes_max": 96 * KIB,
    "journal_bytes_max": 64 * MIB,
    "disk_free_bytes_min": 1 * MIB,
    "maintain_seconds": 0.1,
    "checkpoint_seconds": 1.0,
    "merge_seconds": 1.0,
    "sweep_seconds": 2.0,
}


def small(**given: object) -> HotSettings:
    """Settings that `HotSettings` would refuse as too small, set behind its back."""
    made = HotSettings()
    for name, value in {**given, **SMALL}.items():
        getattr(made, name)
        object.__setattr__(made, name, value)
    return made


def main() -> None:
    import jjq.settings
    from jjq.cli import main as run

    bugs.patch(jjq.settings, HotSettings=small)
    bug = os.environ.get("JJQ_TEST_BUG")
    if bug:
        bugs.BUGS[bug].seed()
    run()


if __name__ == "__main__":
    main()
