"""Mistakes of callers: whatever is given, what comes out is an error of ours, or a TypeError, and a sentence."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

import jjq
from coldstore.shared.errors import KINDS
from coldstore.shared.limits import ELEMENT_BYTES_MAX, KIB
from jjq.client.client import AsyncClient
from tests.jjq.client.conftest import SMALL
from tests.jjq.client.test_surface import GROUP_VERBS, VERBS
from tests.servers.jjq_server import JjqServer

NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001 - that is the mistake
WRONG: list[Any] = [
    None, True, -1, 0, 7, 2**70, 1.5, float("nan"), float("inf"), "", "x", "a/b/c", "\udc80", "\x00", b"x",
    bytearray(b"x"), [], [1], [None], [[]], [{}], {}, {"a": 1}, {1: 2}, (), object(), NAIVE, timedelta(-1),
    Path("x"), pa.array([1]), pa.record_batch({"a": [1]}), print, ValueError("x"),
]  # fmt: skip
RIGHT: dict[str, dict[str, Any]] = {
    "create_queue": {"name": "orders"},
    "get_queue": {"queue": "orders"},
    "list_blocks": {"queue": "orders"},
    "seal": {"queue": "orders"},
    "create_subscriber": {"queue": "orders"},
    "get_subscriber": {"subscriber": "orders/x"},
    "delete_subscriber": {"subscriber": "orders/x"},
    "seek": {"subscriber": "orders/x", "start": "beginning"},
    "sleep": {"subscriber": "orders/x"},
    "wakeup": {"subscriber": "orders/x"},
    "push": {"queue": "orders", "values": [b"a"]},
    "pop": {"subscriber": "orders/x"},
    "pop_batch": {"subscriber": "orders/x"},
    "peek": {"subscriber": "orders/x"},
    "peek_batch": {"subscriber": "orders/x"},
    "producer": {"queue": "orders"},
    "subscribe": {"subscriber": "orders/x"},
    "replay": {"queue": "orders"},
    "create_group": {"queue": "orders", "name": "other"},
    "complete": {"group": "orders/g", "tasks": [], "push": {"orders": [b"a"]}},
    "peek_task": {"group": "orders/g", "id": 0},
    "touch": {"group": "orders/g", "tasks": [], "seconds": 1.0},
    "seek_group": {"group": "orders/g", "start": "beginning"},
    "tasks_at": {"group": "orders/g", "time": datetime(2026, 1, 1, tzinfo=UTC)},
    "kick": {"group": "orders/g"},
    "delete_tasks": {"group": "orders/g", "ids": []},
    "work": {"group": "orders/g", "handler": print},
    "session": {},
}
for _verb in GROUP_VERBS:
    RIGHT.setdefault(_verb, {"group": "orders/g"})
    if _verb in {"ack", "nack", "release", "bury"}:
        RIGHT[_verb] = {"group": "orders/g", "tasks": []}
UNCLEAR = ("bad argument type", "has no attribute", "not supported between", "unhashable", "object is not")


REFUSED = object()


def judged(call: Callable[[], Any], what: str) -> Any:
    """The result, or REFUSED; what is raised must be clear."""
    try:
        return call()
    except (jjq.JjqError, TypeError) as raised:
        error = raised
    said = str(error)
    assert " " in said.strip(), (what, error)
    assert not [words for words in UNCLEAR if words in said], (what, error)
    assert isinstance(error, jjq.JjqError) or "argument" in said, (what, error)
    assert type(error).__module__ in {"jjq", "builtins"}, (what, error)
    return REFUSED


@pytest.fixture(scope="module", params=["embedded", "remote"])
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[jjq.Client]:
    folder = tmp_path_factory.mktemp("mistakes")
    if request.param == "embedded":
        with jjq.open(folder, settings=SMALL) as client:
            yield client
    else:
        with JjqServer(folder) as server, jjq.connect(server.address, timeout=20.0) as client:
            yield client


@pytest.fixture
def any_client(shared: jjq.Client) -> jjq.Client:
    """With a queue, elements in it, and nothing else that an earlier test may have left in its way."""
    shared.create_queue("orders")
    return shared


def fresh_group(client: jjq.Client) -> None:
    """With tasks that are ready, whatever the last call did."""
    with suppress(jjq.NotFound):
        client.delete_group("orders/g", force=True)
    client.create_group("orders", "g")


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in {"close", "list_queues"}])
def test_every_verb_answers_wrong_arguments_with_a_sentence(any_client: jjq.Client, verb: str) -> None:
    any_client.push("orders", [b"%d" % n for n in range(10)])
    right = RIGHT.get(verb, {})
    changed = True
    for name in list(inspect.signature(getattr(AsyncClient, verb)).parameters)[1:]:
        for wrong in WRONG:
            if changed:  # a call that was refused has changed nothing, which the next one then relies on
                any_client.create_subscriber("orders", "x", "beginning")
                any_client.seek("orders/x", "beginning")
                if verb in GROUP_VERBS:
                    fresh_group(any_client)
            what = f"{verb}({name}={wrong!r})"
            given = {**right, name: wrong}
            made = judged(lambda given=given: getattr(any_client, verb)(**given), what)  # type: ignore[misc]
            changed = made is not REFUSED
            if isinstance(made, jjq.Producer | jjq.Subscription | jjq.Replay):
                judged(made.close, what)


def test_a_producer_answers_wrong_elements_with_a_sentence(any_client: jjq.Client) -> None:
    producer = any_client.producer("orders")
    for wrong in WRONG:
        for given in ({"value": wrong}, {"value": b"a", "key": wrong}, {"value": b"a", "headers": wrong}):
            judged(lambda given=given: producer.push(**given), f"push({given})")  # type: ignore[misc]
    judged(producer.close, "close")


@pytest.mark.parametrize("name", ["servers", "timeout", "tls"])
def test_connecting_answers_wrong_arguments_with_a_sentence(name: str) -> None:
    for wrong in WRONG:
        made = judged(lambda wrong=wrong: jjq.connect(**{name: wrong}), f"connect({name}={wrong!r})")  # type: ignore[misc]
        if made is not REFUSED:
            made.close()


@pytest.mark.parametrize("name", ["path", "cold", "s3", "settings"])
def test_opening_answers_wrong_arguments_with_a_sentence(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for wrong in WRONG:
        if wrong is None or isinstance(wrong, str | Path):
            continue  # a folder as good as any, or none given
        what = f"open({name}={wrong!r})"
        made = judged(lambda wrong=wrong: jjq.open(**{"path": tmp_path / "d", name: wrong}), what)  # type: ignore[misc]
        assert made is REFUSED, what


@pytest.mark.parametrize("name", ["authority", "certificate", "key"])
def test_files_of_tls_may_be_texts_and_nothing_else_but_paths(name: str) -> None:
    assert jjq.ClientTls(authority="ca.pem") == jjq.ClientTls(authority=Path("ca.pem"))  # type: ignore[arg-type]
    for wrong in WRONG:
        judged(lambda wrong=wrong: jjq.ClientTls(**{name: wrong}), f"ClientTls({name}={wrong!r})")  # type: ignore[misc]


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (
            lambda c: c.push("orders", [b"a"], headers={"a": "b"}),
            "headers is a list with one entry for each value",
        ),
        (
            lambda c: c.push("orders", [b"a"], headers=[("a", "b")]),
            "element 0: its headers are a tuple: give a dict",
        ),
        (lambda c: c.push("orders", {"a": 1}), r"push \[json.dumps\(value\)\]"),
        (lambda c: c.push("orders", [{"a": 1}]), r"push json.dumps\(value\)"),
        (lambda c: c.producer("orders").push({"a": 1}), r"push json.dumps\(value\)"),
        (
            lambda c: c.push("orders", pa.array([b"x" * 20_000_000])),
            f"element 0: .* at most {ELEMENT_BYTES_MAX} are allowed",
        ),
        (lambda c: c.create_subscriber("orders", start=NAIVE), "has no zone"),
        (lambda c: c.create_subscriber("orders", start=timedelta(-1)), "lies in the future"),
        (lambda c: c.seek("orders/x", 1.5), "an int .an offset., a datetime with its zone"),
        (lambda c: c.get_subscriber(7), "subscriber is 7 .int.: give an id such as 'orders/billing'"),
        (lambda c: c.create_queue("other", block_bytes="much"), "is not a size"),
        (lambda _: jjq.connect(tls=cast("Any", True)), "tls is True .bool.: give a jjq.ClientTls"),
    ],
    ids=[
        "headers",
        "pairs",
        "dict",
        "dicts",
        "produced",
        "large",
        "naive",
        "future",
        "fraction",
        "number",
        "size",
        "tls",
    ],
)
def test_common_mistakes_are_named_with_what_to_do(
    embedded: jjq.Client, call: Callable[[jjq.Client], Any], why: str
) -> None:
    embedded.create_queue("orders")
    embedded.create_subscriber("orders", "x", "beginning")
    with pytest.raises(jjq.InvalidInput, match=why):
        call(embedded)


def test_one_large_element_is_named_by_its_limit_through_a_server_as_well(tmp_path: Path) -> None:
    with JjqServer(tmp_path) as server, jjq.connect(server.address) as client:
        client.create_queue("orders")
        with pytest.raises(jjq.InvalidInput, match=f"element 1: .* at most {ELEMENT_BYTES_MAX} are allowed"):
            client.push("orders", pa.array([b"a", b"x" * 20_000_000]))


def test_starting_points_may_be_offsets_times_and_ages(any_client: jjq.Client) -> None:
    any_client.create_queue("timed")
    receipt = any_client.push("timed", [b"%d" % n for n in range(10)])
    assert any_client.create_subscriber("timed", "a", 4).offset == 4
    assert any_client.create_subscriber("timed", "b", receipt.timestamp).offset == 0
    assert any_client.create_subscriber("timed", "c", timedelta(days=1)).offset == 0
    assert any_client.seek("timed/a", 7).offset == 7
    assert any_client.seek("timed/a", datetime(2100, 1, 1, tzinfo=UTC)).offset == 10
    assert any_client.replay("timed", 2, 5).to_table().num_rows == 3
    assert (
        any_client.replay("timed", timedelta(hours=1), receipt.timestamp + timedelta(1)).to_table().num_rows
        == 10
    )


def test_sizes_may_be_written_as_people_do(embedded: jjq.Client) -> None:
    assert embedded.create_queue("orders", block_bytes="64KiB").block_bytes == 64 * KIB


@pytest.mark.parametrize("kind", [*KINDS, jjq.Fenced, jjq.JjqError])
def test_errors_are_known_by_the_names_that_users_import_and_travel_between_processes(
    kind: type[jjq.JjqError],
) -> None:
    error = kind("why", **({"first": 1, "next": 2} if kind is jjq.OutOfRange else {}))
    assert kind.__module__ == "jjq"
    assert getattr(jjq, kind.__name__) is kind
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.__dict__) == (kind, "why", error.__dict__)
