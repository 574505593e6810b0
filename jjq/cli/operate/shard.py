"""`jjq shard …`: which node serves what, and changing that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from jjq.cli import exits
from jjq.cli.connection import HERE, AsJson, Connection, Flag, QueueName
from jjq.cli.output import agreed, bytes_text, note, print_json, print_table, progress
from sharding.limits import PLAN_MOVES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from coldstore.shared.errors import JjqError
    from jjq.client.blocking_operator import BlockingOperator
    from sharding.ports import Move, Plan, Shard

app = App(name="shard", help="See which node serves what, and change it.")


@app.command(name="list")
def list_(
    queue: str = "",
    /,
    *,
    node: str = "",
    json: AsJson = False,
    at: Connection = HERE,
) -> None:
    """List which node serves which queue, and which ranges of its history.

    Parameters
    ----------
    queue
        Only of this queue.
    node
        Only what this node serves.
    """
    with at.operator() as operator:
        found = operator.shards(queue, node)
    _show([shard for shards in found.values() for shard in shards], json)


@app.command
def move(
    queue: QueueName,
    /,
    *,
    to: str,
    first: int | None = None,
    json: AsJson = False,
    at: Connection = HERE,
) -> None:
    """Move a queue to another node. Nothing is lost; pushes wait for less than a second.

    ```
    jjq shard move orders --to node-2
    ```

    Parameters
    ----------
    to
        Name of the node.
    first
        Move only the range of its history that begins at this offset.
    """
    with at.operator() as operator:
        moved = operator.move(queue, to, first)
    _show([moved], json)


@app.command
def split(
    queue: QueueName,
    /,
    *,
    parts: int = 0,
    undo: Flag = False,
    dry_run: Flag = False,
    json: AsJson = False,
    at: Connection = HERE,
) -> None:
    """Spread the history of a queue over other nodes, in ranges of equal size, so that replays share the work.

    Parameters
    ----------
    parts
        How many ranges; 0: as many as there are other nodes.
    undo
        Let the owner serve the whole history again.
    dry_run
        Only show what would be done.
    """
    with at.operator() as operator:
        shards = operator.split(queue, -1 if undo else parts, dry_run=dry_run)
    _show(shards, json)


@app.command
def rebalance(
    *,
    dry_run: Flag = False,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"], negative=())] = False,
    json: AsJson = False,
    at: Connection = HERE,
) -> int:
    """Move as few shards as needed until all nodes have about the same load. The plan is shown first.

    If the command is interrupted, give it again: it continues.

    ```
    jjq shard rebalance --dry-run
    jjq shard rebalance
    ```

    Parameters
    ----------
    dry_run
        Only show the plan.
    yes
        Do not ask before it begins. Without a terminal it never asks.
    """
    with at.operator() as operator:
        plan = operator.plan()
        if dry_run:
            return show_plan(plan, json)
        if not json:
            show_plan(plan, json)
        if plan.moves and not yes and not _agreed():
            note("nothing was moved")
            return exits.OK
        return carry_out(operator, plan, operator.plan, json, shown=True)


def show_plan(plan: Plan, json: bool) -> int:
    """The plan as it would be carried out."""
    if json:
        print_json(
            {"moves": _moves_json(plan), "shares": [_share_json(plan, n) for n in range(len(plan.shares))]}
        )
        return exits.OK
    moves = [
        (each.shard.queue, _what(each.shard), each.shard.node, each.to, bytes_text(each.shard.load.bytes),
         bytes_text(each.shard.load.memory), f"{each.shard.load.traffic:.0f}")
        for each in plan.moves
    ]  # fmt: skip
    print_table(("QUEUE", "SHARD", "FROM", "TO", "HISTORY", "MEMORY", "ELEMENTS/S"), moves)
    shares = [(each.node, f"{each.before:.1f} %", f"{each.after:.1f} %") for each in plan.shares]
    print_table(("NODE", "LOAD NOW", "LOAD AFTER"), shares)
    return exits.OK


def carry_out(
    operator: BlockingOperator, plan: Plan, again: Callable[[], Plan], json: bool, *, shown: bool = False
) -> int:
    """Run several moves at a time; report those that fail and go on with the rest. 1 if anything is left to do.

    If a plan is too long for one answer, ask for the next one and go on.
    """
    if not shown and not json:
        show_plan(plan, json)
    moves: list[dict[str, Any]] = []
    failed: list[dict[str, str]] = []
    while plan.moves:
        moves += _moves_json(plan)
        failed += _moved(operator, plan)
        if failed or len(plan.moves) < PLAN_MOVES_MAX:
            break
        plan = again()
    for each in failed:
        note(f"jjq: {each['queue']} was not moved to {each['to']}: {each['error']}")
    if json:
        print_json({"moved": len(moves) - len(failed), "failed": failed, "moves": moves})
    else:
        print_table(("MOVED", "FAILED"), [(len(moves) - len(failed), len(failed))])
    if failed:
        note("jjq: give the same command again to move the rest")
    return exits.ERROR if failed else exits.OK


def _moved(operator: BlockingOperator, plan: Plan) -> list[dict[str, str]]:
    """Carry a plan out; what could not be moved."""
    failed: list[dict[str, str]] = []
    moved = 0
    with progress("moving", len(plan.moves), unit="shards") as bar:

        def done(move: Move, error: JjqError | None) -> None:
            nonlocal moved
            if error is None:
                moved += 1
            else:
                failed.append({"queue": move.shard.queue, "to": move.to, "error": str(error)})
            bar(moved + len(failed))

        operator.carry_out(plan.moves, done)
    return failed


def _agreed() -> bool:
    import sys

    return agreed("Carry it out?") if sys.stdin.isatty() else True


def _what(shard: Shard) -> str:
    return "tail" if shard.next is None else f"{shard.first} … {shard.next - 1}"


def _show(shards: Iterable[Shard], json: bool) -> None:
    if json:
        print_json([shard_json(shard) for shard in shards])
        return
    columns = ("QUEUE", "SHARD", "NODE", "EPOCH", "HISTORY", "MEMORY", "ELEMENTS/S")
    rows = [
        (each.queue, _what(each), each.node, each.epoch, bytes_text(each.load.bytes),
         bytes_text(each.load.memory), f"{each.load.traffic:.0f}")
        for each in shards
    ]  # fmt: skip
    print_table(columns, rows)


def shard_json(shard: Shard) -> dict[str, Any]:
    return {
        "queue": shard.queue,
        "first_offset": shard.first,
        "next_offset": shard.next,
        "node": shard.node,
        "epoch": shard.epoch,
        "history_bytes": shard.load.bytes,
        "memory_bytes": shard.load.memory,
        "traffic": shard.load.traffic,
    }


def _moves_json(plan: Plan) -> list[dict[str, Any]]:
    return [{**shard_json(each.shard), "to": each.to} for each in plan.moves]


def _share_json(plan: Plan, n: int) -> dict[str, Any]:
    share = plan.shares[n]
    return {"node": share.node, "before": share.before, "after": share.after}
