"""What went wrong with a request to S3, in our words: try again, or tell the caller what to do.

The hard question is whether a failed request may have taken effect. Only where the store or the
network says that it was not looked at (refused connection, throttling, a lost race) is there no
doubt; a 500 or a bare 503 from some proxy proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

from botocore import exceptions as boto
from botocore.parsers import ResponseParserError
from urllib3.exceptions import HTTPError

from coldstore.objects.retry import Transient
from coldstore.shared.clock import Clock
from coldstore.shared.errors import Conflict, Denied, Exhausted, InvalidInput, JjqError, NotFound

_THROTTLED: Final = {
    "SlowDown", "Throttling", "ThrottlingException", "TooManyRequests", "RequestLimitExceeded",
    "BandwidthLimitExceeded",
}  # fmt: skip
_LOST_RACE: Final = {"ConditionalRequestConflict", "OperationAborted"}
_LATE: Final = {"RequestTimeout", "IncompleteBody"}  # come as 400
_DENIED: Final = {
    "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken",
    "TokenRefreshRequired", "AccountProblem",
}  # fmt: skip
_SKEWED: Final = {"RequestTimeTooSkewed", "RequestExpired", "RequestInTheFuture"}
_SKEW_SECONDS: Final = 300.0  # what the strictest stores allow; AWS allows 900
_FULL: Final = {"InsufficientStorage", "QuotaExceeded", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded"}
_ELSEWHERE: Final = {
    "PermanentRedirect", "TemporaryRedirect", "AuthorizationHeaderMalformed",
    "IllegalLocationConstraintException",
}  # fmt: skip

_CREDENTIALS: Final = (
    boto.NoCredentialsError, boto.PartialCredentialsError, boto.CredentialRetrievalError,
    boto.NoAuthTokenError, boto.TokenRetrievalError, boto.ProfileNotFound,
)  # fmt: skip
_UNSENT: Final = (boto.ConnectTimeoutError, boto.EndpointConnectionError, boto.ProxyConnectionError)
_LOST: Final = (
    boto.HTTPClientError, boto.ConnectionError, boto.IncompleteReadError, boto.ChecksumError,
    ResponseParserError, HTTPError,
)  # fmt: skip


class BeyondEnd(Exception):
    """The range starts at or after the object's end; the store would not say its etag."""


@contextmanager
def translate_s3_errors(doing: str, bucket: str, clock: Clock) -> Iterator[None]:
    """Turn the SDK's errors into ours, or into `Transient`."""
    try:
        yield
    except boto.ClientError as error:
        raise _skewed(error, doing, clock) or _refused(error, doing, bucket) from error
    except (boto.BotoCoreError, ResponseParserError, HTTPError) as error:
        raise _failed(error, doing) from error


def status_of(error: boto.ClientError) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _skewed(error: boto.ClientError, doing: str, clock: Clock) -> Denied | None:
    """Whether the clock is wrong, and not the credentials: the store says so, or it refuses a HEAD, whose reply has no
    body, and its time is far from ours."""
    code, status = error.response.get("Error", {}).get("Code", ""), status_of(error)
    ahead = _seconds_ahead(error, clock)
    bare = status == 403 and code in {"403", "Forbidden", ""}
    if code not in _SKEWED and not (bare and ahead is not None and abs(ahead) > _SKEW_SECONDS):
        return None
    if ahead is None or abs(ahead) < 1:
        how = "is too far from the store's"
    else:
        how = f"is {_span(abs(ahead))} {'ahead of' if ahead > 0 else 'behind'} the store's"
    return Denied(
        f"cannot {doing}: the store refuses it, since this machine's clock {how}; set the clock (NTP), then retry"
    )


def _seconds_ahead(error: boto.ClientError, clock: Clock) -> float | None:
    """How far our clock is ahead of the store's, by the time in its reply; None if the reply has no time."""
    said: Mapping[str, Any] = error.response.get("Error", {})
    headers = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    theirs = _instant(said.get("ServerTime")) or _instant(headers.get("date"))
    if theirs is None:
        return None
    ours = _instant(said.get("RequestTime")) or datetime.fromtimestamp(clock.now_us() / 1e6, UTC)
    return (ours - theirs).total_seconds()


def _instant(text: object) -> datetime | None:
    """A time as AWS (ISO 8601, with or without its signs) or HTTP writes it."""
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        with suppress(ValueError, TypeError):
            found = read(str(text))
            return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return None


def _span(seconds: float) -> str:
    for unit, name in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds:.0f} seconds"


def _refused(error: boto.ClientError, doing: str, bucket: str) -> JjqError | Transient | BeyondEnd:
    """The store answered, with an error."""
    code, status = error.response.get("Error", {}).get("Code", ""), status_of(error)
    says = _line(f"{status} {code} {error.response.get('Error', {}).get('Message', '')}")
    if status in {409, 429} or code in _THROTTLED | _LOST_RACE:
        return Transient(says, doubt=False)
    if code in _FULL or status == 507:
        return Exhausted(f"cannot {doing}: {says}; make room, then retry", retry_after=5.0)
    if (status >= 500 and status != 501) or status == 408 or code in _LATE:
        return Transient(says, doubt=True)
    if code == "NoSuchBucket":
        return InvalidInput(f"cannot {doing}: bucket {bucket} does not exist; create it, or correct its name")
    if code in _ELSEWHERE:
        return InvalidInput(f"cannot {doing}: {says}; set the region of bucket {bucket}")
    if status in {401, 403} or code in _DENIED:
        return Denied(f"cannot {doing}: {says}; use credentials that have the right")
    if status == 404:
        return NotFound(f"cannot {doing}: no such object")
    if status == 412:
        return Conflict(f"cannot {doing}: it is not in the state that was expected")
    if status == 416:
        return BeyondEnd()
    return InvalidInput(f"cannot {doing}: the store answered {says}")


def _failed(error: Exception, doing: str) -> JjqError | Transient:
    """No answer, or none that could be read."""
    says = _line(str(error))
    if isinstance(error, _CREDENTIALS):
        return Denied(f"cannot {doing}: {says}; set the access key and the secret key, or a role")
    if isinstance(error, boto.SSLError) and "CERTIFICATE" in says.upper():
        return InvalidInput(f"cannot {doing}: {says}; correct the endpoint or its certificate")
    if isinstance(error, _UNSENT):
        return Transient(says, doubt=False)
    if isinstance(error, _LOST):
        return Transient(says, doubt=True)
    return InvalidInput(f"cannot {doing}: {says}")


def _line(text: str) -> str:
    return " ".join(text.split())[:200]
