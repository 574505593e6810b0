"""`jjq verify`: prove that nothing in the cold store is missing, altered or reordered; needs no server."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from jjq.cli import exits
from jjq.cli.connection import ColdUrl, Json, S3Endpoint, S3Region, open_cold_store
from jjq.cli.output import Bar, bytes_text, print_json, print_table, progress

if TYPE_CHECKING:
    from coldstore.queue.verify import Report


def verify(
    *queues: str,
    cold: ColdUrl,
    s3_endpoint: S3Endpoint = None,
    s3_region: S3Region = None,
    json: Json = False,
) -> int:
    """Read every block of a cold store, and check that nothing is missing or altered. No server is needed.

    ```
    jjq verify --cold ./jjq-data/cold
    jjq verify --cold s3://bucket/prefix orders events --json
    ```

    Nothing is changed. Ends with 4 if anything is damaged. Ends with 8 if only the last files of a queue are missing,
    as in a copy that another tool took while a server was writing: everything before them is sound, and `jjq restore`
    makes a store of it.

    Parameters
    ----------
    queues
        Names of queues. Default: all queues.
    json
        Print the findings as JSON.
    """
    from coldstore.shared.clock import SystemClock
    from coldstore.shared.errors import DataLoss, NotFound

    store = open_cold_store(cold, s3_endpoint, s3_region, SystemClock())
    names = queues or store.entries()
    if not names and store.id is None:  # a mistyped place must not pass for a sound one
        raise NotFound(f"nothing was ever written to {cold}: correct --cold")
    reports = []
    for name in names:
        with progress(f"verify {name}", None, unit="blocks") as bar:
            reports.append(store.verify(name, partial(_advance, bar)))
    print_reports(reports, json)
    if store.id is None:
        raise DataLoss(f"jjq.json is missing in {cold}, which says what store it is; restore it from a copy")
    return exit_code(reports)


def exit_code(reports: Sequence[Report]) -> int:
    """4 if anything is damaged, 8 if nothing is but a tail is cut off."""
    verdicts = {report.verdict for report in reports}
    if "damaged" in verdicts:
        return exits.DAMAGED
    return exits.CUT_OFF if "cut off" in verdicts else exits.OK


def _advance(bar: Bar, done: int, total: int, _bytes: int) -> None:
    bar(done, total)


def print_reports(reports: list[Report], json: bool) -> None:
    """What was found, for people or as JSON."""
    if json:
        print_json([_as_json(report) for report in reports])
    else:
        _show(reports)


def _as_json(report: Report) -> dict[str, object]:
    return {
        "queue": report.queue,
        "ok": report.ok,
        "verdict": report.verdict,
        "cut_off_at": report.cut,
        "blocks": report.blocks,
        "elements": report.elements,
        "stored_bytes": report.stored_bytes,
        "chain": report.chain,
        "defects": [{"kind": d.kind, "key": d.key, "text": d.text, "block": d.block} for d in report.defects],
        "notes": list(report.notes),
    }


def _verdict(report: Report) -> str:
    if report.cut is not None:
        return f"cut off at {report.cut}"
    return "ok" if report.ok else f"{len(report.defects)} defects"


def _show(reports: list[Report]) -> None:
    rows = [
        (r.queue, _verdict(r), r.blocks, r.elements, bytes_text(r.stored_bytes),
         r.chain[:16])
        for r in reports
    ]  # fmt: skip
    print_table(("QUEUE", "VERDICT", "BLOCKS", "ELEMENTS", "STORED", "CHAIN"), rows)
    defects = [(r.queue, d.kind, d.key, d.text) for r in reports for d in r.defects]
    if defects:
        print()
        print_table(("QUEUE", "DEFECT", "FILE", "WHAT IS WRONG"), defects)
