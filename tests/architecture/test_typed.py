"""What users' type checkers see: the types of the wheel, not of this tree."""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

from tests.architecture.tree import ROOT

PROGRAM = """\
import jjq

with jjq.connect("127.0.0.1:7575") as client:
    receipt = client.push("orders", [b"a"])
    offset: int = receipt.first_offset
    client.pussh("orders", [b"a"])
    wrong: str = client.create_queue("orders").next_offset
"""


def run(*command: str, at: Path) -> str:
    return subprocess.run(command, cwd=at, capture_output=True, text=True, check=False).stdout


def test_a_users_program_is_checked_against_the_types_of_the_wheel(tmp_path: Path) -> None:
    # Given an environment with nothing in it but the wheel
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        check=False,
    )
    assert built.returncode == 0
    venv.create(tmp_path / "env", with_pip=False)
    (packages,) = (tmp_path / "env").glob("lib/python*/site-packages")
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as files:
        files.extractall(packages)
    # When a program with two mistakes is checked
    (tmp_path / "program.py").write_text(PROGRAM)
    python = str(tmp_path / "env" / "bin" / "python")
    found = run(
        sys.executable,
        "-m",
        "mypy",
        "--python-executable",
        python,
        "--ignore-missing-imports",
        "program.py",
        at=tmp_path,
    )
    # Then both are found, and nothing else
    errors = [line for line in found.splitlines() if "error:" in line]
    assert len(errors) == 2, found
    assert '"Client" has no attribute "pussh"' in errors[0]
    assert 'expression has type "int", variable has type "str"' in errors[1]
