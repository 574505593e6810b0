"""A server that is killed in the middle of everything: clients go on, nothing is lost, nothing comes twice."""

from __future__ import annotations

import threading

import pytest

import jjq
from coldstore.shared.errors import JjqError
from tests.servers.jjq_server import JjqServer
from tests.servers.waiting import wait_until


def all_values(client: jjq.Client, queue: str = "orders") -> list[bytes]:
    found: list[bytes] = client.replay(queue).to_table().column("value").to_pylist()
    return found


@pytest.mark.timeout(600)
def test_kill_nine_in_the_middle_of_a_producer_loses_nothing_and_duplicates_nothing(
    server: JjqServer,
) -> None:
    count = 100_000
    with jjq.connect(server.address) as client:
        client.create_queue("orders")
        progress = threading.Event()
        futures = []

        def produce() -> None:
            # Its patience must outlast the slowest of three restarts: on a busy machine one took 41 s.
            with client.producer(
                "orders", batch_elements=500, linger=0.001, memory_bytes=1 << 20, deadline=600.0
            ) as producer:
                for n in range(count):
                    futures.append(producer.push(b"%d" % n))
                    if n % 10_000 == 9_999:
                        progress.set()

        thread = threading.Thread(target=produce)
        thread.start()
        for _ in range(3):
            assert progress.wait(120)
            progress.clear()
            server.restart()
        thread.join(400)
        assert not thread.is_alive()
        offsets = [future.result().first_offset for future in futures]
        values = all_values(client)
    assert values == [b"%d" % n for n in range(count)]
    assert offsets == list(range(count))


def test_a_pop_that_waits_when_the_server_is_killed_gets_the_next_element(server: JjqServer) -> None:
    with jjq.connect(server.address) as client:
        client.create_queue("orders")
        subscriber = client.create_subscriber("orders", "s", "beginning")
        popped: list[bytes | str] = []
        thread = threading.Thread(
            target=lambda: popped.extend(e.value for e in client.pop(subscriber, wait=60.0))
        )
        thread.start()
        server.restart()
        client.push("orders", [b"a"])
        thread.join(60)
        assert popped == [b"a"]


def test_a_subscription_goes_on_after_a_restart_without_a_gap_or_a_repetition(server: JjqServer) -> None:
    with jjq.connect(server.address) as client:
        client.create_queue("orders")
        subscriber = client.create_subscriber("orders", "s", "beginning")
        client.push("orders", [b"%d" % n for n in range(1_000)])
        with client.subscribe(subscriber) as subscription:
            seen = [next(subscription).offset for _ in range(500)]
            subscription.confirm()
            server.restart()
            client.push("orders", [b"%d" % n for n in range(1_000, 1_500)])
            seen += [next(subscription).offset for _ in range(1_000)]
        assert seen == list(range(1_500))
        assert client.get_subscriber(subscriber).offset >= 1_499


def test_what_was_confirmed_never_comes_again_and_what_was_not_does(server: JjqServer) -> None:
    with jjq.connect(server.address) as client:
        client.create_queue("orders")
        subscriber = client.create_subscriber("orders", "s", "beginning")
        client.push("orders", [b"%d" % n for n in range(100)])
        with client.subscribe(subscriber) as subscription:
            for _ in range(10):
                next(subscription)
            subscription.confirm()
            server.restart()
    with jjq.connect(server.address) as client, client.subscribe("orders/s") as subscription:
        assert next(subscription).offset == 10


def test_a_replay_goes_on_after_a_restart(server: JjqServer) -> None:
    with jjq.connect(server.address) as client:
        client.create_queue("orders")
        for n in range(20):
            client.push("orders", [bytes([n]) * 1_000_000])
        replay = client.replay("orders")
        values = next(replay).column("value").to_pylist()
        server.restart()
        for batch in replay:
            values += batch.column("value").to_pylist()
    assert [value[0] for value in values] == list(range(20))


def test_a_client_of_several_servers_uses_the_one_that_answers(server: JjqServer) -> None:
    with jjq.connect(f"127.0.0.1:1,{server.address}") as client:
        client.create_queue("orders")
        assert client.push("orders", [b"a"]).first_offset == 0


def test_a_client_without_a_server_fails_within_its_timeout() -> None:
    with jjq.connect("127.0.0.1:1", timeout=0.5) as client, pytest.raises(JjqError):
        client.list_queues()


def test_the_port_is_free_again_after_a_kill(server: JjqServer) -> None:
    server.kill()
    server.start()
    with jjq.connect(server.address) as client:
        wait_until(lambda: client.list_queues() == [], "the server answers")
