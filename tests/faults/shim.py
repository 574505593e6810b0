"""The shim (shim.c): built once for a test run, and steered through a small shared file."""

from __future__ import annotations

import atexit
import mmap
import shutil
import struct
import subprocess
import tempfile
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).with_name("shim.c")
MISSING = "no C compiler (cc): faults of disk and clock need one to build tests/faults/shim.c"
_FIELDS = ("full", "fail_sync", "delay_sync_us", "clock_us", "fail_again", "failed", "refused")
_INT = struct.Struct("<q")


def can_build() -> bool:
    return shutil.which("cc") is not None


@cache
def built() -> Path:
    """The shared library, in a folder of its own that goes with this process."""
    folder = Path(tempfile.mkdtemp(prefix="jjq-shim-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    library = folder / "shim.so"
    command = [
        "cc",
        "-O1",
        "-shared",
        "-fPIC",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-o",
        str(library),
        str(SOURCE),
    ]
    done = subprocess.run([*command, "-ldl", "-lpthread"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return library


class Shim:
    """The controls of one server's shim. They may be changed while it runs."""

    def __init__(self, folder: Path, root: Path, *, undo: bool) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        control = folder / "control"
        control.write_bytes(bytes(_INT.size * len(_FIELDS)))
        with control.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self.root = root
        self.undo = folder / "undo" if undo else None
        self.environment = {
            "LD_PRELOAD": str(built()),
            "SHIM_CONTROL": str(control),
            "SHIM_ROOT": str(root),
        }
        if self.undo is not None:
            self.environment["SHIM_UNDO"] = str(self.undo)

    def __getitem__(self, name: str) -> int:
        found: int = _INT.unpack_from(self._map, _INT.size * _FIELDS.index(name))[0]
        return found

    def __setitem__(self, name: str, value: int) -> None:
        _INT.pack_into(self._map, _INT.size * _FIELDS.index(name), value)

    def heal(self) -> None:
        """No more faults."""
        for name in ("full", "fail_sync", "fail_again", "delay_sync_us", "clock_us"):
            self[name] = 0

    def close(self) -> None:
        self._map.close()
