"""Is a catalog file safe to open? Asked of a child process, because a damaged one may end it.

DuckDB has aborted whole processes while replaying a damaged log (duckdb/duckdb-rs#649), and no
`except` catches that. So a file that this process did not close itself is first read from end to
end in a child: read-only, so that nothing in it changes, with processor time and core dumps
limited, so that neither a loop nor a crash leaves anything behind.

The child is this very file, started by its path with `-P` (no folder is put in front of the module
search path, so nothing here can shadow the standard library) and importing DuckDB only. It prints
`ready` once it could start, then one verdict. Death after `ready` is a verdict too: damaged. Death
before it says nothing about the file: unproved.
"""

from __future__ import annotations

import errno
import functools
import io
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

import duckdb

State = Literal["sound", "damaged", "in_use", "unproved"]

SECONDS: Final = 30.0  # a catalog of 100,000 subscribers takes 0.2
MEMORY: Final = "512MB"

# Lockdown: no file but the catalog's own, no extensions, no secrets, no Python variables by name.
# DuckDB itself adds the catalog's files to `allowed_paths`; nothing else is put there.
_SETTINGS: Final[dict[str, str]] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
    "python_enable_replacements": "false",
    "memory_limit": MEMORY,
    "threads": "1",
    "async_threads": "1",
    "max_temp_directory_size": "0KB",
    "storage_compatibility_version": "v1.4.0",  # any DuckDB from 1.4 on opens the file
    # Commit by checkpoint instead of by WAL: half the writing, and no WAL to be damaged by a crash.
    "checkpoint_threshold": "1KB",
    "auto_checkpoint_skip_wal_threshold": "0",
    "lock_configuration": "true",
}
_REASONS_OUTSIDE: Final = tuple(
    os.strerror(getattr(errno, name))
    for name in ("ENOSPC", "EDQUOT", "EFBIG", "EROFS", "EACCES", "EPERM", "EMFILE", "ENFILE", "ENOMEM")
)
# Unknown to DuckDB 1.4, and only a matter of speed there.
_OPTIONAL: Final = frozenset({"async_threads", "auto_checkpoint_skip_wal_threshold"})
_SCANS: Final = {
    "checkpoint": "SELECT bit_xor(hash(t)) FROM checkpoint t",
    "queues": "SELECT bit_xor(hash(t)) FROM queues t",
    "subscribers": "SELECT bit_xor(hash(t)) FROM subscribers t",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the child found; `detail` is one line for people."""

    state: State
    detail: str = ""


@functools.cache
def settings() -> dict[str, str]:
    """The lockdown, without what the installed DuckDB does not know."""
    with duckdb.connect() as memory:
        known = {name for (name,) in memory.execute("SELECT name FROM duckdb_settings()").fetchall()}
    return {name: value for name, value in _SETTINGS.items() if name in known or name not in _OPTIONAL}


def connect(path: Path, *, read_only: bool) -> duckdb.DuckDBPyConnection:
    """Open under the lockdown. Raises `duckdb.Error`."""
    return duckdb.connect(str(path), read_only=read_only, config=dict(settings()))


def is_in_use(error: duckdb.Error) -> bool:
    """Whether someone else has the file open: another process, or other code in this one."""
    if isinstance(error, duckdb.ConnectionException):
        return "different configuration" in str(error)
    return isinstance(error, duckdb.IOException) and "set lock on file" in str(error)


def is_from_outside(error: duckdb.Error) -> bool:
    """Whether the machine is at fault, not the file: disk full, no permission, too many files open."""
    return any(reason in str(error) for reason in _REASONS_OUTSIDE)


def first_line(error: BaseException) -> str:
    """What an error says, without the stack traces that DuckDB appends."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:500]


def probe(path: Path, seconds: float = SECONDS) -> Verdict:
    """Let a child read the whole file at `path`; never raises, never changes the file."""
    if not sys.executable or getattr(sys, "frozen", False):
        return Verdict("unproved", "there is no Python interpreter to start the probe with")
    command = [sys.executable, "-P", __file__, str(path)]
    try:
        child = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired as error:
        if b"ready" in (error.stdout or b""):
            return Verdict("damaged", f"reading it took more than {seconds:g} s")
        return Verdict("unproved", f"the probe did not start within {seconds:g} s")
    except OSError as error:
        return Verdict("unproved", f"the probe cannot be started: {error}")
    said = child.stdout.decode("utf-8", "replace").splitlines()
    if len(said) > 1:
        state, _, detail = said[-1].partition(" ")
        for known in get_args(State):
            if state == known:
                return Verdict(known, detail)
    if said[:1] == ["ready"]:
        return Verdict("damaged", f"reading it ended the probe with status {child.returncode}")
    return Verdict("unproved", f"the probe ended with status {child.returncode} before it began")


def _read_everything(path: Path) -> Verdict:
    try:
        with connect(path, read_only=True) as connection:
            tables = connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
            for (table,) in tables:
                if table in _SCANS:
                    connection.execute(_SCANS[table]).fetchall()
    except duckdb.Error as error:
        state: State = "unproved" if is_from_outside(error) else "damaged"
        return Verdict("in_use" if is_in_use(error) else state, first_line(error))
    return Verdict("sound")


def _limit_harm() -> None:
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (int(SECONDS), int(SECONDS)))


def main(path: str) -> None:
    """The child."""
    _limit_harm()
    settings()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    verdict = _read_everything(Path(path))
    sys.stdout.write(f"{verdict.state} {verdict.detail}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
