"""`jjq backup` and `jjq restore`: the history of a cold store, from and to folders or S3; no server needed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from jjq.cli import exits
from jjq.cli.connection import Flag, Json, s3_settings
from jjq.cli.output import Bar, bytes_text, note, print_json, print_table, progress

if TYPE_CHECKING:
    from coldstore.backup import Copied, Copying
    from coldstore.objects.settings import S3Settings

_STORES = "Stores"


@Parameter(name="*")
@dataclass(frozen=True)
class Reach:
    """How source and target are reached where they are on S3."""

    s3_endpoint: Annotated[str | None, Parameter(env_var="JJQ_S3_ENDPOINT", group=_STORES)] = None
    """URL of an S3 server that is not AWS."""

    s3_region: Annotated[str | None, Parameter(env_var="JJQ_S3_REGION", group=_STORES)] = None
    """Region of the bucket."""

    target_s3_endpoint: Annotated[str | None, Parameter(env_var="JJQ_TARGET_S3_ENDPOINT", group=_STORES)] = (
        None
    )
    """The same for the target, if it is elsewhere. Keys are then in JJQ_TARGET_S3_ACCESS_KEY and _SECRET_KEY."""

    target_s3_region: Annotated[str | None, Parameter(env_var="JJQ_TARGET_S3_REGION", group=_STORES)] = None
    """Region of the target's bucket, if it is another."""

    def source(self) -> S3Settings:
        return s3_settings(self.s3_endpoint, self.s3_region)

    def target(self) -> S3Settings:
        same = self.source()
        own = s3_settings(self.target_s3_endpoint, self.target_s3_region, "JJQ_TARGET_S3")
        chosen = {name: value for name, value in asdict(own).items() if value is not None}
        return replace(same, **chosen)


_SAME = Reach()


def backup(
    source: str,
    target: str,
    *queues: str,
    reach: Reach = _SAME,
    verify: Literal["all", "copied"] = "all",
    json: Json = False,
) -> int:
    """Copy the history of a cold store to another place, while servers run; no server is needed.

    ```
    jjq backup s3://bucket/jjq /mnt/backup
    jjq backup ./jjq-data/cold s3://backups/jjq orders --verify copied
    ```

    It copies only what the target does not have yet. So the next backup to the same place copies what was added since,
    and an interrupted backup continues. At every instant the target is a sound prefix of each queue. At the end it is
    read back. A backup holds no elements that are only in a journal, no subscribers and no producers.

    Ends with 4 if something is damaged, and with 8 if the source is only cut off: then the target has everything before
    the cut.

    Parameters
    ----------
    source
        The cold store: a folder, or s3://BUCKET/PREFIX.
    target
        An empty place, or a backup of the same store.
    queues
        Names of queues. Default: all queues.
    verify
        What is read back: all that the target holds, or only what was copied this time.
    json
        Print what was copied as JSON.
    """
    work = _opened(source, target, reach, verify)
    return _copy(work, "backup", queues, json, empty=False)


def restore(
    source: str,
    target: str,
    *queues: str,
    reach: Reach = _SAME,
    resume: Flag = False,
    json: Json = False,
) -> int:
    """Make a cold store from a backup, or from any copy, in an empty place. Then start servers on it.

    ```
    jjq restore /mnt/backup s3://bucket/restored
    jjq serve --data /var/lib/jjq-new --cold s3://bucket/restored
    ```

    If the copy is cut off or damaged, it takes all blocks before the first bad one, says so, and ends with 8 or 4.
    Everything is read back at the end.

    Parameters
    ----------
    source
        The backup: a folder, or s3://BUCKET/PREFIX.
    target
        An empty place.
    queues
        Names of queues. Default: all queues.
    resume
        Continue a restore into this place that was interrupted.
    json
        Print what was copied as JSON.
    """
    work = _opened(source, target, reach, "all")._replace(fresh=True)
    return _copy(work, "restore", queues, json, empty=not resume)


def _opened(source: str, target: str, reach: Reach, verify: Literal["all", "copied"]) -> Copying:
    from coldstore.backup import Copying
    from coldstore.objects.open import open_objects
    from coldstore.shared.chance import SystemChance
    from coldstore.shared.clock import SystemClock
    from coldstore.store import ColdStore

    clock, chance = SystemClock(), SystemChance()
    store = ColdStore(open_objects(source, s3=reach.source(), clock=clock, chance=chance), clock, chance)
    there = open_objects(target, s3=reach.target(), clock=clock, chance=chance)
    return Copying(store, there, clock, chance, verify)


def _copy(work: Copying, verb: str, queues: Sequence[str], json: bool, *, empty: bool) -> int:
    from coldstore.backup import copy_queue, prepare

    prepare(work, empty=empty)
    done: list[Copied] = []
    for name in queues or work.source.entries():
        with ExitStack() as stack:
            bars = _Bars(stack, verb, name)
            done.append(copy_queue(work, name, bars.copy, bars.check))
    if json:
        print_json([_as_json(each) for each in done])
    else:
        _show(done)
    for each in done:
        if each.problem is not None:
            sound = f"; the copy is sound up to offset {each.next}" if each.next else ""
            note(f"jjq: queue {each.queue}: {each.problem}{sound}")
    return max((_code(each) for each in done), default=exits.OK, key=_GRAVITY.index)


# The code of the whole is that of the gravest queue.
_GRAVITY = (exits.OK, exits.CUT_OFF, 7, 3, 6, 5, exits.USAGE, exits.ERROR, exits.DAMAGED)


def _code(copied: Copied) -> int:
    if copied.report is not None and not copied.report.ok:
        return exits.DAMAGED
    if copied.cut is not None:
        return exits.CUT_OFF
    return exits.OK if copied.problem is None else exits.code_of(copied.problem)


class _Bars:
    """One bar after the other: a terminal shows one at a time."""

    def __init__(self, stack: ExitStack, verb: str, queue: str) -> None:
        self._stack = stack
        self._words = {"bytes": f"{verb} {queue}", "blocks": f"verify {queue}"}
        self._bars: dict[str, Bar] = {}

    def copy(self, done: int, total: int) -> None:
        self._bar("bytes")(done, total)

    def check(self, done: int, total: int, _bytes: int) -> None:
        self._bar("blocks")(done, total)

    def _bar(self, unit: str) -> Bar:
        if unit not in self._bars:
            self._stack.close()
            self._bars[unit] = self._stack.enter_context(progress(self._words[unit], None, unit=unit))
        return self._bars[unit]


def _verdict(copied: Copied) -> str:
    if copied.report is not None and not copied.report.ok:
        return f"{len(copied.report.defects)} defects"
    if copied.cut is not None:
        return f"cut off at {copied.cut}"
    return "ok" if copied.problem is None else "not whole"


def _as_json(copied: Copied) -> dict[str, object]:
    return {
        "queue": copied.queue,
        "verdict": _verdict(copied),
        "blocks": copied.blocks,
        "stored_bytes": copied.stored_bytes,
        "next_offset": copied.next,
        "chain": None if copied.report is None else copied.report.chain,
        "problem": None if copied.problem is None else str(copied.problem),
        "defects": [f"{d.kind}: {d.key}: {d.text}" for d in copied.report.defects] if copied.report else [],
    }


def _show(done: Sequence[Copied]) -> None:
    rows = [(c.queue, _verdict(c), c.next, c.blocks, bytes_text(c.stored_bytes)) for c in done]
    print_table(("QUEUE", "VERDICT", "ELEMENTS", "BLOCKS COPIED", "COPIED"), rows)
    defects = [(c.queue, d.kind, d.key, d.text) for c in done if c.report for d in c.report.defects]
    if defects:
        print()
        print_table(("QUEUE", "DEFECT", "FILE", "WHAT IS WRONG"), defects)
