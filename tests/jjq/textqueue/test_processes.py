"""Several processes on one file: what was acknowledged is there and handled once, also after kill -9."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from coldstore.shared.clock import SystemClock
from jjq.textqueue import TextQueue
from jjq.textqueue.sidecar import Intent, Sidecar, decode_intent
from tests.architecture.tree import ROOT
from tests.jjq.textqueue.actors import logged, start
from tests.servers.jjq_server import clean_environment
from tests.servers.waiting import wait_until


def no_message_is_queued(path: Path) -> bool:
    """A look under the lock, since an editor may be about to rewrite the file."""
    sidecar = Sidecar(str(path))
    try:
        with sidecar.hold():
            return b"\n-" not in b"\n" + path.read_bytes()
    finally:
        sidecar.close()


def run_killed(path: Path, point: str, verb: str) -> None:
    """A process that kills itself at a fail point, in the middle of a verb."""
    program = f"""
from coldstore.shared import failpoint
from jjq.textqueue import TextQueue
queue = TextQueue({str(path)!r})
item = queue.append("first", ["variable      "])
failpoint.arm({point!r}, 1, "kill")
{verb}
"""
    done = subprocess.run([sys.executable, "-c", program], check=False, cwd=ROOT, env=clean_environment())
    assert done.returncode == -signal.SIGKILL


FIRST = b"-first\n\\variable      \n"
SECOND = "-second\n ☃ lines\n".encode()


@pytest.mark.parametrize("cut", [0, 1, 5, 10, len(SECOND) - 1, len(SECOND)])
def test_a_writer_that_is_killed_in_the_middle_of_an_append(tmp_path: Path, cut: int) -> None:
    # Given a writer that died when the kernel had written `cut` bytes
    path = tmp_path / "queue.tq"
    run_killed(path, "text.intended", 'queue.append("second\\n☃ lines")')
    with path.open("ab") as file:
        file.write(SECOND[:cut])
    # Then a reader sees the item whole or not at all
    with TextQueue(path, quiet_seconds=0) as queue:
        whole = cut == len(SECOND)
        assert [item.value for item in queue] == ["first", "second\n☃ lines"][: 2 if whole else 1]
        # and the next append stands on a line of its own
        queue.append("third")
    assert path.read_bytes() == FIRST + (SECOND if whole else b"") + b"-third\n"


def test_a_writer_that_is_killed_before_it_settles(tmp_path: Path) -> None:
    path = tmp_path / "queue.tq"
    run_killed(path, "text.written", 'queue.append("second\\n☃ lines")')
    assert path.read_bytes() == FIRST + SECOND
    with TextQueue(path, quiet_seconds=3600) as queue:
        assert [item.value for item in queue] == ["first", "second\n☃ lines"]


def test_text_that_somebody_else_wrote_after_a_killed_writer_stays(tmp_path: Path) -> None:
    path = tmp_path / "queue.tq"
    run_killed(path, "text.intended", 'queue.append("second\\n☃ lines")')
    with path.open("ab") as file:
        file.write(b"-hand\n")
    with TextQueue(path, quiet_seconds=0) as queue:
        queue.append("third")
    assert path.read_bytes() == FIRST + b"-hand\n-third\n"


@pytest.mark.parametrize("cut", [0, 2, 14])
def test_a_process_that_is_killed_in_the_middle_of_a_variable(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "queue.tq"
    run_killed(path, "text.variable", 'item.set_variable(0, "changed")')
    torn = bytearray(FIRST)
    torn[8 : 8 + cut] = b"changed       "[:cut]
    path.write_bytes(torn)
    with TextQueue(path, quiet_seconds=0) as queue:
        queue.append("second")
    assert path.read_bytes() == b"-first\n\\changed       \n-second\n"


def test_an_intent_that_is_torn_is_none() -> None:
    record = Intent("append", 1, 2, 3, 4, b"data\nmore").encode()
    assert decode_intent(record) == Intent("append", 1, 2, 3, 4, b"data\nmore")
    assert decode_intent(record + b"older bytes") == Intent("append", 1, 2, 3, 4, b"data\nmore")
    for cut in range(len(record)):
        assert decode_intent(record[:cut]) is None
    for at in range(len(record)):
        changed = bytearray(record)
        changed[at] ^= 1
        assert decode_intent(bytes(changed)) is None


def test_large_appends_that_are_really_killed(tmp_path: Path) -> None:
    path = tmp_path / "queue.tq"
    program = f"""
from jjq.textqueue import TextQueue
queue = TextQueue({str(path)!r})
print("ready", flush=True)
while True:
    queue.append("x" * 30_000_000)
    print("one", flush=True)
"""
    clock = SystemClock()
    for attempt in range(4):
        writer = subprocess.Popen(
            [sys.executable, "-c", program], cwd=ROOT, env=clean_environment(), stdout=subprocess.PIPE
        )
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
        clock.sleep(0.004 * (attempt + 1))  # somewhere in the middle
        writer.kill()
        acknowledged = writer.stdout.read().count(b"one")
        writer.wait()
        writer.stdout.close()
        with TextQueue(path) as queue:
            queue.append("after")
            lengths = [len(item.value) for item in queue]
        assert set(lengths) <= {30_000_000, 5}
        assert acknowledged <= lengths.count(30_000_000) <= acknowledged + 1
        path.unlink()


def test_several_writers_and_several_workers(tmp_path: Path) -> None:
    path = tmp_path / "queue.tq"
    path.touch()
    with ExitStack() as stack:
        writers = [start("write", path, tmp_path / f"w{n}", f"w{n}", "150") for n in range(3)]
        workers = [start("work", path, tmp_path / f"r{n}") for n in range(3)]
        for process in (*writers, *workers):
            stack.callback(process.wait)
            stack.callback(process.kill)
        assert [writer.wait(60) for writer in writers] == [0, 0, 0]
        wait_until(lambda: no_message_is_queued(path), "all messages are handled", 60)
        for worker in workers:
            worker.send_signal(signal.SIGTERM)
        assert [worker.wait(60) for worker in workers] == [0, 0, 0]
    written = Counter(line for n in range(3) for line in logged(tmp_path / f"w{n}"))
    handled = Counter(line for n in range(3) for line in logged(tmp_path / f"r{n}"))
    assert handled == written
    assert len(written) == 450
    with TextQueue(path, strict=True) as queue:
        assert len(list(queue.items(queued=False, done=True))) == 450


def test_one_reader_beside_one_writer_that_has_no_lock(tmp_path: Path) -> None:
    """The writer is a shell that writes each message in three parts."""
    path = tmp_path / "queue.tq"
    path.touch()
    script = 'for i in $(seq 150); do printf -- "-$i" >> q; printf "a\\n" >> q; printf " b\\n\\\\\\\\v\\n" >> q; done'
    with ExitStack() as stack:
        reader = start("read", path, tmp_path / "log")
        stack.callback(reader.wait)
        stack.callback(reader.kill)
        subprocess.run(["bash", "-c", script.replace(" q;", f" {path};")], check=True)
        wait_until(lambda: len(logged(tmp_path / "log")) == 150, "all are read", 60)
        reader.send_signal(signal.SIGTERM)
        assert reader.wait(60) == 0
    assert logged(tmp_path / "log") == [f"{n}a" for n in range(1, 151)]
    assert path.read_bytes() == b"".join(b"=%da\n b\n\\v\n" % n for n in range(1, 151))


def test_an_editor_without_the_lock_beside_a_living_writer_and_reader(tmp_path: Path) -> None:
    """It replaces the file some fifty times a second, each time without what was changed since it read the file."""
    path = tmp_path / "queue.tq"
    path.touch()
    with ExitStack() as stack:

        def begin(role: str, *more: str) -> subprocess.Popen[bytes]:
            process = start(role, path, tmp_path / role, *more)
            stack.callback(process.wait)
            stack.callback(process.kill)
            return process

        editor, reader, writer = begin("replace"), begin("read"), begin("write", "w", "100000", "0.005")
        wait_until(lambda: len(logged(tmp_path / "write")) > 100, "messages are written", 60)
        wait_until(lambda: len(logged(tmp_path / "replace")) > 50, "the file is replaced", 60)
        wait_until(lambda: len(logged(tmp_path / "read")) > 50, "messages are read", 60)
        for process in (editor, writer):  # the writer lives for longer, and looks once more in the end
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        wait_until(lambda: no_message_is_queued(path), "all messages are handled", 60)
        reader.send_signal(signal.SIGTERM)
        assert reader.wait(60) == 0
    written = logged(tmp_path / "write")
    assert Counter(logged(tmp_path / "read")) == Counter(written)
    with TextQueue(path, strict=True) as queue:
        done = [item.value.partition("\n")[0] for item in queue.items(done=True)]
    assert Counter(done) == Counter(written)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_model_with_writers_workers_editors_and_kills(tmp_path: Path, seed: int) -> None:
    """Whatever is killed, what was acknowledged is handled, and twice only if a worker died between both steps."""
    path = tmp_path / "queue.tq"
    path.touch()
    kills = 0
    with ExitStack() as stack:

        def begin(role: str, log: str, *more: str) -> subprocess.Popen[bytes]:
            process = start(role, path, tmp_path / log, *more)
            stack.callback(process.wait)
            stack.callback(process.kill)
            return process

        editor = begin("edit", "edits", str(seed))
        workers = [begin("work", f"r{n}") for n in range(2)]
        writers = []
        for round_ in range(3):
            name = f"w{round_}"
            writers = [begin("write", f"{name}{side}", f"{name}{side}", "10000") for side in "ab"]
            logs = [tmp_path / f"{name}{side}" for side in "ab"]
            wait_until(lambda logs=logs: all(len(logged(log)) > 20 for log in logs), "writers write", 60)  # type: ignore[misc]
            writers[0].kill()
            workers[0].kill()
            kills += 1
            workers[0] = begin("work", f"again{round_}")
            writers[1].send_signal(signal.SIGTERM)
            assert writers[1].wait(60) == 0
        wait_until(lambda: no_message_is_queued(path), "all messages are handled", 60)
        assert logged(tmp_path / "edits")
        for process in (editor, *workers):
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
    check_model(tmp_path, path, kills)


def check_model(folder: Path, path: Path, kills: int) -> None:
    written = Counter(line for log in folder.glob("w*[ab]") for line in logged(log))
    handled = Counter(line for log in (*folder.glob("r?"), *folder.glob("again*")) for line in logged(log))
    assert set(written.values()) == {1}
    assert written - handled == Counter(), "lost"
    unknown = {value for value in handled if value not in written}
    assert len(unknown) <= kills, "an append that was not acknowledged may have happened, one for each kill"
    assert sum(count - 1 for count in handled.values()) <= kills, "handled twice"
    with TextQueue(path, strict=True) as queue:
        done = Counter(item.value.partition("\n")[0] for item in queue.items(done=True))
    assert set(done.values()) == {1}
    assert set(done) == set(handled) | set(written)


def test_the_logs_of_actors_are_whole_lines(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("a\nb\nhal")
    assert logged(tmp_path / "log") == ["a", "b"]
    assert logged(tmp_path / "none") == []
