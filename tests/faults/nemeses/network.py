"""Between clients and server: connections cut in the middle of calls, replies that vanish, no way through."""

from __future__ import annotations

from tests.faults.nemeses.nemesis import Harm, Nemesis


def _cut(harm: Harm) -> None:
    """Cut after some bytes of replies, again and again."""
    for link in harm.cluster.links:
        link.set(cut_after=100 + harm.below(20_000), cut_again=10)


def _swallow(harm: Harm) -> None:
    for link in harm.cluster.links:
        link.set(swallow=True)


def _part(harm: Harm) -> None:
    for link in harm.cluster.links:
        link.set(refuse=True, cut=True)


def _heal(harm: Harm) -> None:
    """Swallowed bytes make a connection worthless: cut it."""
    for link in harm.cluster.links:
        link.set(swallow=False, refuse=False, cut_after=None, cut_again=0, cut=True)


CUT = Nemesis("cut", _cut, _heal)
SWALLOW = Nemesis("lost-replies", _swallow, _heal)
PART = Nemesis("partition", _part, _heal)
