"""Wrong requests: a clear error that says what to do, and nothing changed."""

from __future__ import annotations

from typing import Any

import pytest

from coldstore.shared.errors import Conflict, InvalidInput, JjqError, NotFound
from hotstore.groups.values import RetryBackoff, Take
from tests.hotstore.kit import World
from tests.hotstore.work.kit import change, create, put, states, take

WRONG_SETTINGS: list[tuple[dict[str, Any], str]] = [
    ({"driver": "lifo"}, "driver 'lifo' is not known: use one of fifo, fifottl"),
    ({"ttr": 0.0}, "ttr is 0.0: use a number of seconds from 0.001"),
    ({"ttr": -1.0}, "ttr is -1.0"),
    ({"ttr": float("nan")}, "ttr is nan"),
    ({"ttr": 1e12}, "to 316224000"),
    ({"driver": "fifottl", "ttl": -5.0}, "ttl is -5.0"),
    ({"driver": "fifottl", "delay": -5.0}, "delay is -5.0"),
    ({"driver": "fifottl", "priority": 2**31}, "priority is 2147483648: use a whole number"),
    ({"driver": "fifottl", "priority": 1.5}, "priority is 1.5"),
    ({"driver": "limfifottl", "capacity": 0}, "capacity is 0: use a whole number from 1"),
    ({"max_attempts": 0}, "max_attempts is 0"),
    ({"on_exhausted": "explode"}, "use bury or drop"),
    ({"ttl": 5.0}, "driver fifo does not use ttl: leave it out, or choose a driver that does"),
    ({"capacity": 5}, "driver fifo does not use capacity.*limfifottl"),
    ({"per_key": 2}, "driver fifo does not use per_key.*utube"),
    ({"driver": "utube", "per_key": 0}, "per_key is 0"),
    ({"driver": "utube", "rate": 0.0}, "rate is 0.0"),
    ({"backoff": RetryBackoff(base=-1.0)}, "backoff.base is -1.0"),
    ({"backoff": RetryBackoff(factor=0.5)}, "backoff.factor is 0.5"),
    ({"backoff": RetryBackoff(jitter=2.0)}, "backoff.jitter is 2.0"),
]


@pytest.mark.parametrize(("settings", "text"), WRONG_SETTINGS, ids=[text for _, text in WRONG_SETTINGS])
async def test_settings_that_make_no_sense_are_refused(
    world: World, settings: dict[str, Any], text: str
) -> None:
    with pytest.raises(InvalidInput, match=text):
        await create(world.store, **settings)
    assert await world.store.list_groups() == []


async def test_a_group_and_a_subscriber_cannot_share_a_name(world: World) -> None:
    await world.store.create_subscriber("q", "mine")
    with pytest.raises(Conflict, match="has a subscriber mine"):
        await create(world.store, "q/mine")
    await create(world.store, "q/yours")
    with pytest.raises(Conflict, match="has a worker group yours"):
        await world.store.create_subscriber("q", "yours")


async def test_the_same_group_again_is_the_group_and_another_is_a_conflict(world: World) -> None:
    first = await create(world.store, max_attempts=3)
    assert (await create(world.store, max_attempts=3)).created_us == first.created_us
    with pytest.raises(Conflict, match="exists and was created with start 'beginning' and other settings"):
        await create(world.store, max_attempts=4)
    await world.store.create_queue("q" * 120)
    with pytest.raises(InvalidInput, match="have 220 characters, at most 200"):
        await create(world.store, "q" * 120 + "/" + "g" * 100)
    with pytest.raises(InvalidInput, match="is the ledger of a group"):
        await create(world.store, "q~g/g")


WRONG_ACKS = [
    ([(0, 1)], "task 0 is done", "done"),
    ([(1, 2)], "attempt 2 is over", "taken"),
    ([(2, 1)], "was not taken, it is ready", "ready"),
    ([(3, 0)], "was not taken, it is buried", "buried"),
    ([(9, 1)], "no task 9: the group has 0..4", None),
    ([(-1, 1)], "no task -1", None),
]


@pytest.mark.parametrize(("tasks", "text", "state"), WRONG_ACKS, ids=[text for _, text, _ in WRONG_ACKS])
async def test_each_wrong_ack_says_why_and_changes_nothing(
    world: World, tasks: list[tuple[int, int]], text: str, state: str | None
) -> None:
    store = world.store
    await create(store)
    await put(store, *[b"x"] * 5)
    await change(store, "ack", await take(store))
    await take(store)
    await change(store, "bury", [3])
    before = await states(store)
    refused = await change(store, "ack", tasks)
    assert refused.changed == 0
    (error,) = refused.errors
    assert text in error.message
    assert error.state == state
    assert await states(store) == before


async def test_a_batch_has_a_result_for_each_task(world: World) -> None:
    store = world.store
    await create(store)
    await put(store, *[b"x"] * 4)
    taken = await take(store, 3)
    outcome = await change(store, "ack", [taken[0], taken[0], (3, 1), taken[2]])
    assert (outcome.changed, [error.id for error in outcome.errors]) == (2, [0, 3])
    assert "named twice" in outcome.errors[0].message
    assert await states(store) == {"done": 2, "taken": 1, "ready": 1}


async def test_a_repeated_ack_counts_only_for_who_made_it(world: World) -> None:
    store = world.store
    await create(store, ttr=10.0)
    await put(store, *[b"x"] * 3)
    mine = await take(store, 3, session="a")
    await change(store, "ack", mine[:1], session="a")
    world.clock.advance(11.0)
    theirs = await take(store, 1, session="b")
    assert theirs == [(1, 2)]
    await change(store, "ack", theirs, session="b")
    again = await change(
        store, "ack", mine[:2], session="a", again=True
    )  # as a client does after a lost answer
    assert (again.changed, [(error.id, error.state) for error in again.errors]) == (1, [(1, "done")])
    assert again.states == {"done": 1}
    stranger = await change(
        store, "ack", mine[:1], session="b", again=True
    )  # the same attempt, after a lost take
    assert (stranger.changed, [error.id for error in stranger.errors]) == (0, [0])
    assert (await change(store, "ack", mine[:1], session="a")).changed == 0
    assert await states(store) == {"done": 2, "ready": 1}


@pytest.mark.parametrize(
    ("verb", "more", "text"),
    [
        ("touch", {"seconds": -1.0}, "seconds is -1.0"),
        ("touch", {}, "seconds is None"),
        ("nack", {"delay": -1.0}, "delay is -1.0"),
        ("release", {"priority": 3}, "does not use priorities"),
        ("ack", {"delay": 1.0}, "ack takes no delay"),
        ("nack", {"priority": 1}, "nack takes no priority"),
        ("explode", {}, "verb 'explode' is not known"),
    ],
)
async def test_a_change_that_is_wrong_as_a_whole_raises(
    world: World, verb: Any, more: dict[str, Any], text: str
) -> None:
    await create(world.store)
    await put(world.store, b"0")
    taken = await take(world.store)
    with pytest.raises(InvalidInput, match=text):
        await change(world.store, verb, taken, **more)
    assert await states(world.store) == {"taken": 1}


@pytest.mark.parametrize(
    ("header", "value", "text"),
    [
        ("jjq-ttl", b"-1", "ttl is -1.0"),
        ("jjq-ttl", b"soon", "header jjq-ttl is b'soon', which is no number"),
        ("jjq-delay", b"inf", "delay is inf"),
        ("jjq-priority", b"1.5", "no number"),
        ("jjq-priority", b"99999999999", "priority is 99999999999"),
        ("jjq-ttr", b"0", "ttr is 0.0"),
        ("jjq-other", b"1", "is reserved"),
    ],
)
async def test_options_that_make_no_sense_are_refused_before_anything_is_written(
    world: World, header: str, value: bytes, text: str
) -> None:
    from coldstore.shared.batch import payload

    await create(world.store, driver="fifottl")
    batch = payload("bytes", [b"fine", b"wrong"], headers=[None, {header: value}])
    with pytest.raises(InvalidInput, match=text) as refused:
        await world.store.push("q", batch)
    assert refused.value.position == 1
    assert (await world.store.get_queue("q")).next_offset == 0


async def test_options_that_no_group_uses_are_refused(world: World) -> None:
    await put(world.store, b"0", ttl=5.0)  # no group: a later one may use them
    await create(world.store)
    with pytest.raises(InvalidInput, match="no group of queue q uses jjq-ttl"):
        await put(world.store, b"0", ttl=5.0)
    await create(world.store, "q/times", driver="fifottl")
    await put(world.store, b"0", ttl=5.0)


async def test_unknown_groups_and_wrong_takes(world: World) -> None:
    store = world.store
    with pytest.raises(NotFound, match="queue q has no group g"):
        await take(store)
    with pytest.raises(InvalidInput, match="give its id"):
        await take(store, group="q")
    with pytest.raises(NotFound, match="no queue other"):
        await take(store, group="other/g")
    await create(store)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"max": 0}, "max is 0"), ({"wait": -1.0}, "wait must be"), ({"ttr": 0.0}, "ttr is 0.0"),
        ({"stage": "cold"}, "stage 'cold'"), ({"session": "s" * 500}, "session"), ({"worker": "w" * 500}, "worker"),
    ]  # fmt: skip
    for arguments, text in wrong:
        with pytest.raises(InvalidInput, match=text):
            await store.take(Take("q/g", **arguments))
    with pytest.raises(InvalidInput, match="needs an id"):
        await store.attach_session("", 1.0)
    with pytest.raises(JjqError, match="ttr is -1"):
        await store.attach_session("s", -1.0)
