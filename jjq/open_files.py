"""How many files and connections this process may have open.

A shell often allows 1,024 of them, although a process may raise that by itself to what the system allows. Then a
thousand connections that are idle would leave no file for the journal.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

_ENOUGH: Final = 65_536  # far more than all limits of ours together
_USUAL: Final = 1_024  # where nobody can tell


def allow_many() -> None:
    """Raise the limit of this process as far as the system lets it."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
        if soft != resource.RLIM_INFINITY and soft < most:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def open_files_max() -> int:
    """How many this process may have open now."""
    try:
        import resource
    except ImportError:
        return _USUAL
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _ENOUGH if soft == resource.RLIM_INFINITY else soft
