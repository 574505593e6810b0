"""The comparison as people read it: Markdown, a table for a terminal, and a short table for the README."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from rich.table import Table

from bench.peers.figures import BASE

SHORT = {
    "push.each.100": "push 100 B, batched by the client",
    "push.64.100": "push 100 B, 64 in flight",
    "push.1.100": "push 100 B, 1 in flight",
    "tail": "consume, Python objects",
    "latency.p50": "push to subscriber, p50",
    "latency.p99": "push to subscriber, p99",
    "replay": "replay, Python objects",
    "memory.restarted": "memory with the history",
    "restart": "restart with the history",
    "stored": "bytes on disk for 100 B",
}


def number(value: float) -> str:
    """Three digits, with k and M."""
    if value >= 1e6:
        return f"{value / 1e6:.3g} M"
    if value >= 1e4:
        return f"{value / 1e3:.3g} k"
    if value >= 1e3:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def factor(value: float) -> str:
    return f"{value:.0f}×" if value >= 10 else f"{value:.2g}×"


def cell(found: dict[str, Any], system: str, spread: bool = True) -> str:
    if "median" not in found:
        return "—"
    text = number(found["median"])
    if spread and found["runs"] > 1 and found["median"]:
        text += f" ±{(found['high'] - found['low']) / 2 / found['median']:.0%}"
    if system != BASE and found.get("ratio"):
        text += f" ({factor(found['ratio'])})"
    return text


def title(system: dict[str, Any]) -> str:
    return f"{system['title']}*" if system["weaker"] else str(system["title"])


def terminal(found: dict[str, Any]) -> Table:
    table = Table(title="jjq and its peers", title_justify="left", caption_justify="left")
    table.caption = "; ".join(_remarks(found))
    table.add_column("work")
    table.add_column("unit")
    for system in found["systems"].values():
        table.add_column(title(system), justify="right")
    for row in found["table"]:
        cells = [cell(row["systems"][name], name, False) for name in found["systems"]]
        table.add_row(row["title"], row["unit"], *cells)
    return table


def _remarks(found: dict[str, Any]) -> list[str]:
    remarks = ["in brackets: how many times as good as jjq as a server"]
    for system in found["systems"].values():
        if system["missing"]:
            remarks.append(f"{system['title']} is missing: {system['missing']}")
        remarks += [f"{system['title']} failed, {phase}: {why}" for phase, why in system["failed"].items()]
        if system["native"] and not system["missing"]:
            remarks.append(f"{system['title']}'s own generator is {system['native']}")
        if system["weaker"]:
            remarks.append(f"* {system['title']}: {system['durability']}")
    return remarks


def markdown(found: dict[str, Any]) -> str:
    about = ", ".join(f"{key}: {value}" for key, value in found["machine"].items())
    lines = [
        "# jjq and its peers",
        "",
        f"Taken {found['when']} by `python -m bench peers{_option(found)}`, all on one machine, clients and",
        f"servers sharing it ({about}). Median of the repetitions, ± half their range, and in brackets how many",
        "times as good as jjq as a server a system is: above 1 it is better than jjq, whichever way the figure points.",
        "[docs/benchmark.md](../../docs/benchmark.md) says what each line means.",
        "",
        *_grid(found, list(found["systems"]), {row["work"]: row["title"] for row in found["table"]}, True),
        "",
        *(f"- {remark}" for remark in _remarks(found)[1:]),
        "",
        "![Throughput of jjq and its peers](throughput.png)",
        "",
        "![Latency, start and size of jjq and its peers](latency.png)",
        "",
        "## How durable",
        "",
        "| system | client | durability | seen with strace |",
        "|---|---|---|---|",
        *(
            f"| {title(s)} | {s['client']} | {s['durability']} | {s['syncs'] or '—'} |"
            for s in found["systems"].values()
        ),
        "",
        "## What the machine can do",
        "",
        "| | | |",
        "|---|--:|---|",
        *(f"| {x['title']} | {number(x['value'])} | {x['unit']} |" for x in found["limits"]),
        "",
        "## Why there is no figure",
        "",
        *_absences(found),
    ]
    return "\n".join(lines) + "\n"


def _option(found: dict[str, Any]) -> str:
    return "" if found["size"] == "full" else f" --{found['size']}"


def _grid(found: dict[str, Any], systems: list[str], titles: dict[str, str], spread: bool) -> list[str]:
    heads = [title(found["systems"][name]) for name in systems]
    lines = [f"| | {' | '.join(heads)} |", f"|---|{'--:|' * len(heads)}"]
    for row in found["table"]:
        if row["work"] in titles:
            cells = " | ".join(cell(row["systems"][name], name, spread) for name in systems)
            lines.append(f"| {titles[row['work']]}, {row['unit']} | {cells} |")
    return lines


def _absences(found: dict[str, Any]) -> list[str]:
    lines = []
    for name, system in found["systems"].items():
        reasons: dict[str, list[str]] = {}
        for row in found["table"]:
            if "why" in row["systems"][name]:
                reasons.setdefault(row["systems"][name]["why"], []).append(row["title"])
        lines += [f"- {system['title']}: {why} ({'; '.join(rows)})" for why, rows in reasons.items()]
    return lines or ["There is one for everything."]


def short(found: dict[str, Any]) -> str:
    """The table of the README."""
    present = [name for name, system in found["systems"].items() if not system["missing"]]
    lines = _grid(found, present, SHORT, False)
    lines += ["", "; ".join(_remarks(found)) + "."]
    return "\n".join(lines) + "\n"


def write(found: dict[str, Any], folder: Path) -> None:
    """All files of one run; the plot too, where matplotlib is."""
    from bench.peers.plot import plot

    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(found, indent=1, ensure_ascii=False)
    # Lists of figures on one line each: readable, and small when they change.
    text = re.sub(r"\[\s+([-\d.e,\s]+?)\s+\]", lambda m: "[" + " ".join(m[1].split()) + "]", text)
    (folder / "peers.json").write_text(text + "\n", "utf-8")
    (folder / "peers.md").write_text(markdown(found), "utf-8")
    (folder / "README-table.md").write_text(short(found), "utf-8")
    plot(found, folder)
