"""Options are read once, in any case, and what is wrong with them is said in one line."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from coldstore.shared.errors import InvalidInput
from jjq.spark.options import TABLE_NAMES, Options

HERE = {"root": "/somewhere", "queue": "orders"}


def test_keys_come_in_any_case_and_values_with_blanks() -> None:
    found = Options.parse({"ROOT": " s3://bucket/jjq ", "Queue": "orders", "s3-Endpoint": "http://here:1"})
    assert (found.root, found.queue, found.s3.endpoint) == ("s3://bucket/jjq", "orders", "http://here:1")
    assert (found.start, found.end, found.on_damage) == ("beginning", "end", "fail")


def test_they_can_be_pickled_and_said_again() -> None:
    more = {"s3_access_key": "me", "s3_secret_key": "hush", "tls_authority": "/ca.pem", "server": "a:1,b:2"}
    found = Options.parse(HERE | more | {"columns": "value, offset", "partition_bytes": "1000000"})
    assert pickle.loads(pickle.dumps(found)) == found
    assert Options.parse(found.to_spark()) == found
    assert found.columns == ("value", "offset")


def test_secrets_are_not_shown() -> None:
    found = Options.parse(
        HERE | {"s3_access_key": "my-name", "s3_secret_key": "hush", "s3_session_token": "pst"}
    )
    assert not any(secret in repr(found) for secret in ("my-name", "hush", "pst"))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"queue": "orders"}, "say where the queue is: option root"),
        ({"root": "/somewhere"}, "option queue is missing"),
        (HERE | {"queu": "orders"}, "option 'queu' is not known: use root, server"),
        (HERE | {"queue": "../etc"}, "queue name '../etc' is not allowed"),
        (HERE | {"start": "yesterday"}, "starting point 'yesterday' is not known"),
        (HERE | {"end": "time:2026-01-31T12:00:00"}, "has no zone"),
        (HERE | {"on_damage": "ignore"}, "on_damage is 'ignore': use fail or skip"),
        (HERE | {"push_filters": "once"}, "option 'push_filters' is not known"),
        (HERE | {"partition_bytes": "many"}, "partition_bytes is 'many': use a whole number"),
        (HERE | {"partition_bytes": "7"}, "partition_bytes is 7: use at least 65536"),
        (HERE | {"columns": "value,colour"}, "choose from offset, timestamp, key, value, headers"),
        (HERE | {"columns": "value,value"}, "choose from"),
        (HERE | {"s3_access_key": "me"}, "both the S3 access key and the secret key"),
        (HERE | {"s3_endpoint": "here:1"}, "the S3 endpoint must be"),
        (HERE | {"tls_key": "/key.pem"}, "mTLS needs both certificate and key"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Options.parse(given)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_options_of_tables_are_read_and_said_again() -> None:
    found = Options.parse(HERE | {"push_filters": "once", "times": "-5,7"}, also=TABLE_NAMES)
    assert (found.push_filters, found.times) == ("once", (-5, 7))
    assert Options.parse(found.to_spark(), also=TABLE_NAMES) == found
    with pytest.raises(InvalidInput, match="push_filters is 'true': use none or once"):
        Options.parse(HERE | {"push_filters": "true"}, also=TABLE_NAMES)


def test_a_caller_may_know_more_options() -> None:
    assert Options.parse(HERE | {"MaxRate": "5"}, also=("maxrate",)).queue == "orders"
