r"""The mutex variable of a message: several workers on one file, and each message goes to one of them.

    \mutex=            free: nothing but spaces after the equals sign
    \mutex=~1f3c@host  claimed by process 0x1f3c of that machine
    \mutex=anna        claimed by a worker that was given this name
    \MUTEX             free, without room for a name
    \mutex             the same, claimed

A claim is one write of the variable's length, under the sidecar's lock, so no two workers get it. A process that
died holding a claim is noticed by others of its machine, who may then claim it. A name that a person chose is never
taken away.
"""

from __future__ import annotations

import os
import re
from typing import Final

from coldstore.shared.errors import InvalidInput

_PROCESS: Final = re.compile(r"~([0-9a-f]+)(?:@(.*))?")
_NAMED: Final = "mutex="
_FREE_WORD: Final = "MUTEX"
_TAKEN_WORD: Final = "mutex"


def find_mutex(variables: tuple[str, ...]) -> int | None:
    """Which variable is the mutex; None where a message has none."""
    for index, text in enumerate(variables):
        if text[: len(_NAMED)].lower() == _NAMED or text.rstrip(" ").lower() == _TAKEN_WORD:
            return index
    return None


def holder_of(variable: str) -> str | None:
    """The name of the worker that claimed it; "" if there is no room for a name, None if it is free."""
    text = variable.rstrip(" ")
    if "=" not in text:
        return None if text == _FREE_WORD else ""
    return text.partition("=")[2].strip(" ") or None


def claimed(variable: str, owner: str | None) -> str:
    """The variable as it is once `owner` has claimed it, or this process."""
    head, equals, _ = variable.partition("=")
    if not equals:
        return _TAKEN_WORD
    room = len(variable.encode()) - len(head.encode()) - 1
    if owner is None:
        owner = process_name(room)
    elif not owner.strip(" ") or owner.strip(" ") != owner or owner.startswith("~"):
        raise InvalidInput(
            f"{owner!r} cannot own a mutex: give a name without spaces around it and without '~'"
        )
    if len(owner.encode()) > room:
        raise InvalidInput(
            f"the mutex variable has room for {room} bytes and its owner {owner!r} needs {len(owner.encode())}: "
            f"append messages with more spaces after {_NAMED!r}"
        )
    return f"{head}={owner}"


def released(variable: str) -> str:
    """The variable as it is when nobody claims it."""
    head, equals, _ = variable.partition("=")
    return f"{head}=" if equals else _FREE_WORD


def process_name(room: int) -> str:
    """The name of this process, with as much of the machine's name as there is room for."""
    name = f"~{os.getpid():x}"
    host = f"@{_machine()}"
    return name + host[: max(0, room - len(name))] if room > len(name) + 1 else name


def is_dead(holder: str) -> bool:
    """Whether a claim is that of a process of this machine which is no more."""
    match = _PROCESS.fullmatch(holder)
    if match is None or not _machine().startswith(match[2] or ""):
        return False
    try:
        os.kill(int(match[1], 16), 0)
    except ProcessLookupError:
        return True
    except (OverflowError, PermissionError):
        return False  # it is somebody else's process, or no process at all: a person has to look
    return _is_zombie(int(match[1], 16))


def _is_zombie(process: int) -> bool:
    """Whether a process has ended and its parent has not asked for its exit code yet (Linux)."""
    try:
        descriptor = os.open(f"/proc/{process}/stat", os.O_RDONLY)
    except OSError:
        return False
    try:
        return os.read(descriptor, 4096).rpartition(b")")[2].split()[:1] == [b"Z"]
    finally:
        os.close(descriptor)


def _machine() -> str:
    return "".join(c if c.isascii() and c.isprintable() and c != " " else "-" for c in os.uname().nodename)
