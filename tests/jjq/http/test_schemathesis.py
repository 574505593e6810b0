"""Property tests of the whole REST surface by schemathesis, from /openapi.json alone: no 500, ever."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.servers.jjq_server import JjqServer

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
EXAMPLES = 2


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A server, and where it speaks HTTP."""
    with JjqServer(tmp_path_factory.mktemp("server"), "--http-listen", "127.0.0.1:0") as server:
        yield "http://" + server.log.read_text().rpartition("HTTP on ")[2].split()[0].rstrip(",")


@pytest.mark.timeout(300)
def test_no_request_that_the_schema_allows_or_forbids_fails_the_server(http: str) -> None:
    made: list[tuple[str, str, Any]] = [("PUT", "/v1/queues/orders", {"content": "json"}),
            ("POST", "/v1/queues/orders/elements", {"elements": [{"value": 1}]}),
            ("POST", "/v1/queues/orders/subscribers", {"name": "s", "start": "beginning"}),
            ("POST", "/v1/queues/orders/groups", {"name": "g"}),
            ("POST", "/queues", {"name": "orders"})]  # fmt: skip
    for method, path, document in made:
        assert requests.request(method, http + path, json=document, timeout=20).ok
    schema = schemathesis.openapi.from_url(f"{http}/openapi.json")
    statuses: Counter[int] = Counter()
    names = set()
    for result in schema.get_all_operations():
        operation: Any = result.ok() if isinstance(result, Ok) else pytest.fail(str(result))
        name = operation.definition.raw["operationId"]
        names.add(name)
        if name in {"create_key", "sql"}:
            continue  # a key would close the server for the others; each query is a process
        modes = (
            GenerationMode if len(names) % 2 else [GenerationMode.POSITIVE]
        )  # making cases takes most of the time
        for mode in modes:
            with suppress(Unsatisfiable):  # nothing can be wrong with a request that has no parameters
                bounded(operation, mode)(partial(try_case, name, statuses))()
    assert len(names) > 30
    assert statuses[200] > 10
    assert sum(count for status, count in statuses.items() if 400 <= status < 500) > 40


def try_case(name: str, statuses: Counter[int], case: Any) -> None:
    """One request; half of them are about a queue, a subscriber, a group and a task that are there."""
    there = {"queue": "orders", "subscriber": "s", "group": "g", "task": "0", "message": "1"}
    if case.path_parameters and "delete" not in name and len(repr(case.body)) % 2:
        case.path_parameters |= {key: value for key, value in there.items() if key in case.path_parameters}
    for place in (case.query, case.body):
        if isinstance(place, dict):  # these would never end, or take very long
            place.pop("follow", None)
            place.pop("wait_seconds", None)
    if name == "sqew_poll":
        case.query = {**(case.query or {}), "wait_ms": 0}
    case.headers = {**(case.headers or {}), "Accept": "application/json, */*;q=0.5"}
    try:
        response = case.call(timeout=20)
    except (ValueError, UnicodeError, requests.exceptions.InvalidHeader):
        return  # what requests itself refuses to send
    statuses[response.status_code] += 1
    assert response.status_code < 500 or name == "ready", (case.as_curl_command(), response.text)
    case.validate_response(response, checks=CHECKS)


def bounded(operation: Any, mode: GenerationMode) -> Any:
    """A decorator: a few examples of an operation, the same in every run."""
    limits = settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],
    )

    def wrap(function: Any) -> Any:
        @given(case=operation.as_strategy(generation_mode=mode))
        def check(case: Any) -> None:
            function(case)

        return limits(check)

    return wrap
