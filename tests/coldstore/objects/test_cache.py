"""The cache of cold data files: right bytes or none, within its bounds, shared by threads and processes."""

from __future__ import annotations

import errno
import fcntl
import multiprocessing
import os
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest

from coldstore.objects.cache import BlockCache
from coldstore.objects.local import LocalObjects
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import ManualClock
from coldstore.shared.errors import DataLoss, InvalidInput, NotFound, Unavailable
from tests.coldstore.objects.cached import SIZE, Cache, Remote, block, key, read_many, sha256
from tests.servers.waiting import wait_until


@pytest.fixture
def remote() -> Remote:
    return Remote(10)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def on_disk(directory: Path) -> set[int]:
    names = {path.name for path in directory.iterdir()}
    return {number for number in range(100) if sha256(number) in names}


def test_a_block_is_fetched_once_and_then_comes_from_memory(remote: Remote, directory: Path) -> None:
    cache = Cache(remote, directory, disk=0)

    first, second = cache.get(1), cache.get(1)

    assert first is second
    assert first == block(1)
    assert remote.fetched == [key(1)]
    assert not directory.exists()


def test_a_block_on_disk_outlives_the_process(remote: Remote, directory: Path) -> None:
    Cache(remote, directory).get(1)

    assert Cache(remote, directory).get(1) == block(1)

    assert remote.fetched == [key(1)]
    assert (directory / sha256(1)).read_bytes() == block(1)
    assert (directory.stat().st_mode & 0o777, (directory / sha256(1)).stat().st_mode & 0o777) == (
        0o700,
        0o600,
    )


@pytest.mark.parametrize("damage", ["bit", "cut", "more", "empty", "link"])
def test_a_damaged_file_is_dropped_and_fetched_again(remote: Remote, directory: Path, damage: str) -> None:
    Cache(remote, directory).get(1)
    path = directory / sha256(1)
    data = path.read_bytes()
    if damage == "link":
        path.rename(directory / "elsewhere")
        path.symlink_to(directory / "elsewhere")
    else:
        flipped = data[:500] + bytes([data[500] ^ 1]) + data[501:]
        path.write_bytes({"bit": flipped, "cut": data[:-1], "more": data + b"x", "empty": b""}[damage])

    assert Cache(remote, directory).get(1) == block(1)

    assert remote.fetched == [key(1), key(1)]
    assert path.read_bytes() == data
    assert not path.is_symlink()


def test_memory_is_not_hashed_again_and_disk_is(
    remote: Remote, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed = []
    real = BlockCache.get.__globals__["_is"]

    def counting(data: bytes, digest: str, size: int) -> bool:
        hashed.append(digest)
        return bool(real(data, digest, size))

    monkeypatch.setitem(BlockCache.get.__globals__, "_is", counting)
    cache = Cache(remote, directory)
    for _ in range(3):
        cache.get(1)
    assert len(hashed) == 1
    Cache(remote, directory).get(1)
    assert len(hashed) == 2


@pytest.mark.parametrize("stored", [b"", b"other", block(2), block(1)[:-1], block(1) + b"x"])
def test_an_object_that_is_not_the_one_named_is_data_loss(
    remote: Remote, directory: Path, stored: bytes
) -> None:
    remote.put(key(1), stored)
    cache = Cache(remote, directory)

    with pytest.raises(DataLoss, match="is damaged") as lost:
        cache.get(1)

    assert lost.value.key == key(1)
    assert not directory.exists() or on_disk(directory) == set()
    remote.put(key(1), block(1))
    assert cache.get(1) == block(1)


def test_an_object_of_another_size_than_was_said_is_data_loss(remote: Remote, directory: Path) -> None:
    cache = BlockCache(remote, directory, SIZE, SIZE, ManualClock(), SystemChance())

    with pytest.raises(DataLoss):
        cache.get(key(1), sha256(1), SIZE + 1)


def test_what_the_store_does_not_have_is_not_found(remote: Remote, directory: Path) -> None:
    with pytest.raises(NotFound):
        Cache(remote, directory).get(99)


@pytest.mark.parametrize("digest", ["", "../../etc/passwd", "A" * 64, "0" * 63, "0" * 65, "0" * 64 + "\n"])
def test_a_digest_that_is_none_never_becomes_a_path(remote: Remote, directory: Path, digest: str) -> None:
    cache = BlockCache(remote, directory, SIZE, SIZE, ManualClock(), SystemChance())

    with pytest.raises(InvalidInput, match="is no sha256"):
        cache.get(key(1), digest, SIZE)


def test_memory_keeps_what_was_used_last(remote: Remote, directory: Path) -> None:
    cache = Cache(remote, directory, disk=0, memory=3)
    for number in (1, 2, 3, 1, 4):  # 2 was used least recently
        cache.get(number)
    remote.fetched.clear()

    for number in (3, 1, 4, 2):
        cache.get(number)

    assert remote.fetched == [key(2)]


def test_a_block_too_large_for_memory_and_disk_is_fetched_each_time(remote: Remote, directory: Path) -> None:
    cache = BlockCache(remote, directory, SIZE - 1, SIZE - 1, ManualClock(), SystemChance())

    for _ in range(2):
        assert cache.get(key(1), sha256(1), SIZE) == block(1)

    assert len(remote.fetched) == 2
    assert not directory.exists()


def test_disk_keeps_what_was_used_last_also_from_memory(remote: Remote, directory: Path) -> None:
    clock = ManualClock()
    cache = Cache(remote, directory, disk=3, clock=clock)
    for number in (1, 2, 3, 1, 4):  # the second 1 came from memory, and counts
        clock.advance(1)
        cache.get(number)
    assert on_disk(directory) == {3, 1, 4}

    clock.advance(1)
    Cache(remote, directory, disk=3, clock=clock).get(3)  # from disk
    clock.advance(1)
    cache.get(5)

    assert on_disk(directory) == {3, 4, 5}


def test_the_files_of_others_that_vanish_are_fetched_again(remote: Remote, directory: Path) -> None:
    cache = Cache(remote, directory, memory=0)
    cache.get(1)
    (directory / sha256(1)).unlink()

    assert cache.get(1) == block(1)

    assert len(remote.fetched) == 2


def test_foreign_files_are_left_alone(remote: Remote, directory: Path) -> None:
    directory.mkdir()
    for name in ("notes.txt", "0" * 63, "1-x"):
        (directory / name).write_bytes(bytes(10 * SIZE))
    cache = Cache(remote, directory, disk=2)

    for number in range(5):
        cache.get(number)

    assert len(on_disk(directory)) == 2
    assert {"notes.txt", "0" * 63, "1-x"} <= {path.name for path in directory.iterdir()}


def test_what_a_dead_process_was_writing_is_removed(remote: Remote, directory: Path) -> None:
    directory.mkdir()
    (directory / f"123-{'a' * 32}").write_bytes(bytes(2 * SIZE))
    cache = Cache(remote, directory, disk=2)

    cache.get(1)
    cache.get(2)

    assert on_disk(directory) == {1, 2}
    assert not (directory / f"123-{'a' * 32}").exists()


def test_what_a_living_process_is_writing_takes_room(remote: Remote, directory: Path) -> None:
    directory.mkdir()
    with (directory / f"123-{'a' * 32}").open("wb") as writing:
        fcntl.flock(writing, fcntl.LOCK_EX)
        writing.truncate(2 * SIZE)
        cache = Cache(remote, directory, disk=3, memory=0)
        assert [cache.get(number) for number in (1, 2)] == [block(1), block(2)]
        assert on_disk(directory) == {2}
        writing.truncate(3 * SIZE)
        assert cache.get(3) == block(3)
        assert on_disk(directory) == set()


def test_trouble_with_the_disk_never_fails_a_read(
    remote: Remote, directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"")
    assert Cache(remote, tmp_path / "file", memory=0).get(1) == block(1)

    def full(fd: int, data: memoryview) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    assert Cache(remote, directory, memory=0).get(1) == block(1)
    assert [path.name for path in directory.iterdir()] == [".lock"]


def test_many_who_ask_at_once_share_one_fetch(remote: Remote, directory: Path) -> None:
    cache = Cache(remote, directory, memory=0, disk=0)
    remote.open.clear()
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(cache.get, 1) for _ in range(8)]
        wait_until(lambda: waiting("get") == 8, "all eight wait")
        remote.open.set()
        found = [each.result(10) for each in asked]

    assert remote.fetched == [key(1)]
    assert all(data is found[0] for data in found)
    assert found[0] == block(1)


def waiting(function: str) -> int:
    """How many threads are in `function` and wait there for something."""
    found = 0
    for ident, frame in sys._current_frames().items():
        if ident != threading.get_ident() and frame.f_code.co_name == "wait":
            names = set()
            while frame.f_back is not None:
                frame = frame.f_back
                names.add((frame.f_code.co_name, Path(frame.f_code.co_filename).name))
            found += (function, "cache.py") in names
    return found


def test_many_who_ask_at_once_share_one_failure_and_may_ask_again(remote: Remote, directory: Path) -> None:
    cache = Cache(remote, directory)
    remote.open.clear()
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(cache.get, 99) for _ in range(4)]
        wait_until(lambda: waiting("get") == 4, "all four wait")
        remote.open.set()
        assert [type(each.exception(10)) for each in asked] == [NotFound] * 4
    assert remote.fetched == [key(99)]

    remote.put(key(99), block(99))
    assert cache.get(99) == block(99)


def test_who_shares_an_interrupted_fetch_is_told_to_retry(
    remote: Remote, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Cache(remote, directory)
    remote.open.clear()
    real = remote.get

    def interrupted(key: str) -> None:
        real(key)
        raise KeyboardInterrupt

    monkeypatch.setattr(remote, "get", interrupted)
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(cache.get, 1) for _ in range(2)]
        wait_until(lambda: waiting("get") == 2, "both wait")
        remote.open.set()
        kinds = {type(each.exception(10)) for each in asked}
    assert kinds == {KeyboardInterrupt, Unavailable}

    monkeypatch.undo()
    assert cache.get(1) == block(1)


def test_different_blocks_are_fetched_side_by_side(remote: Remote, directory: Path) -> None:
    cache = Cache(remote, directory)
    remote.open.clear()
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(cache.get, number) for number in range(4)]
        wait_until(lambda: len(remote.fetched) == 4, "four fetches are under way")
        remote.open.set()
        assert [each.result(10) for each in asked] == [block(number) for number in range(4)]


def held_bytes(directory: Path) -> int:
    """What all files of the cache hold, at an instant at which nobody makes room."""
    with (directory / ".lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        sizes = {}
        for path in directory.iterdir():
            try:
                sizes[path.stat().st_ino] = path.stat().st_size
            except FileNotFoundError:
                continue
        return sum(sizes.values())


def test_processes_share_a_directory_within_its_bound(tmp_path: Path, directory: Path) -> None:
    objects = LocalObjects(tmp_path / "store")
    for number in range(20):
        objects.put(key(number), block(number))
    Cache(objects, directory).get(0)
    most = 0
    with ProcessPoolExecutor(4, multiprocessing.get_context("forkserver")) as pool:
        readers = [
            pool.submit(read_many, tmp_path / "store", directory, seed, 20, 200, disk=5) for seed in range(4)
        ]
        while not all(reader.done() for reader in readers):
            most = max(most, held_bytes(directory))
        assert [reader.result(60) for reader in readers] == [0, 0, 0, 0]

    assert SIZE < most <= 5 * SIZE
    assert 0 < len(on_disk(directory)) <= 5
    assert not [path for path in directory.iterdir() if "-" in path.name]


def test_a_process_reads_what_another_has_fetched(tmp_path: Path, remote: Remote, directory: Path) -> None:
    objects = LocalObjects(tmp_path / "store")
    for number in range(3):
        objects.put(key(number), block(number))
    with ProcessPoolExecutor(1, multiprocessing.get_context("forkserver")) as pool:
        assert pool.submit(read_many, tmp_path / "store", directory, 1, 3, 50, disk=100).result(60) == 0

    cache = Cache(remote, directory)

    assert [cache.get(number) for number in range(3)] == [block(number) for number in range(3)]
    assert remote.fetched == []
