"""An editor that replaces or rewrites the file is noticed: nothing is lost, and nothing is handed out twice."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from coldstore.shared.clock import SystemClock
from coldstore.shared.errors import NotFound
from jjq.textqueue import MUTEX, TextItem, TextQueue, edits
from jjq.textqueue.file import TextFile
from tests.servers.waiting import wait_until

Edit = Callable[[Path, bytes], None]


def replace(path: Path, data: bytes) -> None:
    """As most editors do."""
    new = path.with_name("new")
    new.write_bytes(data)
    new.replace(path)


def rewrite(path: Path, data: bytes) -> None:
    """As some do: the file stays the same one."""
    path.write_bytes(data)


def rename_first(path: Path, data: bytes) -> None:
    """As vim does: the old file gets another name, and a new one is written."""
    path.rename(path.with_name("queue.tq~"))
    path.write_bytes(data)


class SlowClock(SystemClock):
    """A clock by which changes seem to have been made some seconds ago."""

    ago = 0.0

    def now_us(self) -> int:
        return super().now_us() - round(self.ago * 1_000_000)


EVERY_WAY = pytest.mark.parametrize("edit", [replace, rewrite, rename_first])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "queue.tq"


def take(queue: TextQueue) -> TextItem:
    item = queue.get_next()
    assert item is not None
    return item


def rest(queue: TextQueue) -> list[str]:
    return [item.value for item in iter(queue.get_next, None)]


@EVERY_WAY
def test_an_item_in_hand_is_marked_where_it_is_now(path: Path, edit: Edit) -> None:
    path.write_bytes(b"-a\n-b\n-c\n")
    with TextQueue(path, quiet_seconds=0) as queue:
        a, b = take(queue), take(queue)
        edit(path, b"# a long comment\n-new\n-c\n-b\n-a\n")
        b.mark_done()
        a.mark_error()
        assert path.read_bytes() == b"# a long comment\n-new\n-c\n=b\n!a\n"
        assert a.offset == 28
        assert rest(queue) == ["new", "c"]


@EVERY_WAY
def test_what_was_handed_out_does_not_come_again_and_what_was_inserted_comes(path: Path, edit: Edit) -> None:
    path.write_bytes(b"-a\n-tick\n-tick\n-tick\n-z\n")
    with TextQueue(path, quiet_seconds=0) as queue:
        assert [take(queue).value for _ in range(3)] == ["a", "tick", "tick"]
        edit(path, b"-first\n-a\n-tick\n-x\n-tick\n-tick\n-z\n")
        assert rest(queue) == ["first", "x", "tick", "z"]
        queue.append("tick")
        assert rest(queue) == ["tick"]


@EVERY_WAY
def test_one_edit_after_the_other(path: Path, edit: Edit) -> None:
    """What is left out after the first edit is left out after the second one, too."""
    path.write_bytes(b"-a\n-b\n-c\n")
    with TextQueue(path, quiet_seconds=0) as queue:
        assert [take(queue).value for _ in range(2)] == ["a", "b"]
        edit(path, b"-new\n-a\n-newer\n-c\n-b\n")
        assert take(queue).value == "new"
        edit(path, b"-a\n-b\n-newest\n-new\n-newer\n-c\n-b\n")
        assert sorted(rest(queue)) == ["b", "c", "newer", "newest"]


def test_a_file_that_is_rewritten_in_place_and_then_replaced(path: Path) -> None:
    """The file before is not the one that was read: the place in it says nothing."""
    path.write_bytes(b"-a\n more\n-b\n more\n-c\n")
    with TextQueue(path, quiet_seconds=0) as queue:
        assert take(queue).value == "a\nmore"
        rewrite(path, b"# shift\n-a\n more\n-b\n more\n-c\n")
        replace(path, b"# shift\n-a\n more\n-b\n more\n-c\n-d\n")
        assert rest(queue) == ["b\nmore", "c", "d"]


def test_an_edit_in_place_in_the_same_tick_of_the_clock_is_noticed(path: Path) -> None:
    path.write_bytes(b"-a\n-b\n-c\n")
    with TextQueue(path, quiet_seconds=0) as queue:
        assert take(queue).value == "a"
        times = path.stat()
        rewrite(path, b"-x\n-a\n-b\n-c\n")
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        assert rest(queue) == ["x", "b", "c"]


@EVERY_WAY
def test_a_person_may_queue_a_message_again_or_remove_one(path: Path, edit: Edit) -> None:
    path.write_bytes(b"=a\n-b\n-c\n")
    with TextQueue(path, quiet_seconds=0) as queue:
        b = take(queue)
        edit(path, b"-a\n-c\n")
        with pytest.raises(NotFound, match="someone has removed or changed it"):
            b.mark_done()
        assert rest(queue) == ["a", "c"]
        assert path.read_bytes() == b"-a\n-c\n"


@EVERY_WAY
def test_marks_and_appends_that_an_editor_did_not_see_are_made_again(path: Path, edit: Edit) -> None:
    path.write_bytes(b"-a\n-b\n")
    with TextQueue(path, quiet_seconds=0) as queue:
        take(queue).mark_done()
        queue.append("c", ["v "])
        edit(path, b"# edited\n-a\n-b\n")  # from a copy that was read before
        assert rest(queue) == ["b", "c"]
        assert path.read_bytes() == b"# edited\n=a\n-b\n-c\n\\v \n"
        edit(path, b"# again\n-a\n-b\n")  # … and that very editor once more
        queue.append("d")
        assert path.read_bytes() == b"# again\n=a\n-b\n-c\n\\v \n-d\n"


def test_what_an_editor_saw_long_ago_is_what_a_person_wants(path: Path) -> None:
    path.write_bytes(b"-a\n-b\n")
    clock = SlowClock()
    with TextQueue(path, quiet_seconds=0, clock=clock) as queue:
        clock.ago = 10.0
        take(queue).mark_done()
        queue.append("c")
        clock.ago = 0.0
        replace(path, b"-a\n-b\n")
        assert rest(queue) == ["a", "b"]
        assert path.read_bytes() == b"-a\n-b\n"


@pytest.mark.parametrize("edit", [replace, rename_first])
def test_a_writer_that_looks_late_appends_again_what_was_dropped_at_once(
    path: Path, edit: Edit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What counts is when the file was replaced, not when the new one was changed last."""
    path.write_bytes(b"-a\n")
    clock = SystemClock()
    with TextQueue(path, quiet_seconds=0) as writer, path.open("rb") as old:
        began = clock.now_us()
        writer.append("b")
        ended = clock.now_us()
        edit(path, b"-a\n")

        def others_changed_it_later() -> bool:
            os.utime(path)
            later = path.stat().st_ctime_ns - os.fstat(old.fileno()).st_ctime_ns
            return later > 1_000 * (ended - began) + 2_000_000

        wait_until(others_changed_it_later, "the time of the change moves on")
        # An editor may take so long that `b` was dropped by the first one, and not by the last one
        seconds = (os.fstat(old.fileno()).st_ctime_ns / 1_000 - began) / 1e6 + 0.001
        assert seconds < (path.stat().st_ctime_ns / 1_000 - ended) / 1e6
        monkeypatch.setattr(edits, "TEXT_EDIT_SECONDS", seconds)
        assert rest(writer) == ["a", "b"]


def test_an_append_in_the_moment_in_which_the_file_is_replaced(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_bytes(b"-a\n")
    look, looks = TextFile.refresh, [b"-a\n# once\n"]

    def refresh(file: TextFile) -> None:
        look(file)
        if looks:
            replace(path, looks.pop())

    with TextQueue(path, quiet_seconds=0) as writer:
        assert rest(writer) == ["a"]
        monkeypatch.setattr(TextFile, "refresh", refresh)
        writer.append("b")
        assert path.read_bytes() == b"-a\n# once\n-b\n"
        replace(path, b"-a\n# twice\n")  # from a copy that was read before
        writer.append("c")
        assert path.read_bytes() == b"-a\n# twice\n-b\n-c\n"


@EVERY_WAY
@pytest.mark.parametrize("noticed", [False, True])
def test_a_message_that_is_missing_when_it_is_to_be_marked_is_marked_when_it_is_back(
    path: Path, edit: Edit, noticed: bool
) -> None:
    path.write_bytes(b"-a\n")
    with TextQueue(path, quiet_seconds=0) as writer, TextQueue(path, quiet_seconds=0) as reader:
        writer.append("b")
        a, b = take(reader), take(reader)
        edit(path, b"# edited\n-a\n")  # from a copy that was read before
        with pytest.raises(NotFound, match="someone has removed or changed it"):
            b.mark_done()
        a.mark_error()
        if noticed:
            assert rest(reader) == []
        assert rest(writer) == ["b"]  # it looks, and appends again what is missing
        assert rest(reader) == []
        assert path.read_bytes() == b"# edited\n!a\n=b\n"
        writer.append("b")
        assert rest(reader) == ["b"]


def test_a_message_that_comes_back_much_later_is_a_new_one(path: Path) -> None:
    path.write_bytes(b"-a\n-b\n")
    clock = SlowClock()
    with TextQueue(path, quiet_seconds=0, clock=clock) as queue:
        a = take(queue)
        replace(path, b"-b\n")
        clock.ago = 60.0
        with pytest.raises(NotFound):
            a.mark_done()
        clock.ago = 0.0
        assert rest(queue) == ["b"]
        queue.append("a")
        assert rest(queue) == ["a"]


@EVERY_WAY
def test_a_claim_stays_with_its_message(path: Path, edit: Edit) -> None:
    with TextQueue(path, quiet_seconds=0) as queue:
        queue.append("a", [MUTEX])
        queue.append("a", [MUTEX])
        item = take(queue)
        assert item.claim("anna")
        edit(path, b"# moved\n" + path.read_bytes())
        item.set_variable(0, "mutex=berta")
        item.release("berta")
        assert path.read_bytes() == b"# moved\n" + (b"-a\n\\" + MUTEX.encode() + b"\n") * 2
        assert item.claim("anna")
        item.mark_done()
        assert path.read_bytes().startswith(b"# moved\n=a\n\\mutex=anna ")


@EVERY_WAY
def test_an_iteration_goes_on_in_the_new_file(path: Path, edit: Edit) -> None:
    many = b"".join(b"-%d\n" % n for n in range(100_000))
    path.write_bytes(many)
    with TextQueue(path, quiet_seconds=0) as queue:
        seen = []
        for item in queue:
            seen.append(item.value)
            if item.value == "99000":
                edit(path, b"# shifted by this comment\n" + many + b"-last\n")
        if edit is rewrite:  # only the block before is remembered then, and nothing was marked
            assert set(seen) == {str(n) for n in range(100_000)} | {"last"}
        else:
            assert seen == [str(n) for n in range(100_000)] + ["last"]
