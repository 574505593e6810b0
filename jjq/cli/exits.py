"""Exit codes, which scripts may rely on.

0    done
1    any other error
2    the request is wrong: a bad option, name, position or value; correct it
3    no such queue or subscriber
4    stored data is damaged or missing; `jjq verify` found defects
5    the state is not the expected one: it exists already, or someone else moved it
6    not allowed with these credentials
7    not now: the server cannot be reached, or has no room; try again later
8    `jjq verify`: the last files of a queue are missing, and all before them is sound
130  interrupted by Ctrl-C
141  the reader of the output has gone
"""

from __future__ import annotations

from typing import Final

from coldstore.shared.errors import (
    Conflict,
    DataLoss,
    Denied,
    Exhausted,
    InvalidInput,
    JjqError,
    NotFound,
    OutOfRange,
    Unavailable,
)

OK: Final = 0
ERROR: Final = 1
USAGE: Final = 2
DAMAGED: Final = 4
CUT_OFF: Final = 8
UNAVAILABLE: Final = 7
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141

_CODES: Final[dict[type[JjqError], int]] = {
    InvalidInput: USAGE,
    OutOfRange: USAGE,
    NotFound: 3,
    DataLoss: DAMAGED,
    Conflict: 5,
    Denied: 6,
    Exhausted: UNAVAILABLE,
    Unavailable: UNAVAILABLE,
}


def code_of(error: JjqError) -> int:
    """The exit code of an error, or of the nearest kind that it is one of."""
    return next((_CODES[kind] for kind in type(error).__mro__ if kind in _CODES), ERROR)
