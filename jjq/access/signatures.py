"""Signed queues: a push to one of them shows that its sender knows the queue's secret, and that nobody changed it.

    jjq-signature: t=<seconds since 1970>,v1=<hex of HMAC-SHA256(secret, "<t>." + body)>

A header of an HTTP request, whose body is signed as it is sent; or metadata of a Push over gRPC, whose message is. It
is checked over the raw bytes, before anything is decoded. The time may be `SIGNATURE_SECONDS` away from the server's,
and within that time a signature is taken once: the same push again is refused, so a retry is signed again. A PushStream
has no place for signatures, and is refused for such a queue.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from itertools import islice
from typing import Final

from coldstore.shared.bounded_dict import BoundedDict
from coldstore.shared.clock import Clock
from coldstore.shared.errors import Denied
from jjq.limits import SIGNATURE_SECONDS, SIGNATURES_MAX

HEADER: Final = "jjq-signature"
_FORM: Final = re.compile(r"t=(\d{1,12}),v1=([0-9a-f]{64})")


def sign(secret: str, body: bytes, now_us: int) -> str:
    """The header of a push; for clients and tests."""
    seconds = now_us // 1_000_000
    return f"t={seconds},v1={_digest(secret, seconds, body)}"


def _digest(secret: str, seconds: int, body: bytes) -> str:
    return hmac.new(secret.encode(), b"%d." % seconds + body, hashlib.sha256).hexdigest()


class Signatures:
    """Checks signatures, and remembers those that it took. Each node remembers its own."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._taken: BoundedDict[str, int] = BoundedDict(SIGNATURES_MAX)

    def check(self, queue: str, secret: str, header: str | None, body: bytes) -> None:
        """Return if the sender of `body` knows the secret of the queue; `Denied` if not."""
        if header is None:
            raise Denied(
                f"pushes to queue {queue!r} are signed: send {HEADER}: t=SECONDS,v1=HMAC, as docs/security.md says; "
                f"a PushStream cannot be signed"
            )
        found = _FORM.fullmatch(header.replace(" ", ""))
        if found is None:
            raise Denied(
                f"the signature of a push to queue {queue!r} is not t=SECONDS,v1=64 hexadecimal digits"
            )
        seconds, given = int(found[1]), found[2]
        now = self._clock.now_us() // 1_000_000
        if not hmac.compare_digest(given, _digest(secret, seconds, body)):
            raise Denied(
                f"the signature of a push to queue {queue!r} is wrong: was it made with the current secret?"
            )
        if abs(now - seconds) > SIGNATURE_SECONDS:
            raise Denied(
                f"the signature of a push to queue {queue!r} is {abs(now - seconds)} s away from the server's time; "
                f"at most {SIGNATURE_SECONDS} s are allowed: sign it again, and set the clock"
            )
        self._forget(now)
        if given in self._taken:
            raise Denied(
                f"this push to queue {queue!r} was accepted before, with the same signature: sign it again"
            )
        if len(self._taken) >= SIGNATURES_MAX:
            raise Denied("more signed pushes came than can be remembered: wait a moment, then sign again")
        self._taken[given] = now

    def _forget(self, now: int) -> None:
        """Drop what is too old to be shown again. Those that came first are first."""
        for given in list(islice(self._taken, 16)):
            taken = self._taken.get(given)
            if taken is not None and now - taken <= 2 * SIGNATURE_SECONDS:
                return
            self._taken.pop(given)
