"""`jjq node …`: the nodes of a cluster, and emptying one before it is taken away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cyclopts import App

from jjq.cli.connection import HERE, AsJson, Connection, Flag
from jjq.cli.operate.samples import duration_text
from jjq.cli.operate.shard import carry_out, show_plan
from jjq.cli.output import bytes_text, print_fields, print_json, print_table

if TYPE_CHECKING:
    from sharding.ports import NodeState

app = App(name="node", help="Look at the nodes of a cluster, and empty them.")


@app.command(name="list")
def list_(*, json: AsJson = False, at: Connection = HERE) -> None:
    """List the nodes of the cluster, as seen by the node that answers."""
    with at.operator() as operator:
        found = operator.nodes()
    if json:
        print_json([_json(each) for each in found])
        return
    columns = (
        "NODE", "ADDRESS", "STATE", "VERSION", "UP", "JOURNAL", "SHARDS", "HISTORY", "MEMORY", "ELEMENTS/S",
    )  # fmt: skip
    rows = [
        (each.node.id, each.node.address, _state(each), each.node.version,
         duration_text(each.node.uptime_seconds), each.node.journal, each.node.load.count,
         bytes_text(each.node.load.bytes), bytes_text(each.node.load.memory), f"{each.node.load.traffic:.0f}")
        for each in found
    ]  # fmt: skip
    print_table(columns, rows)


@app.command
def drain(
    node: str,
    /,
    *,
    dry_run: Flag = False,
    undo: Flag = False,
    json: AsJson = False,
    at: Connection = HERE,
) -> int:
    """Empty a node: it gets no new queues, and its shards move to the other nodes.

    Nothing is lost. Clients notice only a pause of well under a second for each queue. If the command is interrupted,
    give it again: it continues.

    ```
    jjq node drain node-3
    ```

    Parameters
    ----------
    node
        Name of the node.
    dry_run
        Only show what would be moved.
    undo
        Let the node get new queues again; `jjq shard rebalance` brings shards back.
    """
    with at.operator() as operator:
        if undo:
            print_fields({"node": operator.drain(node, undo=True).node.id, "state": "not draining"})
            return 0
        if not dry_run:
            operator.drain(node)
        plan = operator.plan(leaving=node)
        if dry_run:
            return show_plan(plan, json)
        return carry_out(operator, plan, lambda: operator.plan(leaving=node), json)


@app.command
def take_over(
    node: str,
    /,
    *,
    accept_loss: Flag = False,
    dry_run: Flag = False,
    json: AsJson = False,
    at: Connection = HERE,
) -> None:
    """Let the node that answers take over the queues of a dead node.

    Nodes whose journal is on object storage need no such command: the others take over by themselves, and nothing is
    lost. If the journal was on a disk that is away, elements that were not on object storage yet are lost; --dry-run
    shows from which offset on.

    Parameters
    ----------
    node
        Name of the dead node.
    accept_loss
        Serve its queues without the elements that are lost.
    dry_run
        Only show what would be lost, or say that the node is alive.
    """
    with at.operator() as operator:
        done = operator.take_over(node, accept_loss=accept_loss, dry_run=dry_run)
    if json:
        lost: list[dict[str, Any]] = [{"queue": each.queue, "first_offset": each.first} for each in done.lost]
        print_json({"node": node, "queues": list(done.moved), "lost": lost})
        return
    print_table(("QUEUE", "LOST FROM OFFSET"), [(each.queue, each.first) for each in done.lost])
    if not dry_run:
        print_fields({"queues taken over": len(done.moved)})


def _state(each: NodeState) -> str:
    if not each.alive:
        return "silent"
    return "draining" if each.node.draining else "serving"


def _json(each: NodeState) -> dict[str, Any]:
    load = each.node.load
    return {
        "node": each.node.id,
        "address": each.node.address,
        "state": _state(each),
        "version": each.node.version,
        "uptime_seconds": each.node.uptime_seconds,
        "journal": each.node.journal,
        "shards": load.count,
        "history_bytes": load.bytes,
        "memory_bytes": load.memory,
        "traffic": load.traffic,
    }
