"""What a command sets up before it imports much: libraries that it does without, and Arrow's allocator."""

from __future__ import annotations

import gc
import sys
from collections.abc import MutableMapping, Sequence
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any


class _Without:
    def __init__(self, *names: str) -> None:
        self._names = names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname in self._names:
            raise ModuleNotFoundError(f"the command jjq does without {fullname}", name=fullname)
        return None  # all others are for the finders after this one


def without_pandas() -> None:
    """From now on `import pandas` fails in this process, as if it were not installed."""
    sys.meta_path.insert(0, _Without("pandas"))


def prepare_server(environment: MutableMapping[str, str]) -> None:
    """For a process that is a server and nothing else, before anything large is imported.

    It does without rich, which the library of its logs would import, and without Arrow's own ways to S3 and others,
    which its Parquet would: ours are in coldstore/objects. And without what three packages import by themselves, unless
    somebody asks for it, as a driver of the user's may. We use the protocol of uvicorn, which brings a command line,
    click and multiprocessing; the frames of picows, which brings ways through proxies; and the figures of
    prometheus_client, which brings servers.
    """
    environment.setdefault("GRPC_VERBOSITY", "NONE")  # what it would say of our settings, we say in one line
    gc.disable()  # what a start makes, stays: `stalls.frozen` goes on from there
    clouds = ("pyarrow._s3fs", "pyarrow._gcsfs", "pyarrow._azurefs", "pyarrow._hdfs")
    sys.meta_path.insert(0, _Without("rich", *clouds))
    for name in ("uvicorn", "picows", "prometheus_client"):
        _import_bare(name)
    vars(sys.modules["uvicorn"])["Config"] = object  # one of its modules imports this name, for an annotation


def _import_bare(name: str) -> None:
    """A package whose `__init__` runs when a name is missed; before that, its modules are imported one by one."""
    found = find_spec(name)
    if found is None or found.loader is None or name in sys.modules:
        return
    package, loader = module_from_spec(found), found.loader

    def missed(wanted: str) -> Any:
        if wanted.startswith("__") or find_spec(f"{name}.{wanted}") is not None:
            raise AttributeError(wanted)  # of a module of its own: it is imported then
        del vars(package)["__getattr__"]
        loader.exec_module(package)
        return getattr(package, wanted)

    vars(package)["__getattr__"] = missed
    sys.modules[name] = package


def choose_pool(environment: MutableMapping[str, str]) -> None:
    """Let all of Arrow allocate with jemalloc, unless the user chose an allocator; before Arrow is imported.

    After Arrow had encoded a block of 64 MiB, its default allocator kept about 80 MB for ever: threads that ended had
    freed them. What we set later holds for what Python asks for only (hotstore/runner.py).
    """
    environment.setdefault("ARROW_DEFAULT_MEMORY_POOL", "jemalloc")
