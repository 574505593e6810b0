"""Object storage, through the fault proxies, of one node or of all: errors, throttling, lost replies, an outage, …"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from tests.faults.nemeses.nemesis import Harm, Nemesis
from tests.servers.faultproxy import FaultProxy
from tests.servers.waiting import wait_until


def _proxies(harm: Harm) -> Sequence[FaultProxy]:
    assert harm.cluster.s3
    return harm.some(harm.cluster.s3)


def _errors(harm: Harm) -> None:
    """One request in three."""
    for proxy in _proxies(harm):
        for nth in range(1 + harm.below(3), 300, 3):
            proxy.fail(500, nth=nth)


def _throttled(harm: Harm) -> None:
    for proxy in _proxies(harm):
        for nth in range(1 + harm.below(2), 300, 2):
            proxy.fail(503, "SlowDown", nth=nth)


def _lost_reply(harm: Harm) -> None:
    """Applied, and nobody hears of it: every other put."""
    for proxy in _proxies(harm):
        proxy.lost_replies = 0
        for nth in range(1, 200, 2):
            proxy.lose_reply(method="PUT", nth=nth)


def _held(harm: Harm) -> None:
    """Some requests hang; they go through when the fault ends."""
    for proxy in _proxies(harm):
        for nth in range(1 + harm.below(3), 30, 3):
            proxy.hold(nth=nth, reply=harm.below(2) == 0)


def _slow(harm: Harm) -> None:
    for proxy in _proxies(harm):
        proxy.delay(0.02 + 0.3 * harm.chance.jitter(), times=None)


def _outage(harm: Harm) -> None:
    for proxy in _proxies(harm):
        proxy.lose_request(times=None)


def _heal(harm: Harm) -> None:
    for proxy in harm.cluster.s3:
        proxy.heal()


def _heal_lost_reply(harm: Harm) -> None:
    """Not before it has hit somebody: on a slow machine a node may put nothing for seconds."""
    with suppress(AssertionError):  # or never: then nothing was to be put
        wait_until(lambda: any(proxy.lost_replies for proxy in harm.cluster.s3), "a reply is lost", 10)
    _heal(harm)


S3 = (
    Nemesis("s3-500", _errors, _heal, s3=True),
    Nemesis("s3-503", _throttled, _heal, s3=True),
    Nemesis("s3-lost-reply", _lost_reply, _heal_lost_reply, s3=True),
    Nemesis("s3-held", _held, _heal, s3=True),
    Nemesis("s3-slow", _slow, _heal, s3=True),
    Nemesis("s3-outage", _outage, _heal, s3=True),
)
