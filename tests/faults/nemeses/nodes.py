"""Nodes that die, stop for a while, are cut off from object storage, and come back while others serve their queues."""

from __future__ import annotations

import asyncio
import signal
import threading
from dataclasses import replace
from typing import cast

from coldstore.shared.errors import Conflict
from sharding.documents import tenure
from sharding.documents.tenure import Tenure
from tests.faults.clients.worker import CALL_SECONDS
from tests.faults.cluster import Cluster
from tests.faults.nemeses.nemesis import Harm, Nemesis
from tests.faults.node import Node
from tests.faults.reading import Reader
from tests.faults.witness import journal_of
from tests.servers.faultproxy import FaultProxy
from tests.servers.waiting import wait_until

TAKEN_SECONDS = 20.0  # others see the silence, and take over
DEAD_SECONDS = 60.0  # it notices at once, and ends; a seal under way gives way to all else on a busy machine
RACE_SECONDS = 3.0
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


def own_tenure(harm: Harm) -> str:
    """Where the victim's tenure is, as proxies see it."""
    return f"{harm.cluster.prefix}/cluster/tenures/{victim(harm).name}"


def _lose_beats(harm: Harm) -> None:
    """It reaches everything, but nobody hears of it: its lease runs out, and others end its tenure."""
    choose(harm)
    way(harm).lose_request(method="PUT", prefix=own_tenure(harm), times=None)


def _reconnect(harm: Harm) -> None:
    await_taken(harm)
    way(harm).heal()
    _await_dead(harm)


def _end_early(harm: Harm) -> None:
    """Its tenure is ended in the middle of its lease, it cannot read that, and is asked to acknowledge more.

    Nodes wait for longer than a lease, so a node whose beats are lost has stopped by itself when others end its tenure.
    Not so if a clock is wrong, or an operator: then nothing but the check after each put stops it.
    """
    node = harm.cluster.owner(harm.queues[0])
    assert node is not None
    harm.notes |= {"node": node.name, "run": harm.cluster.tenure(node).run}
    # Refused, and not lost: what the node does besides goes on at once, while the object store is asked again.
    way(harm).fail(403, "AccessDenied", prefix=own_tenure(harm), times=None)
    _end_tenure(harm, node)
    harm.notes["acknowledged"] = asyncio.run(_push_twice(harm, node))


def _end_tenure(harm: Harm, node: Node) -> None:
    """As another node does that believes it dead, with the line that the other node would write."""
    by = next(each.name for each in harm.cluster.nodes if each is not node)
    objects = harm.cluster.objects
    assert objects is not None
    op = harm.pen.invoke("end", journal_of(node.name), epoch=2 * harm.notes["run"] + 1)
    tenure.change(
        objects,
        node.name,
        lambda now: replace(cast("Tenure", now), state="ended", by=by, beat=now.beat + 1 if now else 0),
        busy=Conflict("the tenure keeps changing"),
    )
    op.ok()


async def _push_twice(harm: Harm, node: Node) -> int:
    """How many of two pushes were acknowledged, one after the other.

    The first may be covered by a sync that began before the tenure was ended; the second cannot.
    """
    async with Reader(node.listens, harm.pen) as reader:
        for done in range(2):
            if not await reader.push_once(harm.queues[0], CALL_SECONDS):
                return done
    return 2


def _roll(harm: Harm) -> None:
    """A rolling restart: one after the other stops in order and is started again."""
    for node in harm.cluster.nodes:
        if node.is_alive():
            harm.notes.setdefault("codes", []).append(node.stop())
        node.start()


NODES = (
    Nemesis("node-kill", _kill, _killed, nodes=True, taken=True),
    Nemesis("node-race", _race, nodes=True),
    Nemesis("node-pause", _pause, _resume, nodes=True, taken=True),
    Nemesis("node-cut-off", _cut_off, _reconnect, s3=True, nodes=True, taken=True),
    Nemesis("node-unheard", _lose_beats, _reconnect, s3=True, nodes=True, taken=True),
    Nemesis("node-ended-early", _end_early, _reconnect, s3=True, nodes=True, taken=True),
    Nemesis("node-roll", _roll, nodes=True),
)
