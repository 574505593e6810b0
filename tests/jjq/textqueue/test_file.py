"""One file: what the verbs change, which is never a byte more than they say, and what is refused."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coldstore.shared.clock import ManualClock, SystemClock
from coldstore.shared.errors import Conflict, Denied, InvalidInput, NotFound
from jjq.textqueue import MalformedText, TextItem, TextQueue, TextStatus
from tests.architecture.tree import ROOT
from tests.servers.jjq_server import clean_environment

VALUES = st.lists(st.text(st.characters(codec="utf-8") | st.sampled_from("\n\r"), max_size=20), max_size=5)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "queue.tq"


def rest(queue: TextQueue) -> list[str]:
    """What `get_next` still has."""
    found = []
    while (item := queue.get_next()) is not None:
        found.append(item.value)
    return found


def first(queue: TextQueue) -> TextItem:
    return next(iter(queue))


def test_a_queue_is_appended_to_read_and_marked(path: Path) -> None:
    with TextQueue(path) as queue:
        queue.append("one")
        queue.append("two\nlines", ["retries=0  "])
        queue.append("three")
        assert path.read_bytes() == b"-one\n-two\n lines\n\\retries=0  \n-three\n"
        one, two, three = queue
        assert [(i.value, i.status, i.offset) for i in (one, two)] == [
            ("one", "queued", 0),
            ("two\nlines", "queued", 5),
        ]
        one.mark_done()
        three.mark_error()
        two.set_variable(0, "retries=1")
        assert path.read_bytes() == b"=one\n-two\n lines\n\\retries=1  \n!three\n"
        assert (one.status, two.variables, three.status) == ("done", ("retries=1  ",), "critical")
        assert rest(queue) == ["two\nlines"]
        assert queue.get_next() is None
        queue.append("four")
        assert rest(queue) == ["four"]
        everything = queue.items(done=True, critical=True, comments=True)
        assert [item.status.value for item in everything] == ["done", "queued", "critical", "queued"]


def test_the_names_of_the_reference_work(path: Path) -> None:
    path.write_bytes(b"# note\n-a\n\\v  \n=b\n!c\n-d\n")
    queue = TextQueue(quiet_seconds=0)
    queue.add_input(str(path))
    item = queue.get_next()
    assert item is not None
    assert (item.value, item.control_offset, item.get_variables()) == ("a", 7, ["v  "])
    item.mark_as_cleared()
    other = queue.get_next_in_file(0, True, True, True)
    assert other is not None
    assert (other.value, other.status) == ("b", TextStatus.DONE)
    critical = queue.get_next_in_file(0, include_critical_items=True)
    assert critical is not None
    assert critical.status is TextStatus.CRITICAL
    last = queue.get_next()
    assert last is not None
    last.mark_as_critical_error()
    assert last.status is TextStatus.CRITICAL  # the reference says "cleared" here, which is a fault of it
    assert path.read_bytes() == b"# note\n=a\n\\v  \n=b\n!c\n!d\n"
    queue.close()


def test_several_files_are_one_input_in_order(tmp_path: Path) -> None:
    one, two = tmp_path / "1.tq", tmp_path / "2.tq"
    one.write_bytes(b"-a\n=b\n")
    two.write_bytes(b"-c\n")
    with TextQueue(one, two, quiet_seconds=0) as queue:
        assert [(item.value, item.path) for item in queue] == [("a", str(one)), ("c", str(two))]
        queue.append("d")
        assert two.read_bytes() == b"-c\n-d\n"
        assert rest(queue) == ["a", "c", "d"]
        one.write_bytes(b"-a\n=b\n-late\n")
        assert rest(queue) == ["late"]
        assert queue.paths == [str(one), str(two)]


@given(VALUES, VALUES)
def test_what_is_appended_is_read_and_nothing_before_it_moves(
    tmp_path_factory: pytest.TempPathFactory, before: list[str], values: list[str]
) -> None:
    path = tmp_path_factory.getbasetemp() / "appended.tq"
    old = "".join(f"# {text}\n" for text in before if "\n" not in text).encode()
    path.write_bytes(old)
    with TextQueue(path, quiet_seconds=0) as queue:
        offsets = [queue.append(value).offset for value in values]
        assert [(item.value, item.offset) for item in queue] == list(zip(values, offsets, strict=True))
    assert path.read_bytes().startswith(old)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"-a", b"-a\n-b\n c\n"),
        (b"-a\r\n", b"-a\r\n-b\r\n c\r\n"),
        (b"-a\r\n-x", b"-a\r\n-x\r\n-b\r\n c\r\n"),
        (b"", b"-b\n c\n"),
        (b"# end\n\n", b"# end\n\n-b\n c\n"),
    ],
)
def test_an_append_has_the_line_ends_of_the_file(path: Path, before: bytes, after: bytes) -> None:
    path.write_bytes(before)
    with TextQueue(path) as queue:
        queue.append("b\nc")
    assert path.read_bytes() == after


def test_marks_and_variables_keep_every_other_byte(path: Path) -> None:
    data = "-a\r\n\\é = ü   \r\n\r\n# x\r\n\\note    \r\n-last".encode()
    path.write_bytes(data)
    with TextQueue(path, quiet_seconds=0) as queue:
        item, comment, last = queue.items(comments=True)
        item.set_variable(0, "ab")
        item.mark_done()
        comment.set_variable(0, "read")
        last.mark_error()
    expected = data.replace("é = ü   ".encode(), b"ab" + 8 * b" ").replace(b"note    ", b"read    ")
    assert path.read_bytes() == b"=" + expected[1:].replace(b"-last", b"!last")


def test_a_variable_is_counted_in_bytes(path: Path) -> None:
    with TextQueue(path) as queue:
        item = queue.append("a", ["éé"])
        before = path.read_bytes()
        with pytest.raises(
            MalformedText, match=r"too long.* line 2 .*has 4 bytes, and 5 were given"
        ) as caught:
            item.set_variable(0, "abcde")
        assert (caught.value.path, caught.value.line, caught.value.offset) == (str(path), 2, 4)
        for index in (1, -1):
            with pytest.raises(InvalidInput, match="has 1 variables and none with number"):
                item.set_variable(index, "a")
        with pytest.raises(MalformedText, match="one line"):
            item.set_variable(0, "a\nb")
        assert path.read_bytes() == before
        item.set_variable(0, "ab")
        assert path.read_bytes() == b"-a\n\\ab  \n"
        assert first(queue).variables == ("ab  ",)


def test_marks_never_go_back(path: Path) -> None:
    with TextQueue(path) as queue:
        item = queue.append("a")
        again = first(queue)
        item.mark_done()
        item.mark_done()
        again.mark_done()
        with pytest.raises(Conflict, match="is done already"):
            again.mark_error()
        path.write_bytes(b"# c\n")
        comment = next(queue.items(comments=True))
        with pytest.raises(InvalidInput, match="only messages"):
            comment.mark_done()


def test_a_message_that_another_process_marked_is_not_handed_out(path: Path) -> None:
    path.write_bytes(b"-a\n-b\n-c\n")
    with TextQueue(path, quiet_seconds=0) as queue, TextQueue(path, quiet_seconds=0) as other:
        assert queue.get_next() is not None
        list(other)[1].mark_done()
        assert rest(queue) == ["c"]


def test_what_is_no_file_is_told(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, kind, said in [
        ("none.tq", NotFound, "no file"),
        (".", InvalidInput, "is a directory"),
        ("pipe", InvalidInput, "not a regular file"),
        ("none/x.tq", NotFound, "no file"),
    ]:
        with TextQueue(tmp_path / name) as queue:
            with pytest.raises(kind, match=said):
                queue.get_next()
            with pytest.raises(kind, match=said):
                queue.add_input(tmp_path / name)
    with TextQueue(tmp_path) as queue, pytest.raises(InvalidInput, match="is a directory"):
        queue.append("a")
    with TextQueue() as queue:
        with pytest.raises(InvalidInput, match="has no file"):
            queue.append("a")
        with pytest.raises(InvalidInput, match="no file number 0"):
            queue.get_next_in_file(0)
        assert queue.get_next() is None
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["pipe"]


def test_a_file_that_vanished_is_told_and_an_append_makes_a_new_one(path: Path) -> None:
    path.write_bytes(b"-a\n-b\n")
    with TextQueue(path, quiet_seconds=0, clock=ManualClock()) as queue:
        item = queue.get_next()
        assert item is not None
        path.unlink()
        with pytest.raises(NotFound, match="no file"):
            queue.get_next()
        with pytest.raises(NotFound, match="no file"):
            item.mark_done()
        queue.append("c")
        assert path.read_bytes() == b"-c\n"


class Rights:
    """Refuses to open files, as the system does to users without rights (tests may run as root)."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.refused: dict[str, int] = {}  # name, and for which of the flags
        self._open = os.open
        monkeypatch.setattr(os, "open", self.open)

    def open(self, path: str, flags: int, mode: int = 0o777) -> int:
        refused = self.refused.get(Path(path).name)
        if refused is not None and (not refused or flags & refused):
            raise PermissionError(errno.EACCES, "Permission denied")
        return self._open(path, flags, mode)


def test_a_file_without_rights_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(b"-a\n")
    rights = Rights(monkeypatch)
    rights.refused = {path.name: os.O_RDWR | os.O_WRONLY}
    with TextQueue(path, quiet_seconds=0) as queue:
        item = first(queue)
        with pytest.raises(Denied, match="may not be written"):
            item.mark_done()
        with pytest.raises(Denied, match="cannot be written: Permission denied"):
            queue.append("b")
        rights.refused = {f"{path.name}.lock": 0}
        queue.close()
        assert rest(queue) == ["a"]
        with pytest.raises(Denied, match="which writers lock"):
            queue.append("b")
    rights.refused = {path.name: 0}
    with TextQueue(path) as queue, pytest.raises(Denied, match="give this user the right"):
        queue.get_next()
    assert path.read_bytes() == b"-a\n"


def test_threads_share_a_queue(path: Path) -> None:
    with TextQueue(path) as queue, ThreadPoolExecutor(4) as threads:
        made = list(threads.map(lambda n: queue.append(f"{n}\nline"), range(200)))
        list(threads.map(TextItem.mark_done, made[:100]))
        assert sorted(item.value for item in queue) == sorted(item.value for item in made[100:])
        assert sorted(item.offset for item in made) == [i.offset for i in queue.items(done=True)]


def test_two_names_of_a_file_share_one_lock(tmp_path: Path, path: Path) -> None:
    link = tmp_path / "link.tq"
    link.symlink_to(path)
    with TextQueue(link) as queue:
        queue.append("a")
    assert link.is_symlink()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["link.tq", "queue.tq", "queue.tq.lock"]


def test_without_locking_there_is_no_sidecar(path: Path) -> None:
    with TextQueue(path, locking=False, quiet_seconds=0) as queue:
        queue.append("a", ["v "]).set_variable(0, "w")
        first(queue).mark_done()
    assert path.read_bytes() == b"=a\n\\w \n"
    assert [entry.name for entry in path.parent.iterdir()] == ["queue.tq"]


def test_an_unfinished_last_item_is_left_alone_until_its_writer_is_quiet(path: Path) -> None:
    """A writer without a lock: the item is handed out when it is whole, and not twice."""
    path.write_bytes(b"-a\n-b")
    writes = iter([b"c\n", b" more\n"])

    class Clock(SystemClock):
        def sleep(self, seconds: float) -> None:
            with path.open("ab") as file:
                file.write(next(writes, b""))

    with TextQueue(path, quiet_seconds=3600, clock=Clock()) as queue:
        assert rest(queue) == ["a", "bc\nmore"]


def test_what_is_added_to_an_item_after_it_was_read_is_told(path: Path) -> None:
    told: list[str] = []
    path.write_bytes(b"-a")
    with TextQueue(path, quiet_seconds=0, report=told.append) as queue:
        assert rest(queue) == ["a"]
        with path.open("ab") as file:
            file.write(b"bc\n more\n\\v\n-next\n")
        assert rest(queue) == ["next"]
    assert len(told) == 1
    assert "continued after it had been read" in told[0]


def test_a_growing_file_is_followed(path: Path) -> None:
    path.write_bytes(b"-0\n")
    values = iter(["1", "2\nlines", "3"])
    with TextQueue(path, quiet_seconds=0) as queue, TextQueue(path) as writer:

        def grow() -> bool:
            value = next(values, None)
            if value is not None:
                writer.append(value)
            return value is None

        assert [item.value for item in queue.follow(until=grow)] == ["0", "1", "2\nlines", "3"]


def test_an_item_longer_than_a_block_is_read_whole(path: Path) -> None:
    long = "x" * 3_000_000 + "\n" + "y\n" * 1000
    with TextQueue(path) as queue:
        queue.append("before")
        queue.append(long, ["v"])
        queue.append("after")
        assert [item.value for item in queue] == ["before", long, "after"]
        assert rest(queue) == ["before", long, "after"]


def test_a_file_of_many_blocks_is_read_and_marked(path: Path) -> None:
    path.write_bytes(b"".join(b"-%d\n" % n if n % 7 else b"=%d\n more\n\\v\n" % n for n in range(200_000)))
    queued = [str(n) for n in range(200_000) if n % 7]
    with TextQueue(path, quiet_seconds=0) as queue:
        items = list(queue)
        assert [item.value for item in items] == queued
        items[-1].mark_done()
        assert path.read_bytes()[items[-1].offset :] == b"=199999\n"
        assert queue.find(items[5].offset).value == queued[5]
        with pytest.raises(InvalidInput, match="no item begins at byte 1 "):
            queue.find(1)


def test_a_full_disk_leaves_the_file_as_it_was(path: Path) -> None:
    program = f"""
import resource, signal
from jjq.textqueue import TextQueue
from coldstore.shared.errors import Exhausted
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with TextQueue({str(path)!r}) as queue:
    queue.append("a")
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    for size in (990, 2000):
        try:
            queue.append("x" * size)
        except Exhausted:
            pass
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT, env=clean_environment())
    kept = path.read_bytes()
    assert kept in (b"-a\n", b"-a\n-" + 990 * b"x" + b"\n")
    with TextQueue(path) as queue:
        assert [len(item.value) for item in queue][:1] == [1]


def test_importing_it_loads_nothing_large() -> None:
    """So it is quick: `python -m bench textqueue` wants 30 ms."""
    run = [sys.executable, "-c", "import sys, jjq.textqueue\nprint(*sys.modules)"]
    done = subprocess.run(run, check=True, cwd=ROOT, env=clean_environment(), capture_output=True, text=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert loaded.isdisjoint(("pyarrow", "grpc", "google", "duckdb", "numpy", "pandas", "pydantic", "boto3"))
    assert loaded.isdisjoint(
        ("asyncio", "dataclasses", "inspect", "json", "logging", "pathlib", "subprocess")
    )
    assert loaded.isdisjoint(("sharding", "hotstore"))
