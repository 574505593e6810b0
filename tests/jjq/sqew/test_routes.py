"""Sqew's routes: paths, shapes, status codes and texts as its clients know them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from coldstore.shared.clock import SystemClock
from hotstore.write.admission import Usage
from jjq.http.sqew import messages
from jjq.limits import SQEW_PAYLOAD_BYTES_MAX
from tests.jjq.http.asking import Said, Web, web_in


@pytest.fixture
async def web(tmp_path: Path) -> AsyncIterator[Web]:
    async with web_in(tmp_path) as made:
        yield made


async def enqueue(web: Web, queue: str, payload: Any, **fields: Any) -> Any:
    said = await web.send("POST", f"/queues/{queue}/messages", {"payload": payload, **fields})
    assert said.status == 201, said.body
    return said.json


async def poll(web: Web, queue: str, batch: int = 1, wait_ms: int = 0, **query: int) -> list[Any]:
    more = "".join(f"&{name}={value}" for name, value in query.items())
    said = await web.ask("POST", f"/queues/{queue}/poll?batch={batch}&wait_ms={wait_ms}{more}")
    assert said.status == 200, said.body
    messages: list[Any] = said.json["messages"]
    return messages


def refused(said: Said, status: int, text: str) -> bool:
    assert (said.status, said.headers.get("content-type")) == (status, "text/plain; charset=utf-8"), said
    return text in said.body.decode()


# Its own tests, from outside -------------------------------------------------------------------------------


async def test_queues_are_created_listed_shown_and_deleted(web: Web) -> None:
    assert (await web.ask("GET", "/queues")).json == []
    made = await web.send("POST", "/queues", {"name": "demo", "max_attempts": 2})
    assert (made.status, made.json) == (201, {"id": 1, "name": "demo", "max_attempts": 2})
    assert (await web.ask("GET", "/queues")).json == [made.json]
    assert (await web.ask("GET", "/queues/demo")).json == made.json
    assert (await web.ask("DELETE", "/queues/demo")).status == 204
    assert (await web.ask("GET", "/queues")).json == []
    assert refused(await web.ask("GET", "/queues/demo"), 404, "Queue 'demo' not found")


async def test_messages_are_enqueued_peeked_got_and_purged(web: Web) -> None:
    await web.send("POST", "/queues", {"name": "q1"})
    first, second = [await enqueue(web, "q1", {"n": n}) for n in (1, 2)]
    assert first == {
        "id": 1, "queue_id": 1, "payload": '{"n":1}', "attempts": 0,
        "available_at": first["created_at"], "created_at": first["created_at"],
    }  # fmt: skip
    assert second["id"] > first["id"] > 0
    assert (await web.ask("GET", "/queues/q1/messages")).json == [first]
    assert (await web.ask("GET", "/queues/q1/messages?limit=10")).json == [first, second]
    assert (await web.ask("GET", "/queues/q1/peek?limit=10")).json == [first, second]
    assert (await web.ask("GET", "/queues/q1/messages/1")).json == first
    assert (await web.ask("DELETE", "/queues/q1/messages")).json == {"deleted": 2}
    assert (await web.ask("GET", "/queues/q1/messages?limit=10")).json == []


async def test_a_polled_message_is_leased_and_an_ack_deletes_it(web: Web) -> None:
    await web.send("POST", "/queues", {"name": "q2"})
    sent = await enqueue(web, "q2", {"task": "t"})
    (leased,) = await poll(web, "q2", visibility_ms=60_000)
    assert (leased["id"], leased["payload"], leased["attempts"]) == (sent["id"], '{"task":"t"}', 0)
    assert leased["available_at"] == leased["lease_expires_at"] > leased["created_at"]
    assert (await web.ask("GET", "/queues/q2/messages")).json[0]["attempts"] == 0
    assert await poll(web, "q2") == []
    acked = await web.send("POST", "/queues/q2/ack", {"id": leased["id"], "token": leased["token"]})
    assert acked.json == {"acked": 1}
    assert refused(await web.ask("GET", "/queues/q2/messages/1"), 404, "Message 1 not found")


async def test_a_nack_requeues_and_drops_at_max_attempts(web: Web) -> None:
    await web.send("POST", "/queues", {"name": "q3", "max_attempts": 2})
    await enqueue(web, "q3", {"x": 1})
    (leased,) = await poll(web, "q3")
    order = {"id": 1, "token": leased["token"], "delay_ms": 10}
    assert (await web.send("POST", "/queues/q3/nack", order)).json == {"requeued": 1, "dropped": 0}
    assert (await web.ask("GET", "/queues/q3/messages/1")).json["attempts"] == 1
    (again,) = await poll(web, "q3", wait_ms=5_000)
    assert (again["id"], again["attempts"]) == (1, 1)
    said = await web.send("POST", "/queues/q3/nack", {"ids": [1], "delay_ms": 10})
    assert said.json == {"requeued": 0, "dropped": 1}
    assert (await web.ask("GET", "/queues/q3/messages/1")).status == 404


async def test_stats_count_what_is_available_and_compact_works(web: Web) -> None:
    await web.send("POST", "/queues", {"name": "q4"})
    await enqueue(web, "q4", {"n": 1})
    delayed = await enqueue(web, "q4", {"n": 2}, delay_ms=60_000)
    assert delayed["available_at"] == delayed["created_at"] + 60_000
    stats = (await web.ask("GET", "/queues/q4/stats")).json
    assert {**stats, "oldest_age_ms": 0} == {
        "ready": 1, "leased": 0, "delayed": 1, "dlq": 0, "oldest_age_ms": 0,
    }  # fmt: skip
    shown = (await web.ask("GET", "/queues/q4/messages?limit=9")).json
    assert [message["available_at"] - message["created_at"] for message in shown] == [0, 60_000]
    assert (await web.ask("POST", "/queues/q4/compact")).json == {"compacted": True, "cold_offset": 2}
    assert len(await poll(web, "q4", 9)) == 1


# The rest --------------------------------------------------------------------------------------------------


async def test_refusals_have_sqews_status_and_text(web: Web) -> None:
    await web.send("POST", "/queues", {"name": "q"})
    known: list[tuple[Said, int, str]] = [
        (await web.send("POST", "/queues", {"name": "q"}), 409, "Queue 'q' already exists"),
        (await web.ask("DELETE", "/queues/none"), 404, "Queue 'none' not found"),
        (await web.ask("GET", "/queues/none/stats"), 404, "Queue 'none' not found"),
        (
            await web.send("POST", "/queues/none/messages", {"payload": 1}),
            404,
            "Queue 'none' not found",
        ),
        (await web.ask("POST", "/queues/none/poll"), 404, "Queue 'none' not found"),
        (
            await web.ask("POST", "/queues/q/messages", "{", Content_Type="application/json"),
            400,
            "JSON",
        ),
        (await web.send("POST", "/queues/q/messages", {}), 422, "payload"),
        (await web.ask("POST", "/queues/q/messages", '{"payload":1}'), 415, "application/json"),
        (
            await web.send("POST", "/queues/q/messages", {"payload": "x" * SQEW_PAYLOAD_BYTES_MAX}),
            413,
            "at most 524288",
        ),
        (await web.send("POST", "/queues/q/messages", {"payload": "x" * (2 << 20)}), 413, "more than"),
        (await web.ask("POST", "/queues/q/poll?batch=0"), 400, "batch is 0"),
        (await web.ask("POST", "/queues/q/poll?visibility_ms=0"), 400, "visibility_ms"),
        (await web.ask("DELETE", "/queues/q/messages/7"), 404, "Message 7 not found"),
        (await web.ask("GET", "/queues/q/messages/x"), 404, "Message x not found"),
        (await web.send("POST", "/queues/q/ack", {}), 422, "send id and token"),
        (await web.send("POST", "/queues/q/ack", {"id": 1, "token": "x"}), 422, "token"),
    ]
    for said, status, text in known:
        assert refused(said, status, text), (said.body, text)
    assert (await web.ask("GET", "/queues/none/messages")).json == []
    assert (await web.ask("DELETE", "/queues/none/messages")).json == {"deleted": 0}
    assert (await web.ask("GET", "/health")).body == b"ok"


async def test_a_deleted_queue_can_be_made_again_and_is_empty(web: Web) -> None:
    await web.send("POST", "/queues", {"name": "q", "visibility_ms": 5_000, "dlq": True})
    await enqueue(web, "q", "old")
    assert (await web.ask("DELETE", "/queues/q")).status == 204
    made = await web.send("POST", "/queues", {"name": "q"})
    assert (made.status, made.json) == (201, {"id": 2, "name": "q", "max_attempts": 5})
    assert (await web.ask("GET", "/queues")).json == [made.json]
    assert await poll(web, "q") == []
    fresh = await enqueue(web, "q", "new")
    (leased,) = await poll(web, "q")
    assert (leased["id"], leased["payload"], leased["queue_id"]) == (fresh["id"], '"new"', 2)


async def test_a_queue_of_bytes_cannot_be_one_of_sqew_and_one_of_json_can(web: Web) -> None:
    await web.send("PUT", "/v1/queues/raw")
    await web.send("PUT", "/v1/queues/docs", {"content": "json"})
    assert refused(await web.send("POST", "/queues", {"name": "raw"}), 409, "queue of bytes")
    assert (await web.send("POST", "/queues", {"name": "docs"})).status == 201
    (group,) = (await web.ask("GET", "/v1/queues/docs/groups")).json["groups"]
    assert (group["name"], group["settings"]["driver"]) == ("sqew-1", "arrival")


async def test_priority_comes_first_then_what_was_available_first_then_the_id(web: Web) -> None:
    await web.send("POST", "/queues", {"name": "q"})
    await enqueue(web, "q", "first")
    await enqueue(web, "q", "later", delay_ms=1)
    await enqueue(web, "q", "low", priority=-1)
    await enqueue(web, "q", "high", priority=7)
    (first,) = await poll(web, "q", wait_ms=5_000)
    assert first["payload"] == '"high"'
    (second,) = await poll(web, "q")
    assert second["payload"] == '"first"'
    await web.send("POST", "/queues/q/nack", {"id": second["id"], "token": second["token"], "delay_ms": 0})
    await web.send("POST", "/queues/q/ack", {"id": 2})
    await enqueue(web, "q", "last")
    rest = [json.loads(message["payload"]) for message in await poll(web, "q", 9)]
    assert rest == ["first", "last", "low"]


async def test_the_same_idempotency_key_is_enqueued_once(web: Web) -> None:
    await web.send("POST", "/queues", {"name": "q"})
    first = await enqueue(web, "q", {"n": 1}, idempotency_key="a")
    again = await web.send("POST", "/queues/q/messages", {"payload": {"n": 1}}, Idempotency_Key="a")
    assert (again.status, again.json) == (200, first)
    other = await web.send("POST", "/queues/q/messages", {"payload": {"n": 2}}, Idempotency_Key="a")
    assert other.status == 409
    assert (await web.ask("GET", "/queues/q/stats")).json["ready"] == 1


async def test_a_token_that_is_over_acks_nothing(web: Web) -> None:
    await web.send("POST", "/queues", {"name": "q"})
    await enqueue(web, "q", 1)
    (old,) = await poll(web, "q", visibility_ms=1)
    (new,) = await poll(web, "q", wait_ms=5_000)
    assert old["id"] == new["id"]
    late = await web.send("POST", "/queues/q/ack", {"id": old["id"], "token": old["token"]})
    assert refused(late, 409, "not leased with this token")
    good = {"messages": [{"id": new["id"], "token": new["token"]}]}
    assert (await web.send("POST", "/queues/q/ack", good)).json == {"acked": 1}
    assert (await web.send("POST", "/queues/q/ack", good)).json == {"acked": 0}


async def test_a_dead_letter_queue_keeps_what_failed_and_gives_it_back(web: Web) -> None:
    made = await web.send("POST", "/queues", {"name": "q", "max_attempts": 1, "dlq": True})
    assert made.json == {"id": 1, "name": "q", "max_attempts": 1, "dlq": True}
    await enqueue(web, "q", "bad")
    (leased,) = await poll(web, "q")
    said = await web.send("POST", "/queues/q/nack", {"id": 1, "token": leased["token"]})
    assert said.json == {"requeued": 0, "dropped": 1}
    assert (await web.ask("GET", "/queues/q/stats")).json["dlq"] == 1
    assert (await web.ask("GET", "/queues/q/messages")).json == []
    assert (await web.ask("POST", "/queues/q/dlq/requeue")).json == {"requeued": 1}
    assert [message["payload"] for message in await poll(web, "q")] == ['"bad"']


async def test_a_nack_without_a_delay_backs_off_exponentially(web: Web) -> None:
    await web.send("POST", "/queues", {"name": "q"})
    for failures, seconds in ((0, 1.0), (1, 2.0), (2, 4.0)):
        sent = await enqueue(web, "q", failures)
        for _ in range(failures):
            (leased,) = await poll(web, "q")
            await web.send("POST", "/queues/q/nack", {"ids": [leased["id"]], "delay_ms": 0})
        (leased,) = await poll(web, "q")
        before = SystemClock().now_us() // 1_000
        said = await web.send("POST", "/queues/q/nack", {"id": leased["id"], "token": leased["token"]})
        after = SystemClock().now_us() // 1_000
        assert said.json == {"requeued": 1, "dropped": 0}
        shown = (await web.ask("GET", f"/queues/q/messages/{sent['id']}")).json
        assert before + 900 * seconds <= shown["available_at"] <= after + 1_100 * seconds
        await web.ask("DELETE", "/queues/q/messages")


async def test_a_large_number_and_the_order_of_keys_stay_as_they_were_sent(web: Web) -> None:
    await web.send("POST", "/queues", {"name": "q"})
    body = '{"payload": {"b" : 123456789012345678901234567890, "a": [1, 2]}}'
    said = await web.ask("POST", "/queues/q/messages", body, Content_Type="application/json")
    assert said.json["payload"] == '{"b":123456789012345678901234567890,"a":[1,2]}'


async def test_messages_that_failed_do_not_hide_the_others_from_a_peek(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "SQEW_LOOK_AHEAD", 2)
    await web.send("POST", "/queues", {"name": "q", "max_attempts": 1, "dlq": True})
    for n in range(4):
        await enqueue(web, "q", n)
    ids = [leased["id"] for leased in await poll(web, "q", 4)]
    assert (await web.send("POST", "/queues/q/nack", {"ids": ids})).json == {"requeued": 0, "dropped": 4}
    await enqueue(web, "q", "later", delay_ms=60_000)
    await enqueue(web, "q", "leased")
    await poll(web, "q", visibility_ms=90_000)
    await enqueue(web, "q", "now")
    shown = (await web.ask("GET", "/queues/q/messages?limit=9")).json
    assert [json.loads(message["payload"]) for message in shown] == ["now", "later", "leased"]
    assert [message["id"] for message in (await web.ask("GET", "/queues/q/peek")).json] == [7]


async def test_a_full_journal_is_429_and_says_when_to_come_back(web: Web) -> None:
    await web.send("POST", "/queues", {"name": "q"})
    gate = web.store._admission
    usage, gate._usage = gate._usage, lambda: Usage(journal_bytes=1 << 60)
    late = await web.send("POST", "/queues/q/messages", {"payload": 1})
    assert refused(late, 429, "the journal holds")
    assert late.headers["retry-after"] == "1"
    plain = await web.ask("POST", "/v1/queues/q/elements", b"1", Content_Type="application/x-ndjson")
    assert (plain.status, plain.json["code"], plain.json["retry_after"]) == (429, "RESOURCE_EXHAUSTED", 1.0)
    gate._usage = usage
    assert (await enqueue(web, "q", 1))["id"] == 1, "nothing was written"
