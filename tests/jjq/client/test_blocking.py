"""The blocking face: from many threads, with real futures, and with a clean end."""

from __future__ import annotations

import concurrent.futures
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

import jjq
from coldstore.shared.errors import Conflict, NotFound
from jjq.client.push_future import PushFuture
from tests.servers.jjq_server import clean_environment, interruptible
from tests.servers.waiting import wait_until

THREADS = 8


def python(code: str, *arguments: str) -> subprocess.Popen[str]:
    with interruptible():
        return subprocess.Popen(
            [sys.executable, "-W", "error", "-c", code, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=clean_environment(),
        )


def test_eight_threads_push_and_pop_through_one_client(embedded: jjq.Client) -> None:
    embedded.create_queue("orders")
    subscriber = embedded.create_subscriber("orders", "s", "beginning")
    start = threading.Barrier(THREADS)

    def work(number: int) -> list[bytes | str]:
        start.wait()
        seen: list[bytes | str] = []
        for n in range(50):
            embedded.push("orders", [b"%d-%d" % (number, n)])
            seen += [e.value for e in embedded.pop(subscriber, max=2)]
        return seen

    with ThreadPoolExecutor(THREADS) as pool:
        popped = [value for seen in pool.map(work, range(THREADS)) for value in seen]
    popped += [e.value for e in embedded.pop(subscriber, max=1_000)]
    assert sorted(popped) == sorted(b"%d-%d" % (t, n) for t in range(THREADS) for n in range(50))


def test_eight_threads_push_through_one_producer(embedded: jjq.Client) -> None:
    embedded.create_queue("orders")
    with embedded.producer("orders") as producer, ThreadPoolExecutor(THREADS) as pool:

        def work(number: int) -> list[PushFuture]:
            return [producer.push(b"%d-%d" % (number, n)) for n in range(500)]

        pushed = list(pool.map(work, range(THREADS)))
        offsets = [[future.result(30).first_offset for future in mine] for mine in pushed]
    assert all(mine == sorted(mine) for mine in offsets)
    assert sorted(offset for mine in offsets for offset in mine) == list(range(500 * THREADS))
    table = embedded.replay("orders").to_table()
    found = dict(zip(table.column("offset").to_pylist(), table.column("value").to_pylist(), strict=True))
    assert all(
        found[offset] == b"%d-%d" % (t, n) for t, mine in enumerate(offsets) for n, offset in enumerate(mine)
    )


def test_the_futures_of_a_producer_are_real_ones(embedded: jjq.Client) -> None:
    embedded.create_queue("orders")
    called: list[int] = []
    with embedded.producer("orders", linger=0.05) as producer:
        futures = [producer.push(b"%d" % n) for n in range(10)]
        assert isinstance(futures[0], concurrent.futures.Future)
        assert not futures[0].done()
        assert not futures[0].cancel()
        with pytest.raises(TimeoutError):
            futures[1].result(timeout=0)
        futures[2].add_done_callback(lambda future: called.append(future.result().first_offset))
        done, rest = concurrent.futures.wait(futures, timeout=30)
        assert (len(done), rest) == (10, set())
        assert [f.result().first_offset for f in futures] == list(range(10))
        assert {f.result().first_offset for f in concurrent.futures.as_completed(futures)} == set(range(10))
    assert called == [2]
    assert futures[9].exception() is None
    assert futures[9].done()
    assert "returned Receipt" in repr(futures[3])


def test_one_future_may_be_waited_for_by_many_threads(embedded: jjq.Client) -> None:
    embedded.create_queue("orders")
    with embedded.producer("orders", linger=0.05) as producer, ThreadPoolExecutor(THREADS) as pool:
        future = producer.push(b"a")
        assert list(pool.map(lambda _: future.result(30).first_offset, range(THREADS))) == [0] * THREADS


def test_an_error_of_a_push_is_on_its_future_and_leaves_the_with_block(embedded: jjq.Client) -> None:
    producer = embedded.producer("nope").__enter__()
    future = producer.push(b"a")
    with pytest.raises(NotFound):
        future.result(30)
    with pytest.raises(NotFound):
        producer.__exit__(None, None, None)


def test_an_error_in_a_with_block_is_not_hidden_by_that_of_the_producer(embedded: jjq.Client) -> None:
    def work() -> None:
        with embedded.producer("nope") as producer:
            producer.push(b"a")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()


def test_a_full_producer_blocks_until_there_is_room(embedded: jjq.Client) -> None:
    embedded.create_queue("orders")
    with embedded.producer("orders", batch_bytes=2_048, memory_bytes=4_096) as producer:
        for _ in range(200):
            producer.push(bytes(1_000))
    assert embedded.get_queue("orders").next_offset == 200


def test_subscriptions_and_replays_iterate(embedded: jjq.Client) -> None:
    embedded.create_queue("orders")
    subscriber = embedded.create_subscriber("orders", "s", "beginning")
    embedded.push("orders", [b"%d" % n for n in range(5)])
    with embedded.subscribe(subscriber) as subscription:
        assert [element.offset for element, _ in zip(subscription, range(3), strict=False)] == [0, 1, 2]
        assert next(subscription.batches()).column("offset").to_pylist() == [4]
        subscription.confirm()
    assert embedded.get_subscriber(subscriber).offset == 5
    replay = embedded.replay("orders", start="offset:1")
    assert [batch.num_rows for batch in replay] == [4]
    assert [e.value for e in embedded.replay("orders", "last:2").elements()] == [b"3", b"4"]
    assert list(embedded.replay("orders").to_pandas()["offset"]) == [0, 1, 2, 3, 4]
    left = embedded.replay("orders")
    next(left)
    left.close()


def test_leaving_a_loop_confirms_what_was_handled(embedded: jjq.Client) -> None:
    embedded.create_queue("orders")
    subscriber = embedded.create_subscriber("orders", "s", "beginning")
    embedded.push("orders", [b"%d" % n for n in range(10)])
    for element in embedded.subscribe(subscriber):
        if element.offset == 4:
            break
    wait_until(lambda: embedded.get_subscriber(subscriber).offset == 4, "four are confirmed")


def test_a_blocking_call_in_a_callback_is_refused_instead_of_waiting_for_ever(embedded: jjq.Client) -> None:
    embedded.create_queue("orders")
    refused: list[BaseException] = []

    def callback(future: concurrent.futures.Future[jjq.Receipt]) -> None:
        try:
            embedded.list_queues()
        except Conflict as error:
            refused.append(error)

    with embedded.producer("orders") as producer:
        producer.push(b"a").add_done_callback(callback)
    assert "another thread" in str(refused[0])


def test_a_second_process_is_told_that_the_directory_is_taken(embedded: jjq.Client, tmp_path: Path) -> None:
    child = python("import sys, jjq; jjq.open(sys.argv[1])", str(tmp_path))
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 1
    assert "Conflict" in errors


def test_closing_twice_is_allowed_and_the_data_is_there_next_time(tmp_path: Path) -> None:
    client = jjq.open(tmp_path)
    client.create_queue("orders")
    client.push("orders", [b"a"])
    client.close()
    client.close()
    with jjq.open(tmp_path) as again:
        assert again.get_queue("orders").next_offset == 1


AT_EXIT = """
import sys, jjq
client = jjq.open(sys.argv[1])
client.create_queue("orders")
producer = client.producer("orders", linger=50.0)
for n in range(1000):
    producer.push(b"%d" % n)
"""


def test_a_program_that_closes_nothing_loses_nothing_at_exit(tmp_path: Path) -> None:
    child = python(AT_EXIT, str(tmp_path))
    output = child.communicate(timeout=60)
    assert (child.returncode, *output) == (0, "", "")
    with jjq.open(tmp_path) as client:
        assert client.get_queue("orders").next_offset == 1_000


INTERRUPTED = """
import sys, jjq
client = jjq.open(sys.argv[1])
client.create_queue("orders")
sub = client.create_subscriber("orders", "s")
def wait():
    {wait}
try:
    print("waiting", flush=True)
    wait()
except KeyboardInterrupt:
    client.push("orders", [b"after"])
    print(client.pop(sub)[0].value, flush=True)
    sys.exit(7)
"""
WAITS = {
    "pop": "client.pop(sub, wait=300.0)",
    "subscribe": "next(client.subscribe(sub))",
    "replay": "next(client.replay('orders', follow=True))",
}


@pytest.mark.parametrize("what", WAITS)
def test_ctrl_c_breaks_off_what_waits_and_the_client_goes_on(tmp_path: Path, what: str) -> None:
    child = python(INTERRUPTED.format(wait=WAITS[what]), str(tmp_path))
    assert child.stdout is not None
    assert child.stdout.readline() == "waiting\n"
    signal_until(child, lambda: child.poll() is not None)
    output, errors = child.communicate(timeout=30)
    assert (child.returncode, output) == (7, "b'after'\n"), errors


def signal_until(child: subprocess.Popen[str], ended: Callable[[], bool]) -> None:
    """One Ctrl-C, once the child's main thread sleeps."""
    process = psutil.Process(child.pid)
    wait_until(lambda: process.status() == psutil.STATUS_SLEEPING, "the main thread waits", 30)
    child.send_signal(signal.SIGINT)
    wait_until(ended, "the child ends", 30)


FORKED = """
import os, sys, jjq
client = jjq.open(sys.argv[1])
client.create_queue("orders")
pid = os.fork()
if pid == 0:
    try:
        client.list_queues()
    except jjq.Conflict as error:
        print(error, flush=True)
        os._exit(0)
    os._exit(1)
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
client.close()
sys.exit(code)
"""


def test_a_client_is_refused_in_a_forked_child_instead_of_hanging(tmp_path: Path) -> None:
    child = subprocess.run(
        [sys.executable, "-c", FORKED, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=clean_environment(),
    )
    assert child.returncode == 0, child.stderr
    assert "open one in each process" in child.stdout
