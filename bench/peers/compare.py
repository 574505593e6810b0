"""Run every system in turn, each phase in a process of its own, and gather what they say."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.peers import machine
from bench.peers.figures import Outcome, compare
from bench.peers.scale import SCALES, works
from bench.peers.server import StartFailed
from bench.peers.systems.registry import SYSTEMS
from bench.row import Row

ROOT = Path(__file__).parents[2]
PHASES = ("live", "written", "restarted")
PHASE_SECONDS = {"full": 3_600.0, "short": 600.0, "quick": 60.0, "tiny": 60.0}


def compared(
    systems: Iterable[str], size: str, said: Callable[[str], None], folder: Path | None = None
) -> dict[str, Any]:
    """The whole comparison, as the report has it. Data lies in `folder`, by default in build/: a real disk."""
    home = folder or ROOT / "build"
    home.mkdir(parents=True, exist_ok=True)
    scale = SCALES[size]
    with tempfile.TemporaryDirectory(dir=home, prefix="bench-") as name:
        root = Path(name)
        about = machine.description(root)
        if about["file system"] in ("tmpfs", "ramfs"):
            said("this folder is in memory: fsync costs nothing there, and the figures mean little")
        said("the machine alone")
        limits = machine.limits(root / "machine", scale)
        outcomes = {system: measured(system, size, root, said) for system in systems}
    return {
        "format": 1,
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "size": size,
        "machine": about,
        "limits": [{"title": row.name, "value": row.value, "unit": row.unit} for row in limits],
        "systems": {name: asdict(outcome) for name, outcome in outcomes.items()},
        "table": compare(works(scale), outcomes),
    }


def results(size: str) -> Path:
    """Where a report goes: only that of a full run is kept in the repository."""
    return ROOT / "bench" / "results" if size == "full" else ROOT / "build" / "bench-results"


def limit_rows(found: dict[str, Any]) -> list[Row]:
    return [Row(limit["title"], limit["value"], limit["unit"]) for limit in found["limits"]]


def measured(name: str, size: str, root: Path, said: Callable[[str], None]) -> Outcome:
    """One system, or why it is not there."""
    system = SYSTEMS[name]
    outcome = Outcome(system.title, system.client, system.durability, system.native_name, system.weaker)
    outcome.missing = system.missing()
    if outcome.missing:
        said(f"{system.title} is missing: {outcome.missing}")
        return outcome
    try:
        system.prepare()
    except StartFailed as failed:
        outcome.failed["start"] = str(failed)
        said(f"{system.title} failed, start: {failed}")
        return outcome
    for phase in PHASES:
        said(f"{system.title}: {phase}")
        # The restart finds what was written; everything else begins with nothing.
        folder = root / name / ("written" if phase == "restarted" else phase)
        reason = _phase(name, phase, size, folder, outcome)
        if reason:
            outcome.failed[phase] = reason
            said(f"{system.title} failed, {phase}: {reason}")
            if phase == "written" or not outcome.values:
                break
        if phase != "written":
            shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(root / name, ignore_errors=True)
    return outcome


def _phase(name: str, phase: str, size: str, folder: Path, outcome: Outcome) -> str:
    """Why it failed, or nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "bench.peers.worker", name, phase, size, str(folder)]
    errors = folder.with_suffix(".errors")
    with errors.open("w") as stderr:
        # A session of its own, so that whatever it started can be ended with it.
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=stderr, text=True, start_new_session=True
        )
        try:
            lines, _ = process.communicate(timeout=PHASE_SECONDS[size])
            reason = ""
        except subprocess.TimeoutExpired:
            reason = f"no end after {PHASE_SECONDS[size]:g} s"
            _end(process)
            lines, _ = process.communicate()
        finally:
            _end(process)
    for line in map(json.loads, lines.splitlines()):
        reason = line.get("failed", reason)
        _take(line, outcome)
    if process.returncode and not reason:
        said = errors.read_text("utf-8", "replace").strip().splitlines()
        reason = said[-1][:300] if said else f"it ended with {process.returncode}"
    return reason


def _end(process: subprocess.Popen[str]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _take(line: dict[str, Any], outcome: Outcome) -> None:
    if "syncs" in line:
        outcome.syncs = line["syncs"]
    elif "absent" in line:
        outcome.absent[line["work"]] = line["absent"]
    elif "value" in line:
        outcome.add(line["work"], line["value"])
