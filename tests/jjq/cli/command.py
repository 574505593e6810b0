"""Running the command `jjq` as a user's shell would.

Calling it runs it in this process, which is quick; `start` and `shell` run processes of their own, for
what only a process can show: signals, pipes, terminals, standard input that is not a file.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from contextlib import ExitStack, chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from jjq.cli.app import run
from tests.servers.jjq_server import clean_environment, interruptible


@dataclass
class Ran:
    """What a command did."""

    code: int
    output: bytes
    errors: str

    @property
    def text(self) -> str:
        return self.output.decode()

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def json(self) -> Any:
        return json.loads(self.output)


@dataclass
class Command:
    """`jjq …` against one server, from one folder."""

    folder: Path
    server: str | None = None

    def environment(self) -> dict[str, str]:
        return clean_environment(**({} if self.server is None else {"JJQ_SERVER": self.server}))

    def start(self, *arguments: str, **more: Any) -> subprocess.Popen[bytes]:
        """Begin; whoever called ends it."""
        with interruptible():
            return subprocess.Popen(
                [sys.executable, "-m", "jjq", *arguments],
                cwd=self.folder,
                **{
                    "stdin": subprocess.DEVNULL,
                    "stdout": subprocess.PIPE,
                    "stderr": subprocess.PIPE,
                    "env": self.environment(),
                    **more,
                },
            )

    def __call__(self, *arguments: str, input: bytes | None = None) -> Ran:
        output, errors = io.TextIOWrapper(io.BytesIO()), io.StringIO()
        with ExitStack() as stack:
            (self.folder / ".stdin").write_bytes(input or b"")
            stdin = stack.enter_context((self.folder / ".stdin").open())
            stack.enter_context(mock.patch.object(sys, "stdin", stdin))
            stack.enter_context(mock.patch.dict(os.environ, self.environment(), clear=True))
            stack.enter_context(chdir(self.folder))
            stack.enter_context(redirect_stdout(output))
            stack.enter_context(redirect_stderr(errors))
            code = run(arguments)
            output.flush()
        return Ran(code, output.buffer.getvalue(), errors.getvalue())

    def ok(self, *arguments: str, input: bytes | None = None) -> Ran:
        """Run what must succeed and say nothing on standard error."""
        ran = self(*arguments, input=input)
        assert (ran.code, ran.errors) == (0, ""), (arguments, ran)
        return ran

    def shell(self, line: str) -> Ran:
        """A line for bash, in which `jjq` is the command under test."""
        jjq = f'jjq() {{ "{sys.executable}" -m jjq "$@"; }}; '
        process = subprocess.run(
            ["bash", "-c", jjq + line],
            cwd=self.folder,
            capture_output=True,
            env=self.environment(),
            timeout=60,
            check=False,
        )
        return Ran(process.returncode, process.stdout, process.stderr.decode())
