"""Between clients and servers: connections cut in the middle of calls, requests or replies that vanish, no way."""

from __future__ import annotations

from tests.faults.nemeses.nemesis import Harm, Nemesis


def _cut(harm: Harm) -> None:
    """Cut after some bytes of replies, again and again."""
    for link in harm.some(harm.cluster.links):
        link.set(cut_after=100 + harm.below(20_000), cut_again=10)


def _swallow(harm: Harm) -> None:
    for link in harm.some(harm.cluster.links):
        link.set(swallow=True)


def _swallow_requests(harm: Harm) -> None:
    for link in harm.some(harm.cluster.links):
        link.set(swallow_requests=True)


def _part(harm: Harm) -> None:
    for link in harm.some(harm.cluster.links):
        link.set(refuse=True, cut=True)


def _heal(harm: Harm) -> None:
    for link in harm.cluster.links:
        link.heal()


CUT = Nemesis("cut", _cut, _heal)
SWALLOW = Nemesis("lost-replies", _swallow, _heal)
SWALLOW_REQUESTS = Nemesis("lost-requests", _swallow_requests, _heal)
PART = Nemesis("partition", _part, _heal)
