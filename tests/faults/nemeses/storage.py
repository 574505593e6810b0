"""Object storage, through the fault proxy: errors, throttling, lost replies, held requests, an outage."""

from __future__ import annotations

from tests.faults.nemeses.nemesis import Harm, Nemesis
from tests.servers.faultproxy import FaultProxy


def _proxy(harm: Harm) -> FaultProxy:
    assert harm.cluster.s3 is not None
    return harm.cluster.s3


def _errors(harm: Harm) -> None:
    """One request in three."""
    for nth in range(1 + harm.below(3), 300, 3):
        _proxy(harm).fail(500, nth=nth)


def _throttled(harm: Harm) -> None:
    for nth in range(1 + harm.below(2), 300, 2):
        _proxy(harm).fail(503, "SlowDown", nth=nth)


def _lost_reply(harm: Harm) -> None:
    """Applied, and nobody hears of it: every other put."""
    for nth in range(1, 200, 2):
        _proxy(harm).lose_reply(method="PUT", nth=nth)


def _held(harm: Harm) -> None:
    """Some requests hang; they go through when the fault ends."""
    for nth in range(1 + harm.below(3), 30, 3):
        _proxy(harm).hold(nth=nth, reply=harm.below(2) == 0)


def _outage(harm: Harm) -> None:
    _proxy(harm).lose_request(times=None)


def _heal(harm: Harm) -> None:
    _proxy(harm).heal()


S3 = (
    Nemesis("s3-500", _errors, _heal, s3=True),
    Nemesis("s3-503", _throttled, _heal, s3=True),
    Nemesis("s3-lost-reply", _lost_reply, _heal, s3=True),
    Nemesis("s3-held", _held, _heal, s3=True),
    Nemesis("s3-outage", _outage, _heal, s3=True),
)
