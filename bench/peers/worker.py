"""One phase of one system, in a process of its own: `python -m bench.peers.worker SYSTEM PHASE SCALE DIR`.

Figures go out as lines of JSON, one each, so that those before a failure are kept.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvloop

from bench.peers import scale, syncs
from bench.peers.systems.registry import SYSTEMS
from bench.peers.work import consume, history, latency, push
from bench.peers.work.context import Context


def say(**line: object) -> None:
    print(json.dumps(line), flush=True)


async def live(context: Context) -> None:
    """Everything that needs no history."""
    await history.empty(context)
    pid = context.system.pid()
    if pid is not None and context.system.name != "embedded":  # a process cannot wait for its own tracer
        say(syncs=await syncs.seen(pid, context.connected, history.QUEUE))
    for work in (push.pushes, push.native, consume.tail, consume.fan_out, latency.latency):
        await work(context)
    await context.stop()


PHASES: dict[str, Callable[[Context], Awaitable[None]]] = {
    "live": live,
    "written": history.written,
    "restarted": history.restarted,
}


async def main(system: str, phase: str, size: str, root: Path) -> None:
    made = SYSTEMS[system](root)
    context = Context(
        made,
        scale.SCALES[size],
        lambda work, value: say(work=work, value=value),
        lambda work, reason: say(work=work, absent=reason),
    )
    try:
        await PHASES[phase](context)
    except Exception as error:
        say(failed=f"{type(error).__name__}: {error}"[:300])
        raise
    finally:
        if made.server is not None:
            made.server.stop()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4])))
