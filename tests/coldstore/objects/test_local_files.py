"""Writing past the page cache."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from coldstore.objects import local_files
from coldstore.objects.local import LocalObjects

STAGE = local_files._STAGE_BYTES
SIZES = [0, 1, 4096, STAGE - 1, STAGE, STAGE + 1, 2 * STAGE + 4096, 3 * STAGE + 77]


def noise(size: int) -> bytes:
    return (bytes(range(256)) * (size // 256 + 1))[:size]


def written(path: Path, data: bytes, piece: int = 1 << 20) -> bytes:
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        view = memoryview(data)
        local_files.write_past_cache(fd, [view[at : at + piece] for at in range(0, len(view), piece)])
        os.fsync(fd)
    finally:
        os.close(fd)
    return path.read_bytes()


@pytest.mark.parametrize("size", SIZES)
def test_what_was_written_is_there(tmp_path: Path, size: int) -> None:
    data = noise(size)
    assert written(tmp_path / "a", data) == data
    assert written(tmp_path / "b", data, piece=999_999) == data


def test_a_file_system_without_direct_writes_is_written_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_files, "_DIRECT", 0)
    data = noise(2 * STAGE + 5)
    assert written(tmp_path / "a", data) == data


def test_a_direct_write_that_is_refused_is_repeated_the_ordinary_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    refused: list[int] = []

    def fussy(fd: int, data: memoryview) -> int:
        if not refused:
            refused.append(len(data))
            raise OSError(errno.EINVAL, "not aligned to my liking")
        return write(fd, data)

    monkeypatch.setattr(os, "write", fussy)
    data = noise(2 * STAGE + 5)
    assert written(tmp_path / "a", data) == data
    assert refused == [STAGE]


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[: max(1, len(data) // 3)]))
    data = noise(STAGE + 5)
    assert written(tmp_path / "a", data) == data


def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int, data: memoryview) -> int:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="no space left"):
        written(tmp_path / "a", noise(STAGE + 5))


def test_an_object_in_pieces_is_the_object(tmp_path: Path) -> None:
    data = noise(STAGE + 12_345)
    view = memoryview(data)
    store = LocalObjects(tmp_path)
    store.put_if_absent("pieces", [view[:100], view[100:STAGE], view[STAGE:]])
    store.put_if_absent("whole", data)
    assert store.get("pieces").data == store.get("whole").data == data
