"""Time and chance are passed in: the linter refuses the bare calls everywhere but in two modules."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.architecture.tree import ROOT

BARE_CALLS = [
    "import time\ntime.time()",
    "from time import monotonic\nmonotonic()",
    "import time\ntime.sleep(1)",
    "import time\ntime.perf_counter()",
    "from datetime import UTC, datetime\ndatetime.now(UTC)",
    "import random\nrandom.random()",
    "import numpy as np\nnp.random.default_rng()",
    "from uuid import uuid4\nuuid4()",
    "import os\nos.urandom(8)",
    "import secrets\nsecrets.token_hex()",
]


def banned(path: str, code: str) -> bool:
    """Whether the linter refuses `code` at `path`."""
    command = [sys.executable, "-m", "ruff", "check", "--select", "TID251", "--stdin-filename", path, "-"]
    result = subprocess.run(command, cwd=ROOT, input=code, capture_output=True, text=True, check=False)
    assert result.returncode in {0, 1}, result.stderr
    return "TID251" in result.stdout


@pytest.mark.parametrize("code", BARE_CALLS)
def test_bare_time_and_chance_are_refused(code: str) -> None:
    assert banned("hotstore/anywhere.py", code)
    assert banned("tests/anywhere.py", code)


def test_only_clock_chance_and_bench_are_exempt() -> None:
    assert not banned("coldstore/shared/clock.py", BARE_CALLS[0])
    assert not banned("coldstore/shared/chance.py", BARE_CALLS[5])
    assert not banned("bench/anywhere.py", BARE_CALLS[3])
    assert banned("hotstore/clock.py", BARE_CALLS[0])


def test_a_clock_that_is_passed_in_is_welcome() -> None:
    assert not banned("hotstore/anywhere.py", "def f(clock):\n    return clock.now_us()")
