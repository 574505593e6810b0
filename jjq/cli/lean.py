"""What a command sets up before it imports much: libraries that it does without, and Arrow's allocator."""

from __future__ import annotations

import sys
from collections.abc import MutableMapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class _Without(MetaPathFinder):
    def __init__(self, name: str) -> None:
        self._name = name

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == self._name:
            raise ModuleNotFoundError(f"the command jjq does without {fullname}", name=fullname)
        return None  # all others are for the finders after this one


def without_pandas() -> None:
    """From now on `import pandas` fails in this process, as if it were not installed."""
    sys.meta_path.insert(0, _Without("pandas"))


def without_rich() -> None:
    """The same for rich, if nobody has it yet."""
    sys.meta_path.insert(0, _Without("rich"))


def choose_pool(environment: MutableMapping[str, str]) -> None:
    """Let all of Arrow allocate with jemalloc, unless the user chose an allocator; before Arrow is imported.

    After Arrow had encoded a block of 64 MiB, its default allocator kept about 80 MB for ever: threads that ended had
    freed them. What we set later holds for what Python asks for only (hotstore/runner.py).
    """
    environment.setdefault("ARROW_DEFAULT_MEMORY_POOL", "jemalloc")
