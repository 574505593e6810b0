"""Nodes that die, stop for a while, are cut off from object storage, and come back while others serve their queues."""

from __future__ import annotations

import signal
import threading

from tests.faults.cluster import Cluster
from tests.faults.nemeses.nemesis import Harm, Nemesis
from tests.faults.node import Node
from tests.servers.faultproxy import FaultProxy
from tests.servers.waiting import wait_until

TAKEN_SECONDS = 20.0  # others see the silence, and take over
DEAD_SECONDS = 15.0  # a process that was taken over notices, and ends
RACE_SECONDS = 3.0
ZOMBIE_SECONDS = 3.0
_PAUSE = threading.Event()


def choose(harm: Harm) -> Node:
    """The victim, mostly the one that serves the busy queue."""
    owner = harm.cluster.owner(harm.queues[0])
    node = harm.node if owner is None or harm.below(3) == 0 else owner
    harm.notes |= {"node": node.name, "run": harm.cluster.tenure(node).run}
    return node


def victim(harm: Harm) -> Node:
    return harm.cluster.node(harm.notes["node"])


def is_over(cluster: Cluster, node: Node, run: int) -> bool:
    return cluster.tenure(node).is_over(run)


def await_taken(harm: Harm) -> bool:
    """Wait until the victim's tenure was ended, not for a second longer."""
    node, run = victim(harm), harm.notes["run"]
    try:
        wait_until(lambda: is_over(harm.cluster, node, run), "others take over", TAKEN_SECONDS)
    except AssertionError:
        harm.notes["taken"] = False
        return False
    harm.notes["taken"] = True
    return True


def _await_dead(harm: Harm) -> None:
    if harm.notes.get("taken"):
        harm.notes["died"] = victim(harm).wait_dead(DEAD_SECONDS)
        victim(harm).kill()


def _kill(harm: Harm) -> None:
    choose(harm).kill()


def _killed(harm: Harm) -> None:
    await_taken(harm)


def _race(harm: Harm) -> None:
    """It is back while others take over, shortly before, or shortly after."""
    choose(harm).kill()
    _PAUSE.wait(RACE_SECONDS * harm.chance.jitter())
    victim(harm).start()


def _pause(harm: Harm) -> None:
    choose(harm).signal(signal.SIGSTOP)


def _resume(harm: Harm) -> None:
    """It goes on in the very moment in which its tenure is ended, or some time after that, or before."""
    when = harm.below(3)
    if when and await_taken(harm) and when == 2:
        _PAUSE.wait(harm.chance.jitter())
    victim(harm).signal(signal.SIGCONT)
    _await_dead(harm)


def way(harm: Harm) -> FaultProxy:
    """The victim's way to object storage."""
    proxy = victim(harm).s3
    assert proxy is not None
    return proxy


def _cut_off(harm: Harm) -> None:
    choose(harm)
    way(harm).lose_request(times=None)


def _lose_beats(harm: Harm) -> None:
    """It serves, but nobody hears of it: others end its tenure while it acknowledges at full speed."""
    node = choose(harm)
    prefix = f"{harm.cluster.prefix}/cluster/tenures/{node.name}"
    way(harm).lose_request(method="PUT", prefix=prefix, times=None)


def _reconnect(harm: Harm) -> None:
    await_taken(harm)
    way(harm).heal()
    _await_dead(harm)


def _heard(harm: Harm) -> None:
    """Whoever asks after each put notices at once; who does not goes on for a while beside the next owner."""
    if await_taken(harm):
        victim(harm).wait_dead(ZOMBIE_SECONDS)  # so long at most
    way(harm).heal()
    _await_dead(harm)


def _roll(harm: Harm) -> None:
    """A rolling restart: one after the other stops in order and is started again."""
    for node in harm.cluster.nodes:
        if node.is_alive():
            harm.notes.setdefault("codes", []).append(node.stop())
        node.start()


NODES = (
    Nemesis("node-kill", _kill, _killed, nodes=True),
    Nemesis("node-race", _race, nodes=True),
    Nemesis("node-pause", _pause, _resume, nodes=True),
    Nemesis("node-cut-off", _cut_off, _reconnect, s3=True, nodes=True),
    Nemesis("node-unheard", _lose_beats, _heard, s3=True, nodes=True),
    Nemesis("node-roll", _roll, nodes=True),
)
