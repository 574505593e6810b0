"""The mutex variable: one worker has a message, and a dead worker has none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from coldstore.shared.errors import Conflict, InvalidInput
from jjq.textqueue import MUTEX, TextItem, TextQueue, TextStatus
from tests.architecture.tree import ROOT
from tests.servers.jjq_server import clean_environment
from tests.servers.waiting import wait_until


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "queue.tq"


def first(queue: TextQueue) -> TextItem:
    return next(iter(queue))


def test_a_mutex_is_claimed_once_and_released(path: Path) -> None:
    with TextQueue(path) as queue:
        queue.append("a", [MUTEX])
        one, two = first(queue), first(queue)
        assert one.claim("anna")
        assert not two.claim("berta")
        assert path.read_bytes() == b"-a\n\\mutex=anna            \n"
        with pytest.raises(Conflict, match="not held by berta"):
            two.release("berta")
        one.release("anna")
        assert two.claim()
        assert not one.claim()
        two.mark_done()
        assert not one.claim()
        assert one.status is TextStatus.DONE


@pytest.mark.parametrize(
    "data", [b"-a\n\\mutex=      \n", b"-a\n\\MUTEX\n", b"-a\n\\id=1\n\\Mutex=               \n"]
)
def test_the_mutexes_of_the_seed_can_be_claimed(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    with TextQueue(path, quiet_seconds=0) as queue:
        assert first(queue).claim()
        assert not first(queue).claim()
        assert path.stat().st_size == len(data)
        first(queue).release()
        assert path.read_bytes() == data


def test_the_claim_of_a_dead_process_is_free(path: Path) -> None:
    program = f"from jjq.textqueue import TextQueue\nassert next(iter(TextQueue({str(path)!r}))).claim()"
    with TextQueue(path) as queue:
        queue.append("a", [MUTEX])
        with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, env=clean_environment()) as process:
            # Its exit code is not asked for, so that it stays a zombie.
            wait_until(lambda: b"mutex=~" in path.read_bytes(), "the process has claimed it", 30)
            wait_until(lambda: first(queue).claim(), "the process is dead", 30)
        assert process.wait() == 0
        assert first(queue).variables[0].startswith(f"mutex=~{os.getpid():x}@")


def test_a_mutex_without_room_or_a_name_that_is_none_is_refused(path: Path) -> None:
    path.write_bytes(b"-a\n\\mutex= \n-b\n")
    with TextQueue(path, quiet_seconds=0) as queue:
        item, bare = queue
        with pytest.raises(InvalidInput, match="room for 1 bytes"):
            item.claim("anna")
        with pytest.raises(InvalidInput, match="cannot own a mutex"):
            item.claim(" ")
        with pytest.raises(InvalidInput, match="no mutex variable"):
            bare.claim()
    assert path.read_bytes() == b"-a\n\\mutex= \n-b\n"


def test_a_worker_comes_back_to_messages_that_others_had(path: Path) -> None:
    with TextQueue(path) as one, TextQueue(path) as two:
        for value in ("a", "b", "c"):
            one.append(value, [MUTEX])
        a = one.claim_next("anna")
        assert a is not None
        found = [two.claim_next("berta") for _ in range(3)]
        assert [item and item.value for item in found] == ["b", "c", None]
        assert two.claim_next("berta") is None
        a.release("anna")
        again = two.claim_next("berta")
        assert again is not None
        assert again.value == "a"
        again.mark_done()
        assert one.claim_next("anna") is None
        for item in found[:2]:
            assert item is not None
            item.mark_error()
        assert one.claim_next("anna") is None


def test_a_worker_forgets_messages_that_were_done_or_removed(path: Path) -> None:
    with TextQueue(path) as writer:
        writer.append("a", [MUTEX])
        writer.append("b", [MUTEX])
    with TextQueue(path) as one, TextQueue(path, quiet_seconds=0) as two:
        for _ in range(2):
            assert one.claim_next() is not None
        assert two.claim_next() is None
        path.write_bytes(path.read_bytes().replace(b"-a", b"=a").partition(b"-b")[0])
        assert two.claim_next() is None
        assert one.get_next() is None
        one.append("c", [MUTEX])
        last = two.claim_next()
        assert last is not None
        assert last.value == "c"
