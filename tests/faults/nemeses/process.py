"""kill -9, and SIGSTOP for a while."""

from __future__ import annotations

import signal

from tests.faults.nemeses.nemesis import Harm, Nemesis


def _kill(harm: Harm) -> None:
    harm.node.kill()


def _pause(harm: Harm) -> None:
    harm.node.signal(signal.SIGSTOP)


def _resume(harm: Harm) -> None:
    for node in harm.cluster.nodes:
        node.signal(signal.SIGCONT)


KILL = Nemesis("kill", _kill, alone=True)
PAUSE = Nemesis("pause", _pause, _resume, alone=True)
