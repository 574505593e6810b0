"""Tests that must not run side by side do not: pytest-xdist honours the groups that they are marked with.

It works by a detail of pytest that one release changed. Nothing failed then; the machine was only busier.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

MARKED = """
import os, pathlib, pytest

@pytest.mark.xdist_group("one")
@pytest.mark.parametrize("number", range(8))
def test_marked(number):
    pathlib.Path(__file__).with_name(os.environ["PYTEST_XDIST_WORKER"]).touch()
"""


def test_a_group_has_one_worker(tmp_path: Path) -> None:
    (tmp_path / "test_marked.py").write_text(MARKED)
    outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    outside["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # three processes, which need none but this one
    groups = ["-p", "xdist.plugin", "-n", "2", "--dist", "loadgroup"]
    alone = ["-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *groups, *alone, str(tmp_path)],
        env=outside,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "8 passed" in done.stdout, done.stdout + done.stderr
    assert len(list(tmp_path.glob("gw*"))) == 1
