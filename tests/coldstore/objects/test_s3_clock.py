"""A clock that is wrong: the store refuses us, and the error says the clock, which way and by how much."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import botocore.auth
import pytest
from botocore.exceptions import ClientError

from coldstore.objects.s3 import S3Objects
from coldstore.objects.s3_errors import translate_s3_errors
from coldstore.shared.clock import ManualClock, SystemClock
from coldstore.shared.errors import Denied
from tests.coldstore.objects.test_s3 import VERBS
from tests.servers.s3 import S3Server

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
DATE = {"date": "Thu, 01 Jan 2026 12:00:00 GMT"}


class Shifted(SystemClock):
    """A clock that is wrong by so many seconds."""

    def __init__(self, seconds: int) -> None:
        self._shift_us = seconds * 1_000_000

    def now_us(self) -> int:
        return super().now_us() + self._shift_us


@pytest.mark.parametrize(
    ("shift", "how"),
    [(3_600, "60 minutes ahead of"), (-3_600, "60 minutes behind"), (3 * 86_400, "3 days ahead of")],
)
def test_a_wrong_clock_is_told_by_every_verb(
    seaweed: S3Server, monkeypatch: pytest.MonkeyPatch, shift: int, how: str
) -> None:
    clock = Shifted(shift)

    def now(remove_tzinfo: bool = True) -> datetime:
        found = datetime.fromtimestamp(clock.now_us() / 1e6, UTC)
        return found.replace(tzinfo=None) if remove_tzinfo else found

    monkeypatch.setattr(botocore.auth, "get_current_datetime", now)
    with closing(S3Objects(seaweed.bucket, "x", seaweed.settings(), clock=clock)) as objects:
        for use in VERBS:
            with pytest.raises(Denied, match=f"this machine's clock is {how} the store's; set the clock"):
                use(objects)


def refused(code: str, headers: dict[str, str] | None = None, **said: str) -> str:
    """What is said of such a reply, where our clock says noon."""
    reply: Any = {
        "Error": {"Code": code, "Message": "no", **said},
        "ResponseMetadata": {"HTTPStatusCode": 403, "HTTPHeaders": headers or {}},
    }
    clock = ManualClock(round(NOON.timestamp() * 1_000_000))
    with pytest.raises(Denied) as refusal, translate_s3_errors("read key", "bucket", clock):
        raise ClientError(reply, "GetObject")
    return str(refusal.value)


def test_the_times_in_the_reply_count_more_than_the_header() -> None:
    text = refused(
        "RequestTimeTooSkewed", DATE, RequestTime="20260101T100000Z", ServerTime="2026-01-01T12:30:00Z"
    )
    assert "2.5 hours behind" in text
    assert "credentials" not in text


def test_without_any_time_in_the_reply_the_clock_is_named_all_the_same() -> None:
    assert "clock is too far from the store's" in refused("RequestTimeTooSkewed")
    assert "clock is too far" in refused("RequestTimeTooSkewed", {"date": "soon"}, ServerTime="later")


def test_a_refusal_without_a_reason_blames_the_clock_only_if_it_is_far_off() -> None:
    late = {"date": (NOON + timedelta(hours=1)).strftime("%a, %d %b %Y %H:%M:%S GMT")}
    assert "60 minutes behind" in refused("403", late)
    for code, headers in (("403", DATE), ("403", {}), ("AccessDenied", late), ("InvalidAccessKeyId", late)):
        assert "use credentials that have the right" in refused(code, headers)
