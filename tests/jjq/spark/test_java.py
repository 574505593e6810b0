"""`.ci/java` finds a Java for Spark, and passes over one that is too old."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.architecture.tree import ROOT


def java_in(home: Path, version: str) -> Path:
    """A Java that only says its version."""
    command = home / "bin/java"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-20' >&2\n")
    command.chmod(0o755)
    return home


def found(java_home: Path, path: str = "/usr/bin:/bin") -> str:
    done = subprocess.run(
        [str(ROOT / ".ci/java")],
        env=os.environ | {"JAVA_HOME": str(java_home), "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_the_one_that_is_named_comes_first(tmp_path: Path) -> None:
    assert found(java_in(tmp_path / "named", "17.0.15")) == str(tmp_path / "named")
    assert found(java_in(tmp_path / "early", "26-ea")) == str(tmp_path / "early")


def test_one_that_is_too_old_is_passed_over_for_one_on_the_path(tmp_path: Path) -> None:
    java_in(tmp_path / "new", "21.0.2")
    path = f"{tmp_path / 'new/bin'}:/usr/bin:/bin"
    for version in ("1.8.0_402", "11.0.22"):
        assert found(java_in(tmp_path / version, version), path) == str(tmp_path / "new")
    assert found(tmp_path / "nowhere", path) == str(tmp_path / "new")
