"""pyarrow.compute, which is imported when one of its functions is first asked for.

It takes 8 MB and as long as Arrow itself. A server that has sealed nothing yet, and most commands, do without it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    found = globals()[name] = getattr(import_module("pyarrow.compute"), name)
    return found
