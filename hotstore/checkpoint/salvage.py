"""Read the subscribers in damaged checkpoints. This is for people: no subscriber goes on from such a position.

With both checkpoints the names of subscribers are lost. But a bit that flipped, or a piece that is missing, leaves most
of a DuckDB file readable, and the operator who must create the subscribers again wants their names. DuckDB may crash on
a damaged file, so a process of its own looks at it, once, in a start that has nothing better.
"""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import orjson

from coldstore.shared.errors import JjqError
from hotstore.checkpoint.checkpoint_store import MAKING, fresh_file
from hotstore.checkpoint.duckdb_file import open_reader
from hotstore.limits import SALVAGE_SECONDS

log = logging.getLogger("jjq.hotstore")

_MAGIC: Final = (8, b"DUCK")  # where, and what, in every file of DuckDB
_START: Final = (
    "import sys; sys.path[:] = {path!r}\n"
    "from hotstore.checkpoint import salvage; salvage.print_subscribers(sys.argv[1])"
)
_QUESTIONS: Final = (
    'SELECT queue, name, "offset" FROM subscribers',
    "SELECT q.name, s.name, NULL FROM subscriptions s JOIN queues q ON q.number = s.queue_number",
)

# By queue: the subscribers, and where they were; None if their position cannot be read.
Affected = dict[str, dict[str, int | None]]


def salvage(damaged: Iterable[bytes], folder: Path) -> Affected:
    """What can be read in damaged checkpoints, the newest first. Blocks; raises nothing."""
    found: Affected = {}
    for data in damaged:
        if not data.startswith(_MAGIC[1], _MAGIC[0]):
            continue
        for queue, name, offset in _ask(data, folder):
            known = found.setdefault(queue, {})
            if known.get(name) is None:
                known[name] = offset
    return found


def _ask(data: bytes, folder: Path) -> list[Any]:
    path = folder / MAKING
    try:
        path = fresh_file(folder)
        path.write_bytes(data)
        command = [sys.executable, "-P", "-c", _START.format(path=sys.path), str(path)]
        asked = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SALVAGE_SECONDS,
            check=True,
        )
        rows: list[Any] = orjson.loads(asked.stdout)
    except (OSError, subprocess.SubprocessError, orjson.JSONDecodeError) as error:
        log.warning("cannot read from a damaged checkpoint which subscribers it had: %s", error)
        return []
    finally:
        with suppress(OSError):
            path.unlink()
    return rows


def print_subscribers(path: str) -> None:
    """In that process: print the subscribers of a file as JSON."""
    rows: list[Any] = []
    for question in _QUESTIONS:
        try:
            with open_reader(Path(path)) as connection:
                rows = connection.execute(question).fetchall()
            break
        except JjqError:
            continue
    sys.stdout.buffer.write(orjson.dumps(rows))
