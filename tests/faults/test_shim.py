"""The shim and the power cut do what they say: a fault that does not happen proves nothing."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from coldstore.shared.chance import SeededChance
from tests.faults.powercut import PowerCut
from tests.faults.shim import MISSING, Shim, can_build

pytestmark = pytest.mark.skipif(not can_build(), reason=MISSING)

SEEDS = range(8)


def run(shim: Shim, code: str) -> str:
    """Run `code` in a process with the shim; `J` is a folder of journals below its root."""
    (shim.root / "journal").mkdir(parents=True, exist_ok=True)
    head = f"import os, time\nJ = {str(shim.root / 'journal')!r}\n"
    head += "def new(n): return os.open(f'{J}/{n}', os.O_RDWR | os.O_CREAT)\n"
    head += "def sync_names():\n d = os.open(J, os.O_RDONLY); os.fsync(d); os.close(d)\n"
    done = subprocess.run(
        [sys.executable, "-S", "-c", head + code],
        env={**os.environ, **shim.environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def shim(tmp_path: Path) -> Iterator[Shim]:
    made = Shim(tmp_path / "shim", tmp_path / "data", undo=True)
    yield made
    made.close()


def after_cut(shim: Shim, seed: int) -> dict[str, bytes]:
    assert shim.undo is not None
    PowerCut(shim.undo, shim.root).strike(SeededChance(seed))
    return {path.name: path.read_bytes() for path in (shim.root / "journal").iterdir()}


def test_a_failed_sync_is_an_error_and_the_next_one_is_not(shim: Shim) -> None:
    shim["fail_sync"] = 2
    code = "f = new('a')\nfor _ in range(3):\n try: os.fdatasync(f); print('ok')\n except OSError as e: print(e.errno)"
    assert run(shim, code).split() == ["ok", str(errno.EIO), "ok"]
    assert shim["failed"] == 1


def test_on_a_full_disk_only_what_needs_room_fails(shim: Shim) -> None:
    run(shim, "os.write(new('a'), bytes(8192))")
    shim["full"] = 1
    code = "f = new('a')\nprint(os.pwritev(f, [b'x' * 100], 0))\n"
    code += (
        "try: os.pwritev(f, [b'x'], 8192)\nexcept OSError as e: print(e.errno)\nprint(os.statvfs(J).f_bavail)"
    )
    assert run(shim, code).split() == ["100", str(errno.ENOSPC), "0"]
    assert shim["refused"] == 1


def test_the_wall_clock_jumps_and_the_monotonic_one_does_not(shim: Shim) -> None:
    code = "print(time.time_ns() // 10**9, time.monotonic_ns() // 10**9)"
    wall, steady = map(int, run(shim, code).split())
    shim["clock_us"] = -3_600_500_000
    later, after = map(int, run(shim, code).split())
    assert -3_602 < later - wall < -3_500
    assert 0 <= after - steady < 100


def test_a_slow_sync_takes_its_time(shim: Shim) -> None:
    shim["delay_sync_us"] = 200_000
    code = "f = new('a'); t = time.monotonic(); os.fdatasync(f); print(time.monotonic() - t > 0.19)"
    assert run(shim, code) == "True"


@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_synced_survives_a_power_cut(shim: Shim, seed: int) -> None:
    run(shim, "f = new('a'); os.pwritev(f, [b'x' * 5000], 0); os.fdatasync(f); sync_names()")
    run(shim, "f = new('a'); os.pwritev(f, [b'y' * 2048], 1024)")
    found = after_cut(shim, seed)["a"]
    assert found[:1024] == b"x" * 1024
    assert found[3072:] == b"x" * 1928
    assert set(found[1024:3072]) <= set(b"xy")


def outcomes(tmp_path: Path, *codes: str) -> set[tuple[tuple[str, bytes], ...]]:
    """What power cuts leave after `codes`, over all seeds."""
    found = set()
    for seed in SEEDS:
        shim = Shim(tmp_path / str(seed) / "shim", tmp_path / str(seed) / "data", undo=True)
        for code in codes:
            run(shim, code)
        found.add(tuple(sorted(after_cut(shim, seed).items())))
        shim.close()
    return found


def test_what_was_not_synced_is_lost_and_kept_by_turns(tmp_path: Path) -> None:
    synced = "f = new('a'); os.pwritev(f, [b'x' * 512], 0); os.fdatasync(f); sync_names()"
    found = outcomes(tmp_path, synced, "f = new('a'); os.pwritev(f, [b'y' * 512], 0)")
    assert found == {(("a", b"x" * 512),), (("a", b"y" * 512),)}


def test_a_name_that_was_not_synced_is_lost_at_times(tmp_path: Path) -> None:
    found = outcomes(tmp_path, "f = new('a'); os.write(f, b'x'); os.fsync(f); os.rename(f'{J}/a', f'{J}/b')")
    assert () in found
    assert (("b", b"x"),) in found


def test_a_name_comes_back_with_what_it_was_the_name_of(tmp_path: Path) -> None:
    made = "for n in 'ab': f = new(n); os.write(f, n.encode()); os.fsync(f)\nsync_names()"
    found = outcomes(tmp_path, made, "os.rename(f'{J}/a', f'{J}/b')")
    assert found == {(("a", b"a"), ("b", b"b")), (("b", b"a"),)}


def test_a_sync_after_a_failed_one_saves_nothing(tmp_path: Path) -> None:
    found = set()
    for seed in SEEDS:
        shim = Shim(tmp_path / str(seed) / "shim", tmp_path / str(seed) / "data", undo=True)
        run(shim, "f = new('a'); os.pwritev(f, [b'x' * 512], 0); os.fdatasync(f); sync_names()")
        shim["fail_sync"] = 1
        code = "f = new('a'); os.pwritev(f, [b'y' * 512], 0)\ntry: os.fdatasync(f)\nexcept OSError: os.fdatasync(f)"
        run(shim, code)
        found.add(after_cut(shim, seed)["a"])
        shim.close()
    assert found == {b"x" * 512, b"y" * 512}
