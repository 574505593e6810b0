"""What is particular to local files: processes, links, foreign files, folders, etags."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from coldstore.objects import local_files
from coldstore.objects.local import LocalObjects
from coldstore.shared.clock import ManualClock
from coldstore.shared.errors import Conflict, InvalidInput, NotFound
from tests.coldstore.objects import races

HOUR = 3_600
REPOSITORY = Path(__file__).parents[3]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def objects(root: Path) -> LocalObjects:
    return LocalObjects(root)


def test_of_16_processes_that_write_an_absent_object_one_wins(objects: LocalObjects, root: Path) -> None:
    winners = races.race_processes(root, races.absent)

    assert winners == [objects.get("race").data]


def test_of_16_processes_with_one_etag_one_wins(objects: LocalObjects, root: Path) -> None:
    objects.put("race", b"before")

    winners = races.race_processes(root, races.match)

    assert winners == [objects.get("race").data]


def test_a_store_that_is_only_read_creates_nothing(objects: LocalObjects, root: Path) -> None:
    assert list(objects.list("")) == []
    objects.delete("key")
    with pytest.raises(NotFound):
        objects.get("key")

    assert not root.exists()


def test_folders_and_files_are_for_this_user_alone(objects: LocalObjects, root: Path) -> None:
    objects.put("queues/orders/queue.json", b"{}")

    assert {path.stat().st_mode & 0o777 for path in (root, *root.rglob("*")) if path.is_dir()} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in root.rglob("*") if path.is_file()} == {0o600}


def test_nothing_but_whole_objects_is_ever_seen_in_a_folder(
    objects: LocalObjects, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects.put("data/1", b"1")
    seen = []

    def write(fd: int, data: memoryview) -> int:
        seen.append(sorted(path.name for path in (root / "data").iterdir()))
        return real(fd, data)

    real = os.write
    monkeypatch.setattr(os, "write", write)
    objects.put_if_absent("data/2", b"2")
    objects.put("data/1", b"3")

    assert seen == [["1"], ["1", "2"]]
    assert list((root / ".tmp").iterdir()) == []


KILLED_AT = """
import os, signal, sys
from coldstore.objects.local import LocalObjects
left = [None] * int(sys.argv[2])
os.fsync = lambda fd: left.pop() if left else os.kill(os.getpid(), signal.SIGKILL)
LocalObjects(sys.argv[1]).put_if_absent("data/2", b"whole")
"""


@pytest.mark.parametrize(("syncs", "seen"), [(1, ["data/1"]), (2, ["data/1"]), (3, ["data/1", "data/2"])])
def test_a_process_killed_while_it_writes_leaves_all_or_nothing_to_see(
    objects: LocalObjects, root: Path, syncs: int, seen: list[str]
) -> None:
    objects.put("data/1", b"whole")

    ended = subprocess.run([sys.executable, "-c", KILLED_AT, root, str(syncs)], cwd=REPOSITORY, check=False)

    assert ended.returncode == -signal.SIGKILL
    assert [info.key for info in objects.list("")] == seen
    assert {objects.get(key).data for key in seen} == {b"whole"}
    assert len(list((root / ".tmp").iterdir())) == 1
    assert len(list((root / "data").iterdir())) == len(seen)


def test_only_old_temporary_files_of_the_dead_are_swept(objects: LocalObjects, root: Path) -> None:
    objects.put("key", b"1")
    clock = ManualClock()
    for name, age in (("dead", 2 * HOUR), ("young", HOUR // 2), ("alive", 2 * HOUR)):
        (root / ".tmp" / name).write_bytes(b"")
        then = clock.now_us() // 1_000_000 - age
        os.utime(root / ".tmp" / name, (then, then))

    with (root / ".tmp" / "alive").open() as alive:
        fcntl.flock(alive, fcntl.LOCK_EX)
        LocalObjects(root, clock=clock)
        left = {path.name for path in (root / ".tmp").iterdir()}

    assert left == {"young", "alive"}
    assert objects.get("key").data == b"1"


def test_a_link_to_a_folder_leads_nowhere(objects: LocalObjects, root: Path, tmp_path: Path) -> None:
    objects.put("key", b"1")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_bytes(b"secret")
    (root / "link").symlink_to(tmp_path / "outside")

    with pytest.raises(NotFound):
        objects.get("link/secret")
    with pytest.raises(NotFound):
        objects.head("link/secret")
    for put in (objects.put, objects.put_if_absent):
        with pytest.raises(InvalidInput):
            put("link/new", b"")
    objects.delete("link/secret")

    assert [info.key for info in objects.list("")] == ["key"]
    assert list(objects.list("link/")) == []
    assert (tmp_path / "outside" / "secret").read_bytes() == b"secret"
    assert not (tmp_path / "outside" / "new").exists()


def test_a_link_to_a_file_is_no_object(objects: LocalObjects, root: Path, tmp_path: Path) -> None:
    etag = objects.put("key", b"1")
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    (root / "link").symlink_to(secret)

    with pytest.raises(NotFound):
        objects.get("link")
    with pytest.raises(InvalidInput, match="a link has this name"):
        objects.put_if_absent("link", b"")
    with pytest.raises(Conflict):
        objects.put_if_match("link", b"", etag)
    assert [info.key for info in objects.list("")] == ["key"]
    objects.put("link", b"replaces the link")

    assert secret.read_bytes() == b"secret"
    assert objects.get("link").data == b"replaces the link"


def test_a_pipe_in_the_store_holds_nobody_up(objects: LocalObjects, root: Path) -> None:
    objects.put("key", b"1")
    os.mkfifo(root / "pipe")

    with pytest.raises(NotFound):
        objects.get("pipe")
    assert [info.key for info in objects.list("")] == ["key"]


def test_foreign_files_are_not_listed(objects: LocalObjects, root: Path) -> None:
    objects.put("folder/key", b"1")
    for name in ("folder/.DS_Store", "folder/a b", "folder/key~", ".hidden"):
        (root / name).write_bytes(b"")
    (root / "lost+found" / ".x").mkdir(parents=True)

    assert [info.key for info in objects.list("")] == ["folder/key"]


def test_a_key_is_an_object_or_a_folder_not_both(objects: LocalObjects) -> None:
    objects.put("a/b", b"1")

    for put in (objects.put, objects.put_if_absent):
        with pytest.raises(InvalidInput):
            put("a", b"")
        with pytest.raises(InvalidInput):
            put("a/b/c", b"")
    assert [info.key for info in objects.list("")] == ["a/b"]


def test_a_name_longer_than_the_file_system_allows_is_refused(objects: LocalObjects) -> None:
    objects.put("x" * 255, b"1")

    with pytest.raises(InvalidInput, match="File name too long"):
        objects.put("x" * 256, b"")
    with pytest.raises(NotFound):
        objects.get("x" * 256)
    objects.delete("x" * 256)


def test_a_narrow_listing_reads_only_the_folders_it_needs(
    objects: LocalObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    for queue in "abc":
        for number in range(3):
            objects.put(f"queues/{queue}/data/{number}", b"")
            objects.put(f"queues/{queue}/meta/{number}", b"")
    read: list[str] = []
    real = local_files.names_in

    def names_in(fd: int) -> Iterator[str]:
        read.append(str(Path(f"/proc/self/fd/{fd}").readlink()).partition("/store/")[2])
        return real(fd)

    monkeypatch.setattr(local_files, "names_in", names_in)

    found = [info.key for info in objects.list("queues/", after="queues/b/data/1")]

    assert found[:2] == ["queues/b/data/2", "queues/b/meta/0"]
    assert read[:3] == ["queues", "queues/b", "queues/b/data"]
    assert not any(folder.startswith("queues/a") for folder in read)
    read.clear()
    assert len(list(objects.list("queues/c/meta/"))) == 3
    assert read == ["queues/c/meta"]


def test_no_name_is_replaced_while_a_folder_is_read(
    objects: LocalObjects, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects.put("key", b"1")
    real = local_files.names_in

    def names_in(fd: int) -> Iterator[str]:
        with (root / ".lock").open("rb") as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return real(fd)

    monkeypatch.setattr(local_files, "names_in", names_in)

    assert [info.key for info in objects.list("")] == ["key"]


def test_an_object_is_listed_always_while_it_is_overwritten(objects: LocalObjects) -> None:
    objects.put("folder/key", b"0")
    stop = threading.Event()

    def overwrite() -> None:
        while not stop.is_set():
            objects.put("folder/key", b"again")

    writer = threading.Thread(target=overwrite)
    writer.start()
    try:
        assert all([info.key for info in objects.list("")] == ["folder/key"] for _ in range(300))
    finally:
        stop.set()
        writer.join()


def test_no_etag_is_ever_used_twice_although_time_stands_still(root: Path) -> None:
    objects = LocalObjects(root, clock=ManualClock())
    etags = []
    for _ in range(50):
        etags.append(objects.put_if_absent("key", b"same"))
        etags.append(objects.put("key", b"same"))
        etags.append(objects.put_if_match("key", b"same", etags[-1]))
        objects.delete("key")

    assert len(set(etags)) == 150


def test_versions_grow_although_the_clock_goes_back(root: Path) -> None:
    clock = ManualClock()
    objects = LocalObjects(root, clock=clock)
    objects.put("key", b"1")
    first = objects.head("key")
    clock.jump(-HOUR)

    objects.put("key", b"2")

    assert objects.head("key").etag != first.etag
    assert objects.head("key").modified_us >= first.modified_us == ManualClock().now_us()


def test_etags_differ_where_the_file_system_keeps_whole_seconds(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.utime

    def coarse(file: int, ns: tuple[int, int]) -> None:
        real(file, ns=(ns[0] // 2_000_000_000 * 2_000_000_000,) * 2)

    monkeypatch.setattr(os, "utime", coarse)
    objects = LocalObjects(root, clock=ManualClock())
    times = []
    for _ in range(5):
        objects.put("key", b"same")
        times.append(objects.head("key").modified_us)

    assert times == sorted(set(times))
