"""The doors alone, over a fake store: what goes in comes out, and nothing is sent twice that must not be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from coldstore.shared.errors import Conflict, InvalidInput, NotFound, Unavailable
from hotstore.groups.values import GroupSettings, RetryBackoff, Take, TaskChange
from jjq.client.client import AsyncClient
from jjq.remote.groups.group_store import RemoteWorkStore
from jjq.v1 import jjq_pb2 as pb
from tests.jjq.cutproxy import CutProxy
from tests.jjq.serving import Served, numbers, until

EVERYTHING = GroupSettings(
    driver="utubettl",
    ttr=5.0,
    ttl=50.0,
    delay=0.5,
    priority=-3,
    max_attempts=4,
    on_exhausted="drop",
    backoff=RetryBackoff(2.0, 3.0, 100.0, 0.5),
    capacity=10,
    per_key=2,
    rate=1.5,
)


# Groups -------------------------------------------------------------------------------------------


async def test_a_group_comes_back_as_it_was_made(jjq: Served, remote: RemoteWorkStore) -> None:
    made = await remote.create_group("orders", "all", EVERYTHING, start="offset:3")
    assert made == await jjq.store.get_group("orders/all")
    assert made.settings == EVERYTHING
    assert (made.start, made.first, made.resolved and made.resolved.offset) == ("offset:3", 3, 3)
    assert await remote.get_group("orders/all") == made
    assert made.ledger == "orders~all"


async def test_settings_are_changed_and_taken_away_by_name(remote: RemoteWorkStore) -> None:
    await remote.create_group("orders", "all", EVERYTHING)
    changes = {"ttr": 9.0, "ttl": None, "rate": None, "backoff": RetryBackoff(), "on_exhausted": "bury"}
    changed = await remote.update_group("orders/all", changes)
    assert changed.settings == replace(EVERYTHING, **changes)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="'ttr' cannot be cleared"):
        await remote.update_group("orders/all", {"ttr": None})


async def test_groups_are_listed_in_pages_and_by_queue(jjq: Served, remote: RemoteWorkStore) -> None:
    await jjq.store.create_queue("other")
    for queue in ("orders", "other"):
        for number in range(5):
            await jjq.store.create_group(queue, f"g{number}", GroupSettings())
    every = [group.id for group in await remote.list_groups()]
    assert len(every) == 11
    assert every == sorted(every)
    assert [g.id for g in await remote.list_groups("other", limit=2)] == ["other/g0", "other/g1"]
    reply = await jjq.stub.ListGroups(pb.ListGroupsRequest(page_size=3))
    assert [g.id for g in reply.groups] == every[:3]
    again = pb.ListGroupsRequest(page_size=30, page_token=reply.next_page_token)
    assert [g.id for g in (await jjq.stub.ListGroups(again)).groups] == every[3:]


async def test_groups_are_paused_moved_and_deleted(remote: RemoteWorkStore) -> None:
    assert (await remote.pause_group("orders/billing")).paused
    assert not (await remote.pause_group("orders/billing", paused=False)).paused
    dry = await remote.seek_group("orders/billing", "last:2", dry_run=True)
    assert dry.resolved is not None
    assert (dry.first, dry.resolved.offset) == (0, 8)
    assert (await remote.seek_group("orders/billing", "last:2")).first == 8
    await remote.delete_group("orders/billing")
    with pytest.raises(NotFound, match="create it"):
        await remote.get_group("orders/billing")


# Tasks --------------------------------------------------------------------------------------------


async def test_tasks_travel_as_arrow_and_as_elements(jjq: Served, remote: RemoteWorkStore) -> None:
    taken = await remote.take(Take("orders/billing", 3, session="me", ttr=7.0))
    assert taken.ids == [0, 1, 2]
    assert list(taken.attempts) == [1, 1, 1]
    assert taken.elements.column("value").to_pylist() == [b"0", b"1", b"2"]
    friendly = await jjq.stub.Take(pb.TakeRequest(group="orders/billing", max=2, session="you"))
    assert [e.offset for e in friendly.elements.elements] == [3, 4]
    assert list(friendly.attempts) == [1, 1]
    assert len(friendly.deadlines_us) == len(friendly.priorities) == 2


async def test_each_refused_task_is_told_with_its_reason_and_state(remote: RemoteWorkStore) -> None:
    taken = await remote.take(Take("orders/billing", 2, session="me"))
    change = TaskChange("orders/billing", "ack", [0, 1, 5, 99], [1, 7, 1, 1], "me")
    outcomes = await remote.change_tasks(change)
    assert (outcomes.changed, dict(outcomes.states)) == (1, {"done": 1})
    assert [(e.id, e.code, e.state) for e in outcomes.errors] == [
        (1, "Conflict", "taken"),
        (5, "Conflict", "ready"),
        (99, "NotFound", None),
    ]
    assert len(taken.attempts) == 2


async def test_an_ack_and_pushes_are_one_request(jjq: Served, remote: RemoteWorkStore) -> None:
    await jjq.store.create_queue("invoices")
    from coldstore.shared.push import Push

    await remote.take(Take("orders/billing", 2, session="me"))
    pushes = [Push("invoices", numbers(0, 3)), Push("orders", numbers(7, 1))]
    ack = TaskChange("orders/billing", "ack", [0, 1], [1, 1], "me")
    outcomes, receipts = await remote.complete_tasks(ack, pushes)
    assert (outcomes.changed, [r.count for r in receipts]) == (2, [3, 1])
    again, nothing = await remote.complete_tasks(ack, pushes)
    assert (again.changed, len(again.errors), nothing) == (0, 2, [])
    assert (await jjq.store.get_queue("invoices")).next_offset == 3


async def test_tasks_are_listed_in_pages_and_looked_at(jjq: Served, remote: RemoteWorkStore) -> None:
    await remote.take(Take("orders/billing", 2, session="me"))
    assert [t.id for t in await remote.list_tasks("orders/billing")] == list(range(10))
    assert [t.id for t in await remote.list_tasks("orders/billing", state="taken")] == [0, 1]
    assert [t.id for t in await remote.list_tasks("orders/billing", after=4, limit=2)] == [5, 6]
    assert await remote.peek_task("orders/billing", 1) == await jjq.store.peek_task("orders/billing", 1)
    page = await jjq.stub.ListTasks(pb.ListTasksRequest(group="orders/billing", page_size=4))
    assert [t.id for t in page.tasks] == [0, 1, 2, 3]
    rest = pb.ListTasksRequest(group="orders/billing", page_token=page.next_page_token)
    assert [t.id for t in (await jjq.stub.ListTasks(rest)).tasks] == [4, 5, 6, 7, 8, 9]


async def test_a_page_of_large_tasks_ends_early(jjq: Served, remote: RemoteWorkStore) -> None:
    await jjq.store.create_queue("large")
    for values in ([b"x" * 3_000_000] * 2, [b"x" * 3_000_000] * 2, [b"x" * 3_000_000]):
        await jjq.store.append_values("large", values)
    await jjq.store.create_group("large", "g", GroupSettings())
    page = await jjq.stub.ListTasks(pb.ListTasksRequest(group="large/g"))
    assert [t.id for t in page.tasks] == [0]
    assert [len(t.value) for t in await remote.list_tasks("large/g")] == [3_000_000] * 5


async def test_tasks_at_a_time_come_as_one_table_in_both_forms(jjq: Served, remote: RemoteWorkStore) -> None:
    await remote.take(Take("orders/billing", 2, session="me"))
    table = await remote.tasks_at("orders/billing", 5_000_000)
    assert table.column("state").to_pylist() == ["taken"] * 2 + ["ready"] * 8
    assert table.column("since")[0].as_py() == datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)
    request = pb.TasksAtRequest(group="orders/billing", time_us=5_000_000)
    friendly = [task async for part in jjq.stub.TasksAt(request) for task in part.tasks]
    assert [(t.task, t.state, t.since_us) for t in friendly][:1] == [(0, pb.TASK_STATE_TAKEN, 5_000_000)]
    await jjq.store.create_queue("none")
    await jjq.store.create_group("none", "g", GroupSettings())
    assert (await remote.tasks_at("none/g", 0)).num_rows == 0


async def test_counts_come_back(remote: RemoteWorkStore) -> None:
    await remote.take(Take("orders/billing", 4, session="me"))
    assert await remote.release_all("orders/billing") == 4
    await remote.change_tasks(TaskChange("orders/billing", "bury", [0, 1]))
    assert await remote.kick("orders/billing", 1) == 1
    found = await remote.group_statistics("orders/billing")
    assert list(found.tasks.items()) == [
        ("ready", 9), ("taken", 0), ("delayed", 0), ("buried", 1), ("done", 0), ("total", 10),
    ]  # fmt: skip
    assert (found.oldest_ready_seconds, found.oldest_taken_seconds, found.rates) == (1.5, 2.5, {"ack": 0.5})
    assert found.calls == {"take": 4, "bury": 2}
    assert await remote.purge_group("orders/billing") == 10


# Lost answers -------------------------------------------------------------------------------------


async def lose_answer(proxy: CutProxy, verb: Any, served: Callable[[], bool] = lambda: True) -> Any:
    """Run `verb` so that its first answer is lost with the connection, once the store has `served` it.

    Bytes alone do not tell: a server also confirms settings and windows.
    """
    proxy.swallow = True
    before = proxy.passed
    task = asyncio.ensure_future(verb)
    await until(lambda: proxy.passed > before and served())
    proxy.cut_swallowed()
    return await task


def count_calls(store: Any, verb: str) -> list[str]:
    """The calls of a verb that the store has finished."""
    inner, calls = getattr(store, verb), []

    async def counted(*given: Any) -> Any:
        answer = await inner(*given)
        calls.append(verb)
        return answer

    setattr(store, verb, counted)
    return calls


@pytest.mark.parametrize("attached", [False, True])
@pytest.mark.parametrize("verb", ["ack", "nack", "release", "bury", "delete"])
async def test_a_change_whose_answer_was_lost_is_repeated_and_counts_once(
    jjq: Served, proxy: CutProxy, far: RemoteWorkStore, verb: Any, attached: bool
) -> None:
    if attached:
        await far.attach_session("me", 60.0)
    await far.take(Take("orders/billing", 2, session="me"))
    change = TaskChange("orders/billing", verb, [0, 1], [1, 1], "me")
    outcomes = await lose_answer(proxy, far.change_tasks(change))
    assert (outcomes.changed, outcomes.errors) == (2, [])
    assert (await jjq.store.group_statistics("orders/billing")).calls[verb] in (2, 4)


@pytest.mark.parametrize("attached", [False, True])
async def test_a_repeated_ack_that_a_node_passes_on_is_still_a_repeated_one(
    jjq: Served, remote: RemoteWorkStore, attached: bool
) -> None:
    """The client's first attempt went through another node, or the answer was lost on the way back from this one."""
    if attached:
        await remote.attach_session("me", 60.0)
    await remote.take(Take("orders/billing", 2, session="me"))
    change = TaskChange("orders/billing", "ack", [0, 1], [1, 1], "me")
    assert (await remote.change_tasks(change)).changed == 2
    assert (await remote.change_tasks(change)).changed == 0
    outcomes = await remote.change_tasks(change._replace(again=True))
    assert (outcomes.changed, outcomes.errors) == (2, [])


async def test_a_take_whose_answer_was_lost_is_not_repeated_and_says_what_happens(
    jjq: Served, proxy: CutProxy, far: RemoteWorkStore
) -> None:
    calls = count_calls(jjq.store, "take")
    with pytest.raises(Unavailable, match="come back when their time to run is over"):
        await lose_answer(proxy, far.take(Take("orders/billing", 2, session="me")), lambda: bool(calls))
    assert (await jjq.store.get_group("orders/billing")).tasks["taken"] == 2


@pytest.mark.parametrize("verb", ["kick", "release_all", "purge_group"])
async def test_what_is_not_the_same_twice_is_sent_once(
    jjq: Served, proxy: CutProxy, far: RemoteWorkStore, verb: str
) -> None:
    calls = count_calls(jjq.store, verb)
    arguments = ("orders/billing", 5) if verb == "kick" else ("orders/billing",)
    with pytest.raises(Unavailable, match="outcome is unknown"):
        await lose_answer(proxy, getattr(far, verb)(*arguments), lambda: bool(calls))
    assert calls == [verb]


async def test_a_group_that_was_deleted_without_an_answer_is_deleted(
    proxy: CutProxy, far: RemoteWorkStore
) -> None:
    await lose_answer(proxy, far.delete_group("orders/billing"))
    with pytest.raises(NotFound):
        await far.delete_group("orders/billing")


# Sessions -----------------------------------------------------------------------------------------


async def test_a_session_is_attached_again_after_a_broken_connection(
    jjq: Served, proxy: CutProxy, far: RemoteWorkStore
) -> None:
    await far.attach_session("me", 60.0)
    taken = await far.take(Take("orders/billing", 1, session="me"))
    proxy.cut()
    await until(lambda: jjq.store.sessions == {"me": [0, 60.0]})
    await until(lambda: jjq.store.sessions == {"me": [1, 60.0]})
    change = TaskChange("orders/billing", "ack", taken.ids, taken.attempts, "me")
    assert (await far.change_tasks(change)).changed == 1


async def test_two_connections_share_a_session_and_one_acks_what_the_other_took(jjq: Served) -> None:
    async with RemoteWorkStore(jjq.server.address) as one, RemoteWorkStore(jjq.server.address) as two:
        for each in (one, two):
            await each.attach_session("both", 60.0)
        taken = await one.take(Take("orders/billing", 1, session="both"))
        change = TaskChange("orders/billing", "ack", taken.ids, taken.attempts, "both")
        assert (await two.change_tasks(change)).changed == 1
        await one.detach_session("both")
        await until(lambda: jjq.store.sessions == {"both": [1, 60.0]})


async def test_a_session_that_is_refused_says_why(remote: RemoteWorkStore) -> None:
    with pytest.raises(InvalidInput, match="ttr that is not negative"):
        await remote.attach_session("me", -1.0)
    with pytest.raises(InvalidInput, match="session is empty"):
        await remote.attach_session("", 1.0)


async def test_a_client_that_closes_releases_what_its_own_session_holds(jjq: Served) -> None:
    async with RemoteWorkStore(jjq.server.address) as store, AsyncClient(store) as client:
        assert [t.id for t in await client.take("orders/billing", 2)] == [0, 1]
        (session,) = jjq.store.sessions
    assert jjq.store.released == [session]
    assert (await jjq.store.get_group("orders/billing")).tasks["ready"] == 10


async def test_a_named_session_outlives_its_client(jjq: Served) -> None:
    async with RemoteWorkStore(jjq.server.address) as store, AsyncClient(store) as client:
        assert (await client.session("me", 30.0)).id == "me"
        (task,) = await client.take("orders/billing")
    assert jjq.store.sessions == {"me": [0, 30.0]}
    async with RemoteWorkStore(jjq.server.address) as store, AsyncClient(store) as client:
        with pytest.raises(Conflict, match="not taken by you"):
            await client.ack("orders/billing", task)
        await client.session("me", 30.0)
        await client.ack("orders/billing", task)
