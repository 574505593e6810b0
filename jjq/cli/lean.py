"""Commands start without pandas.

pyarrow imports it, where it is installed, at the first array that it makes of a list, to see whether the
list is a series. That is as much work as all else that a command does before its first request, and no
command has a series, but for pipelines: those run code of their users.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class _NoPandas(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == "pandas":
            raise ModuleNotFoundError("the command jjq does without pandas", name=fullname)
        return None  # all others are for the finders after this one


def without_pandas() -> None:
    """From now on `import pandas` fails in this process, as if it were not installed."""
    sys.meta_path.insert(0, _NoPandas())
