"""Planned moves of queues: one after the other, and with a death in the midst of one."""

from __future__ import annotations

import threading

from tests.faults.moving import MOVE_SECONDS, move
from tests.faults.nemeses.nemesis import Harm, Nemesis
from tests.faults.nemeses.nodes import await_taken

MOVES = 4
MIDST_SECONDS = 0.3  # about as long as a move takes
_PAUSE = threading.Event()


def _move(harm: Harm) -> None:
    for _ in range(MOVES):
        queue, to = harm.any(harm.queues), harm.node.name
        harm.notes.setdefault("moves", []).append([queue, to, move(harm.cluster, harm.node.name, queue, to)])


def _kill_mover(harm: Harm) -> None:
    """Let the source or the target die in the midst of a move; the third node was asked for it."""
    queue = harm.queues[0]
    source = harm.cluster.owner(queue) or harm.node
    target, third = [node for node in harm.cluster.nodes if node is not source][:: 1 - 2 * harm.below(2)]
    dies = harm.any([source, target])
    harm.notes |= {"move": [queue, source.name, target.name], "node": dies.name}
    harm.notes["run"] = harm.cluster.tenure(dies).run

    def ask() -> None:
        harm.notes["outcome"] = move(harm.cluster, third.name, queue, target.name)

    moving = threading.Thread(target=ask)
    moving.start()
    _PAUSE.wait(MIDST_SECONDS * harm.chance.jitter())
    dies.kill()
    moving.join(2 * MOVE_SECONDS)


def _killed(harm: Harm) -> None:
    """Half of the time it is back before others take over."""
    if harm.below(2):
        await_taken(harm)


MOVING = (
    Nemesis("move", _move, nodes=True),
    Nemesis("move-kill", _kill_mover, _killed, nodes=True, taken=True),
)
