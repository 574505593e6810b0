"""Between nodes: no way, a black hole, or only one way. Between two of them, or between one and all others."""

from __future__ import annotations

from collections.abc import Iterator

from tests.faults.links import Link
from tests.faults.nemeses.nemesis import Harm, Nemesis


def _pairs(harm: Harm) -> Iterator[tuple[str, str]]:
    """Between one node and another one, or all others; a node's way out and its way in."""
    one = harm.node
    others = [node for node in harm.cluster.nodes if node is not one]
    for other in harm.some(others):
        harm.notes.setdefault("between", []).append([one.name, other.name])
        yield one.name, other.name


def _both(harm: Harm) -> Iterator[Link]:
    for one, other in _pairs(harm):
        yield harm.cluster.between[one, other]
        yield harm.cluster.between[other, one]


def _cut(harm: Harm) -> None:
    for link in _both(harm):
        link.set(refuse=True, cut=True)


def _hole(harm: Harm) -> None:
    for link in _both(harm):
        link.set(swallow=True, swallow_requests=True)


def _one_way(harm: Harm) -> None:
    """What one node sends the other vanishes: its requests, and its replies to the other's requests."""
    for one, other in _pairs(harm):
        harm.cluster.between[one, other].set(swallow_requests=True)
        harm.cluster.between[other, one].set(swallow=True)


def _heal(harm: Harm) -> None:
    for link in harm.cluster.between.values():
        link.heal()


LINKS = (
    Nemesis("link-cut", _cut, _heal, nodes=True),
    Nemesis("link-hole", _hole, _heal, nodes=True),
    Nemesis("link-one-way", _one_way, _heal, nodes=True),
)
