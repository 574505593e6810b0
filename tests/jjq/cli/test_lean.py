"""What a command does not load."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec

from tests.jjq.cli.command import Command

SAYS = (
    "import sys; sys.argv = ['jjq', *{words}]\nfrom jjq.cli import main\ntry: main()\nfinally: import pandas"
)


def test_a_push_does_without_pandas(jjq: Command, queue: str) -> None:
    """pyarrow would import it, as it is installed here."""
    assert find_spec("pandas") is not None
    environment = {**jjq.environment(), "PYTHONPROFILEIMPORTTIME": "1"}
    process = jjq.start("push", queue, "a", env=environment)
    _, loaded = process.communicate(timeout=60)
    assert process.returncode == 0, loaded
    assert re.search(rb"\| +pyarrow$", loaded, re.MULTILINE)
    assert not re.search(rb"\| +pandas\.", loaded), "parts of it are loaded"


def test_pipelines_may_use_it() -> None:
    def run(*words: str) -> int:
        code = SAYS.format(words=list(words))
        return subprocess.run(
            [sys.executable, "-c", code], capture_output=True, timeout=60, check=False
        ).returncode

    assert run("pipeline", "--help") == 0
    assert run("queue", "--help") == 1
