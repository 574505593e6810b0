"""What a run did: operations, faults by kind, what was acknowledged, unknown and lost, and how soon it recovered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from tests.faults.checker.judge import judge
from tests.faults.history import GENERATION, SUFFIX
from tests.faults.plan import workers
from tests.faults.schedule import QUIET
from tests.faults.table import CHANGES, TYPES, WITNESSED, F, Table, load


@dataclass(frozen=True)
class Report:
    """The figures, and everything that does not hold."""

    seed: int
    operations: int
    by_kind: dict[str, int]
    acknowledged: int  # elements
    unknown: int  # pushes
    refused: int  # pushes
    read: int  # elements, by all readers
    lost: int
    faults: dict[str, int]
    slowest_recovery: float  # seconds from the end of a fault to the next acknowledged push
    findings: list[str]
    properties: list[str] = field(default_factory=list)
    moves: dict[str, int] = field(
        default_factory=dict
    )  # planned ones beside the faults, by what came of them
    ended: int = 0  # tenures
    doors: dict[str, int] = field(default_factory=dict)  # answers, by the door that clients came by
    changed: dict[str, int] = field(default_factory=dict)  # tasks, by verb

    @property
    def good(self) -> bool:
        return not self.findings

    def text(self) -> str:
        faults = ", ".join(f"{kind} {count}" for kind, count in sorted(self.faults.items())) or "none"
        did = (
            f"seed {self.seed}: {self.operations} operations, {self.acknowledged} elements acknowledged, "
            f"{self.unknown} pushes unknown, {self.refused} refused, {self.read} elements read, {self.lost} lost"
        )
        suffered = f"faults: {faults}; slowest recovery {self.slowest_recovery:.2f} s"
        if self.ended or self.moves:
            moves = ", ".join(f"{code} {count}" for code, count in sorted(self.moves.items())) or "none"
            suffered += f"; {self.ended} nodes taken over; moves beside: {moves}"
        return "\n".join([did, suffered, *self.findings])


def report(folder: Path, seed: int, extra: Sequence[str] = (), moves: dict[str, int] | None = None) -> Report:
    """Judge the history in `folder`; `extra` is what the run itself found."""
    table = load(folder / "history")
    clients = len(list((folder / "history").glob(f"client*{SUFFIX}")))
    made = replace(_figures(table, _faults(folder), seed, extra, clients), moves=moves or {})
    (folder / "report.json").write_bytes(orjson.dumps(asdict(made), option=orjson.OPT_INDENT_2))
    return made


def _faults(folder: Path) -> list[dict[str, Any]]:
    path = folder / "faults.jsonl"
    return [orjson.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


def _figures(
    table: Table, faults: list[dict[str, Any]], seed: int, extra: Sequence[str], clients: int
) -> Report:
    ops = table.ops
    pushes = ops.f == F["push"]
    findings = judge(table)
    names = {number: name for name, number in F.items()}
    return Report(
        seed=seed,
        operations=int((~np.isin(ops.f, [F[name] for name in WITNESSED])).sum()),
        by_kind={
            names[int(f)]: int(count) for f, count in zip(*np.unique(ops.f, return_counts=True), strict=True)
        },
        acknowledged=len(table.acked[0]),
        unknown=int((pushes & (ops.type == TYPES["info"])).sum()),
        refused=int((pushes & (ops.type == TYPES["fail"])).sum()),
        read=len(table.seen_op),
        lost=sum(finding.count for finding in findings if finding.property.startswith("lost-")),
        faults=dict(Counter(fault["kind"] for fault in faults if fault["kind"] != QUIET)),
        slowest_recovery=_recovery(table, faults),
        findings=[*(str(finding) for finding in findings), *extra],
        properties=sorted({finding.property for finding in findings}),
        ended=len(ops.where("end")),
        doors=_doors(table, clients),
        changed=_changed(table),
    )


def _doors(table: Table, clients: int) -> dict[str, int]:
    answered = Counter((table.ops.process[table.ops.type == TYPES["ok"]] % GENERATION).tolist())
    found: dict[str, int] = {}
    for some in workers(clients):
        for _, number, _, door in some:
            found[door] = found.get(door, 0) + answered[number]
    return found


def _changed(table: Table) -> dict[str, int]:
    rows = {verb: table.tasks.of(table, verb) for verb in (*CHANGES, "complete")}
    return {verb: int((table.tasks.refused[some] == 0).sum()) for verb, some in rows.items()}


def _recovery(table: Table, faults: list[dict[str, Any]]) -> float:
    """Over all faults: from its end to the first acknowledgement after it."""
    done = np.sort(table.ops.t1[table.ops.where("push")])
    ended = np.array([fault["ended"] for fault in faults if fault["kind"] != QUIET], np.int64)
    if not len(ended) or not len(done):
        return 0.0
    at = np.searchsorted(done, ended)
    known = at < len(done)
    return float(((done[at[known]] - ended[known]) / 1e9).max()) if known.any() else 0.0
