"""Objects in verify, in backups and in sweeps, and on the command line: over a store in this process."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from pathlib import Path

import pytest

import jjq
from coldstore import backup
from coldstore.objects.local import LocalObjects
from coldstore.objects.memory import MemoryObjects
from coldstore.shared.attachments import ObjectRef
from coldstore.shared.batch import payload
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import ManualClock, SystemClock
from coldstore.shared.errors import NotFound
from coldstore.shared.limits import PART_BYTES, SWEEP_GRACE_SECONDS
from coldstore.shared.push import Push
from coldstore.store import ColdStore
from hotstore.large.port import large_of
from hotstore.opening import open_engine
from hotstore.settings import HotSettings
from jjq.cli.app import run
from tests.servers.jjq_server import JjqServer

DATA = b"z" * PART_BYTES + b"rest"
SHA = hashlib.sha256(DATA).hexdigest()


def cold_of(place: Path) -> ColdStore:
    return ColdStore(LocalObjects(place), SystemClock(), SystemChance())


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """A cold store with a block that names an object."""
    with jjq.open(tmp_path / "data") as client:
        client.create_queue("q")
        client.push_file("q", io.BytesIO(DATA))
        client.push("q", [b"plain"])
        client.seal("q")
    return tmp_path / "data" / "cold"


def test_verify_reads_the_objects_that_blocks_name(filled: Path) -> None:
    place = filled / "queues" / "q" / "objects" / SHA
    assert cold_of(filled).verify("q").ok

    place.write_bytes(DATA[:-1] + b"?")
    [damaged] = cold_of(filled).verify("q").defects
    place.unlink()
    [missing] = cold_of(filled).verify("q").defects

    assert (damaged.kind, missing.kind) == ("object damaged", "object missing")
    assert damaged.key == missing.key == f"queues/q/objects/{SHA}"


def test_a_backup_has_the_objects_of_its_blocks(filled: Path, tmp_path: Path) -> None:
    target = LocalObjects(tmp_path / "backup")
    work = backup.Copying(cold_of(filled), target, SystemClock(), SystemChance())
    backup.prepare(work, empty=True)

    copied = backup.copy_queue(work, "q")

    assert copied.problem is None
    assert copied.report is not None
    assert copied.report.ok
    assert target.get(f"queues/q/objects/{SHA}").data == DATA


def test_a_backup_without_an_object_has_all_else_and_says_so(filled: Path, tmp_path: Path) -> None:
    (filled / "queues" / "q" / "objects" / SHA).unlink()
    work = backup.Copying(cold_of(filled), LocalObjects(tmp_path / "backup"), SystemClock(), SystemChance())
    backup.prepare(work, empty=True)

    copied = backup.copy_queue(work, "q")

    assert copied.next == 2
    assert isinstance(copied.problem, jjq.DataLoss)
    assert SHA in copied.problem.message


async def test_a_sweep_removes_only_what_no_element_names(tmp_path: Path) -> None:
    clock, chance = ManualClock(), SystemChance()
    objects = MemoryObjects(clock)
    settings = HotSettings(sweep_seconds=1.0)
    engine = await open_engine(
        tmp_path, ColdStore(objects, clock, chance), settings=settings, clock=clock, chance=chance
    )
    store, large = engine.store, large_of(engine.store)

    async def put(data: bytes) -> ObjectRef:
        ref = ObjectRef(hashlib.sha256(data).hexdigest(), len(data))
        state = await large.begin_upload("q", ref.sha256, ref.size)
        await large.upload(state.upload, 0, data)
        await large.finish_upload(state.upload)
        return ref

    def keys(folder: str) -> list[str]:
        return [info.key.rpartition("/")[2] for info in objects.list(f"queues/q/{folder}/")]

    try:
        await store.create_queue("q")
        left, in_block, in_memory = [await put(data) for data in (b"left", b"in a block", b"in memory")]
        one = payload("bytes", [b""])
        await store.append(Push("q", one, stage="ready", objects=((0, in_block),)))
        await store.seal("q")
        await store.append(Push("q", one, stage="ready", objects=((0, in_memory),)))
        assert len(keys("uploads")) == 3  # what is only ready may be lost: a sweep decides

        clock.advance(2 * SWEEP_GRACE_SECONDS)
        await engine.maintenance.once()

        assert keys("objects") == sorted([in_block.sha256, in_memory.sha256])
        assert keys("uploads") == []
        with pytest.raises(NotFound, match="upload it first"):
            await store.append(Push("q", one, objects=((0, left),)))
        named = await put(b"named")
        await store.append(Push("q", one, objects=((0, named),)))
    finally:
        await engine.close()
    assert keys("uploads") == []  # the note has gone in the background


@pytest.fixture
def server(tmp_path: Path) -> Iterator[JjqServer]:
    with JjqServer(tmp_path / "server") as running:
        yield running


def test_files_on_the_command_line(
    server: JjqServer, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JJQ_SERVER", server.address)
    (tmp_path / "cat.png").write_bytes(DATA)
    (tmp_path / "dog.png").write_bytes(b"dog")
    assert run(["queue", "create", "images"]) == 0
    assert run(["push-file", "images", str(tmp_path / "cat.png"), str(tmp_path / "dog.png")]) == 0
    assert run(["get", "images", "0", "-o", str(tmp_path / "out.png")]) == 0
    assert (tmp_path / "out.png").read_bytes() == DATA
    capfd.readouterr()
    assert run(["get", "images", "1"]) == 0
    assert capfd.readouterr().out == "dog"
    assert run(["get", "images", "2"]) == 2
    assert run(["push-file", "images", str(tmp_path / "missing")]) == 2
    capfd.readouterr()

    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert run(["tail", "images"]) == 0

    shown = capfd.readouterr().out
    assert "[object cat.png image/png 8" in shown
    assert f"sha256:{SHA[:12]}]" in shown
