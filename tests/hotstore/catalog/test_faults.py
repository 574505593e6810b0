"""The catalog when things go wrong: damage, locks, other versions. (Sudden ends: test_catalog_crash.py.)

Whatever lies there, a write of everything ends in a catalog with exactly these rows, and what was
there before is in quarantine, byte for byte, or was not touched.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

from coldstore.shared.chance import SeededChance
from coldstore.shared.errors import Conflict, DataLoss, JjqError
from hotstore.catalog import probe
from hotstore.catalog.catalog import Event
from hotstore.catalog.probe import Verdict
from tests.hotstore.catalog.catalogs import ROOT, catalog, holds, many, queues, rebuild

BLOCK = 262_144  # DuckDB writes three headers of 4,096 bytes, then blocks of this size


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A sound catalog at checkpoint 1."""
    assert catalog(tmp_path).write(queues("orders"), many(1), sequence=1, everything=True).stored
    return tmp_path / "catalog.duckdb"


def assert_quarantined(events: tuple[Event, ...], kind: str, path: Path, damaged: bytes) -> None:
    assert [event.kind for event in events] == [kind, "created"]
    folder = events[0].quarantined
    assert folder is not None
    assert (folder / path.name).read_bytes() == damaged
    assert (folder / "reason.txt").read_text().startswith(kind)


def in_child(script: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)


# Damage


def test_a_flipped_bit_anywhere_is_harmless_or_quarantined(path: Path) -> None:
    sound = path.read_bytes()
    chance = SeededChance(1)
    places = [0, 8, 4_096, 8_192, 12_287]  # headers
    places += [12_288 + n * BLOCK + int(chance.jitter() * 4_096) for n in range(len(sound) // BLOCK)]
    places += [int(chance.jitter() * len(sound)) for _ in range(6)]
    found = 0
    for place in places:
        damaged = bytearray(sound)
        damaged[place] ^= 1 << int(chance.jitter() * 8)
        path.write_bytes(damaged)
        events = rebuild(path)
        if events:
            assert_quarantined(events, "damaged", path, bytes(damaged))
            found += 1
    assert found > len(places) // 2, "most of these bits matter"


def test_a_file_cut_anywhere_is_quarantined(path: Path) -> None:
    sound = path.read_bytes()
    for length in (0, 1, 4_096, 12_288, 12_288 + BLOCK + 7, len(sound) // 2):
        path.write_bytes(sound[:length])
        assert_quarantined(rebuild(path), "damaged", path, sound[:length])


@pytest.mark.parametrize(
    "garbage",
    [b"garbage", bytes(100_000), b"SQLite format 3\0" * 9_000, b"\xff" * 70_000],
    ids=["short", "zeros", "another format", "ones"],
)
def test_garbage_is_quarantined(path: Path, garbage: bytes) -> None:
    path.write_bytes(garbage)
    with pytest.raises(DataLoss):
        catalog(path.parent).read()
    assert path.read_bytes() == garbage, "reading moves nothing"
    assert_quarantined(rebuild(path), "damaged", path, garbage)


def test_a_rebuilt_catalog_has_the_positions_that_the_lost_one_had(path: Path) -> None:
    before = catalog(path.parent).read()
    path.write_bytes(b"garbage")
    rebuild(path, before.sequence)
    assert catalog(path.parent).read() == before


def test_each_damaged_file_is_kept(path: Path) -> None:
    for garbage in (b"first", b"second", b"third"):
        path.write_bytes(garbage)
        rebuild(path)
    kept = sorted(file.read_bytes() for file in path.parent.glob("quarantine/*/catalog.duckdb"))
    assert kept == [b"first", b"second", b"third"]


def test_a_directory_in_its_place_is_quarantined(tmp_path: Path) -> None:
    (tmp_path / "catalog.duckdb" / "inside").mkdir(parents=True)
    (moved, created) = rebuild(tmp_path / "catalog.duckdb")
    assert (moved.kind, created.kind) == ("damaged", "created")
    assert moved.quarantined is not None
    assert (moved.quarantined / "catalog.duckdb" / "inside").is_dir()


LEAVE_A_WAL = """if True:
    import duckdb, os, signal, sys
    tool = duckdb.connect(sys.argv[1], config={"checkpoint_threshold": "1GB"})
    tool.execute("UPDATE subscribers SET previous = 77")
    os.kill(os.getpid(), signal.SIGKILL)"""


@pytest.mark.parametrize("what", ["as it is", "torn", "flipped", "garbage", "empty", "alone"])
def test_a_log_left_by_another_program_is_quarantined_with_its_catalog(path: Path, what: str) -> None:
    in_child(LEAVE_A_WAL, path).communicate()
    log = path.with_name("catalog.duckdb.wal")
    whole = log.read_bytes()
    middle = len(whole) // 2
    flipped = whole[:middle] + bytes([whole[middle] ^ 16]) + whole[middle + 1 :]
    log.write_bytes(
        {"torn": whole[:-9], "flipped": flipped, "garbage": b"x" * 999, "empty": b""}.get(what, whole)
    )
    left = log.read_bytes()
    if what == "alone":
        path.unlink()
    moved = [event.quarantined for event in rebuild(path) if event.kind == "damaged"]
    assert len(moved) == 1
    assert moved[0] is not None
    assert (moved[0] / log.name).read_bytes() == left
    assert (moved[0] / path.name).exists() == (what != "alone")
    assert not log.exists()


def test_damage_while_the_process_runs_is_noticed_before_the_file_is_opened(path: Path) -> None:
    running = catalog(path.parent)
    assert running.write(queues("orders"), many(2), sequence=2, everything=True).stored
    path.write_bytes(b"overwritten")
    outcome = running.write(queues(), many(3), sequence=3)
    assert (outcome.stored, [event.kind for event in outcome.events]) == (False, ["behind"])
    outcome = running.write(queues("orders"), many(3), sequence=3, everything=running.behind)
    assert_quarantined(outcome.events, "damaged", path, b"overwritten")
    assert holds(running) == 3


# Other versions and other programs


def test_a_newer_format_is_put_aside_whole_and_not_read(path: Path) -> None:
    with duckdb.connect(str(path)) as newer:
        newer.execute("ALTER TABLE subscribers RENAME block TO place; UPDATE checkpoint SET format = 2")
    newer_bytes = path.read_bytes()
    with pytest.raises(Conflict, match="format 2"):
        catalog(path.parent).read()
    assert_quarantined(rebuild(path), "format", path, newer_bytes)


@pytest.mark.parametrize(
    "change", ["DROP VIEW lag", "ALTER TABLE queues DROP cold_offset", "DELETE FROM checkpoint"]
)
def test_tables_that_are_not_ours_are_put_aside(path: Path, change: str) -> None:
    with duckdb.connect(str(path)) as tool:
        tool.execute(change)
    changed = path.read_bytes()
    assert_quarantined(rebuild(path), "damaged", path, changed)


def test_tables_that_someone_added_are_left_in_peace(path: Path) -> None:
    with duckdb.connect(str(path)) as tool:
        tool.execute("CREATE TABLE notes AS SELECT 'mine' AS note")
    assert rebuild(path) == ()
    with duckdb.connect(str(path), read_only=True) as tool:
        assert tool.execute("SELECT * FROM notes").fetchall() == [("mine",)]


HOLD = """if True:
    import duckdb, sys
    tool = duckdb.connect(sys.argv[1], read_only=sys.argv[2] == "reads")
    print("open", flush=True)
    sys.stdin.read()"""


@contextmanager
def held(path: Path, how: str) -> Iterator[None]:
    """Another real process has the file open."""
    tool = in_child(HOLD, path, how)
    try:
        assert tool.stdout is not None
        assert tool.stdout.readline() == "open\n"
        yield
    finally:
        tool.communicate()


@pytest.mark.parametrize("how", ["reads", "writes"])
def test_a_file_that_a_tool_has_open_is_not_touched_and_caught_up_with_later(path: Path, how: str) -> None:
    running = catalog(path.parent)
    assert running.write(queues("orders"), many(2), sequence=2, everything=True).stored
    before = path.read_bytes()
    with held(path, how):
        for writer in (running, catalog(path.parent)):
            outcome = writer.write(queues("orders"), many(3), sequence=3, everything=writer.behind)
            assert (outcome.stored, [event.kind for event in outcome.events]) == (False, ["in_use"])
        if how == "writes":
            with pytest.raises(Conflict):
                running.read()
        else:
            assert holds(running) == 2
    assert path.read_bytes() == before
    assert not running.behind, "nothing changed, so the next write need not carry everything"
    assert running.write(queues(), many(4), sequence=4).stored
    assert holds(running) == 4
    assert not (path.parent / "quarantine").exists()


def test_a_file_open_elsewhere_in_this_process_is_not_touched_either(path: Path) -> None:
    restarted = catalog(path.parent)
    with duckdb.connect(str(path), read_only=True) as tool:
        outcome = restarted.write(queues("orders"), many(2), sequence=2, everything=True)
        assert (outcome.stored, [event.kind for event in outcome.events]) == (False, ["in_use"])
        assert tool.execute("SELECT journal_sequence FROM checkpoint").fetchall() == [(1,)]
    assert rebuild(path) == ()


# The child


@pytest.mark.parametrize(
    ("child", "state"),
    [
        ("print('ready', flush=True); os.abort()", "damaged"),
        ("print('ready', flush=True); os.kill(os.getpid(), signal.SIGSEGV)", "damaged"),
        ("print('ready', flush=True); sys.stdin.read(); signal.pause()", "damaged"),
        ("signal.pause()", "unproved"),
        ("raise ImportError('duckdb')", "unproved"),
        ("print('ready'); print('sound')", "sound"),
        ("print('ready'); print('in_use by someone')", "in_use"),
    ],
)
def test_what_becomes_of_the_child_is_the_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, child: str, state: str
) -> None:
    script = tmp_path / "child.py"
    script.write_text(
        f"import os, resource, signal, sys\nresource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n{child}\n"
    )
    monkeypatch.setattr(probe, "__file__", str(script))
    assert probe.probe(tmp_path / "any", seconds=2.0 if "pause" in child else 30.0).state == state


def test_without_a_proof_nothing_is_opened_or_moved(path: Path) -> None:
    before = path.read_bytes()
    unable = catalog(path.parent, probe=lambda _: Verdict("unproved", "no process could be started"))
    outcome = unable.write(queues("orders"), many(2), sequence=2, everything=True)
    assert (outcome.stored, [event.kind for event in outcome.events]) == (False, ["unproved"])
    with pytest.raises(JjqError, match="no process could be started"):
        unable.read()
    assert path.read_bytes() == before


def test_a_file_that_cannot_be_moved_away_stays(path: Path) -> None:
    path.write_bytes(b"garbage")
    (path.parent / "quarantine").write_text("a file where the folder should be")
    outcome = catalog(path.parent).write(queues("orders"), many(2), sequence=2, everything=True)
    assert (outcome.stored, [event.kind for event in outcome.events]) == (False, ["failed"])
    assert path.read_bytes() == b"garbage"
