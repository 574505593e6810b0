"""Local files when the disk is slow, full, forbidden or broken, and in which order things get durable."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coldstore.objects.local import LocalObjects
from coldstore.shared.errors import Conflict, Denied, Exhausted, JjqError, NotFound, Unavailable
from tests.coldstore.objects import races

KINDS = [
    (errno.ENOSPC, Exhausted),
    (errno.EDQUOT, Exhausted),
    (errno.EACCES, Denied),
    (errno.EPERM, Denied),
    (errno.EROFS, Denied),
    (errno.EIO, Unavailable),
    (errno.EMFILE, Unavailable),
]


@pytest.fixture
def objects(tmp_path: Path) -> LocalObjects:
    return LocalObjects(tmp_path / "store")


def path_of(fd: int) -> str:
    """Where an open file is, from the store's root on."""
    return str(Path(f"/proc/self/fd/{fd}").readlink()).rpartition("/store")[2] or "/"


class Recorder:
    """What is synced and named, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.events: list[str] = []
        for name in ("fsync", "link", "replace"):
            monkeypatch.setattr(os, name, self._recording(name, getattr(os, name)))

    def _recording(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            if name == "fsync":
                path = path_of(args[0])
                self.events.append("sync file" if path.startswith("/.tmp/") else f"sync {path}")
            else:
                self.events.append("name")
            return real(*args, **more)

        return call


def fail(
    monkeypatch: pytest.MonkeyPatch, call: str, number: int, when: Callable[..., bool] | None = None
) -> None:
    """Let a call of the operating system fail, always or when its arguments say so."""
    real = getattr(os, call)

    def failing(*args: Any, **more: Any) -> Any:
        if when is None or when(*args):
            raise OSError(number, os.strerror(number))
        return real(*args, **more)

    monkeypatch.setattr(os, call, failing)


def test_a_first_object_is_durable_with_every_folder_above_it(
    objects: LocalObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(monkeypatch)

    objects.put_if_absent("queues/orders/data/1", b"1")

    synced_parent, *events = recorder.events
    assert synced_parent.startswith("sync /")  # the folder that holds the root, outside of it
    assert events == [
        "sync file",
        "sync /",
        "sync /queues",
        "sync /queues/orders",
        "name",
        "sync /queues/orders/data",
    ]


@pytest.mark.parametrize("verb", ["put", "put_if_absent", "put_if_match"])
def test_a_later_object_costs_two_syncs_around_its_naming(
    objects: LocalObjects, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    etag = objects.put("data/1", b"1")
    recorder = Recorder(monkeypatch)

    if verb == "put_if_match":
        objects.put_if_match("data/1", b"2", etag)
    else:
        getattr(objects, verb)("data/2", b"2")

    assert recorder.events == ["sync file", "name", "sync /data"]


def test_folders_made_by_a_process_that_died_are_synced_by_the_next(
    objects: LocalObjects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "store" / "queues" / "orders").mkdir(parents=True)
    recorder = Recorder(monkeypatch)

    objects.put("queues/orders/queue.json", b"{}")

    assert {"sync /", "sync /queues"} <= set(recorder.events)


def test_a_folder_that_was_removed_is_made_durable_anew(
    objects: LocalObjects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects.put("folder/key", b"1")
    shutil.rmtree(tmp_path / "store" / "folder")
    recorder = Recorder(monkeypatch)

    objects.put("folder/key", b"2")

    assert recorder.events == ["sync file", "sync /", "name", "sync /folder"]


def test_who_is_told_of_a_conflict_may_rely_on_the_object(
    objects: LocalObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects.put("data/1", b"1")
    recorder = Recorder(monkeypatch)

    with pytest.raises(Conflict):
        objects.put_if_absent("data/1", b"2")

    assert recorder.events == ["sync /data"]


@pytest.mark.parametrize(
    ("call", "number", "kind"),
    [
        (call, number, kind)
        for call in ("write", "fsync", "link", "mkdir")
        for number, kind in KINDS
        if (call, number) != ("link", errno.EPERM)  # says that there are no links: another way is taken
    ],
)
def test_an_error_before_the_object_is_named_leaves_nothing(
    objects: LocalObjects,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    number: int,
    kind: type[JjqError],
) -> None:
    objects.put("other", b"1")
    fail(monkeypatch, call, number)

    with pytest.raises(kind, match="cannot write folder/key: ") as raised:
        objects.put_if_absent("folder/key", b"2")

    monkeypatch.undo()
    assert "\n" not in str(raised.value)
    assert [info.key for info in objects.list("")] == ["other"]
    assert list((tmp_path / "store" / ".tmp").iterdir()) == []
    objects.put_if_absent("folder/key", b"2")


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EACCES])
@pytest.mark.parametrize("verb", ["put", "put_if_absent"])
def test_an_error_after_the_object_is_named_leaves_the_outcome_unknown(
    objects: LocalObjects, monkeypatch: pytest.MonkeyPatch, verb: str, number: int
) -> None:
    objects.put("data/1", b"1")
    fail(monkeypatch, "fsync", number, lambda fd: path_of(fd) == "/data")

    with pytest.raises(Unavailable, match="perhaps not durable"):
        getattr(objects, verb)("data/2", b"2")

    monkeypatch.undo()
    assert objects.get("data/2").data == b"2"


@pytest.mark.parametrize(("number", "kind"), KINDS)
def test_an_error_while_reading_is_told(
    objects: LocalObjects, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[JjqError]
) -> None:
    objects.put("key", b"1")
    fail(monkeypatch, "pread", number)

    with pytest.raises(kind, match="cannot read key: "):
        objects.get("key")


def test_an_unreadable_folder_is_not_taken_for_an_empty_one(
    objects: LocalObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects.put("folder/key", b"1")
    fail(monkeypatch, "scandir", errno.EACCES)

    with pytest.raises(Denied, match="cannot list folder/"):
        list(objects.list("folder/"))


def test_short_reads_and_writes_are_completed(objects: LocalObjects, monkeypatch: pytest.MonkeyPatch) -> None:
    write, pread = os.write, os.pread
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:3]))
    monkeypatch.setattr(os, "pread", lambda fd, count, at: pread(fd, min(count, 8), at))

    objects.put("key", b"0123456789" * 10)

    assert objects.get("key").data == b"0123456789" * 10
    assert objects.get("key", 7, 95).data == (b"0123456789" * 10)[7:95]


def test_a_file_that_shrinks_while_it_is_read_is_no_short_object(
    objects: LocalObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects.put("key", b"0123456789")
    pread = os.pread
    monkeypatch.setattr(
        os, "pread", lambda fd, count, at: pread(fd, min(count, 4 - at), at) if at < 4 else b""
    )

    with pytest.raises(Unavailable, match="ends 6 bytes early"):
        objects.get("key")


def test_without_links_the_lock_decides_who_is_first(
    objects: LocalObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(monkeypatch, "link", errno.EPERM)

    winners = races.race_threads(objects, races.absent)

    assert winners == [objects.get("race").data]
    with pytest.raises(Conflict):
        objects.put_if_absent("race", b"late")


def test_a_store_whose_root_vanishes_says_so(objects: LocalObjects, tmp_path: Path) -> None:
    objects.put("key", b"1")
    (tmp_path / "store").rename(tmp_path / "moved")

    with pytest.raises(NotFound):
        objects.get("key")
    assert list(objects.list("")) == []
