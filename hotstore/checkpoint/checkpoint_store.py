"""Where checkpoints are kept, and under which names.

    <data>/checkpoints/<sequence:020d>-<journal:016x>-<digest>.duckdb     the two newest; `ls` shows the newest last
    <data>/checkpoints/making.duckdb                                      one that is being made
    <data>/quarantine/<its name>                                          one that was damaged, or another journal's

The name proves the content: `digest` is the first half of the sha256 of the bytes. So a file whose digest is right
was written by jjq and is whole, and a damaged one never reaches DuckDB, which may crash on it. `journal` is the
identity of the journal that the checkpoint belongs to, `sequence` where the journal goes on after it.

**Written once.** A file is made under another name, synced and renamed, and never written again. The server opens none
of them: it reads one at a start, whole, and asks DuckDB about a copy. So people may open them with any tool, also to
write, and neither waits for the other. A file that was changed is put aside at the next start, or written again before.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from coldstore.shared import failpoint
from coldstore.shared.errors import DataLoss
from hotstore.journal.disk import Disk, read_all

FOLDER: Final = "checkpoints"
QUARANTINE: Final = "quarantine"
MAKING: Final = "making.duckdb"
ENDING: Final = ".duckdb"
_DIGEST_CHARS: Final = 32
_NAME: Final = re.compile(rf"(\d{{20}})-([0-9a-f]{{16}})-([0-9a-f]{{{_DIGEST_CHARS}}})\.duckdb")


class CheckpointName(NamedTuple):
    """What the name of a checkpoint says. They sort by sequence."""

    sequence: int
    journal: int
    digest: str

    def __str__(self) -> str:
        return f"{self.sequence:020d}-{self.journal:016x}-{self.digest}{ENDING}"

    @classmethod
    def parse(cls, text: str) -> CheckpointName | None:
        match = _NAME.fullmatch(text)
        return cls(int(match[1]), int(match[2], 16), match[3]) if match else None


class CheckpointStore(Protocol):
    """Keeps checkpoints. All verbs block: for a worker thread. They raise `OSError` or a `JjqError`."""

    @property
    def every_seconds(self) -> float:
        """How often one is worth to be written while things change."""
        ...

    def names(self) -> list[CheckpointName]:
        """Those that are there, oldest first."""
        ...

    def get(self, name: CheckpointName) -> bytes:
        """The bytes, whatever they are; `DataLoss` if they cannot be read."""
        ...

    def put(self, name: CheckpointName, made: Path) -> None:
        """Take the file `made`. When this returns, it is there for good; before, it is not there at all."""
        ...

    def remove(self, name: CheckpointName) -> None:
        """One that nobody needs any more; no error if it is gone already."""
        ...

    def put_aside(self, name: CheckpointName, why: str) -> str:
        """It cannot be used: keep it where no start looks. Returns that place."""
        ...

    def has(self, names: Sequence[CheckpointName]) -> bool:
        """Whether these are still there as they were put or first seen, as far as can be told without reading them."""
        ...


def digest_of(data: bytes | memoryview) -> str:
    return hashlib.sha256(data).hexdigest()[:_DIGEST_CHARS]


def digest_of_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:_DIGEST_CHARS]


class DiskCheckpoints:
    """Checkpoints in a data directory, the root of `disk`."""

    def __init__(self, disk: Disk, every_seconds: float) -> None:
        self._disk = disk
        self._seen: dict[CheckpointName, tuple[int, ...]] = {}
        self.every_seconds = every_seconds

    def names(self) -> list[CheckpointName]:
        found = [CheckpointName.parse(name) for name in self._disk.list(FOLDER)]
        names = sorted(name for name in found if name is not None)
        for name in names:
            self._seen.setdefault(name, self._disk.stamp(_path(name)))
        return names

    def get(self, name: CheckpointName) -> bytes:
        try:
            file = self._disk.open(_path(name))
            try:
                return read_all(file, 0, file.size())
            finally:
                file.close()
        except OSError as error:
            raise DataLoss(f"{name} cannot be read: {error}") from error

    def put(self, name: CheckpointName, made: Path) -> None:
        """Each step is durable before the next one begins."""
        temporary = f"{FOLDER}/{name}.new"
        self._disk.make_directory(FOLDER)
        with suppress(FileNotFoundError):
            self._disk.remove(temporary)
        self._disk.adopt(made, temporary)
        failpoint.reach("checkpoint.made")
        file = self._disk.open(temporary)
        try:
            file.sync()
        finally:
            file.close()
        failpoint.reach("checkpoint.synced")
        self._disk.rename(temporary, _path(name))
        failpoint.reach("checkpoint.renamed")
        self._disk.sync_directory(FOLDER)
        self._seen[name] = self._disk.stamp(_path(name))
        failpoint.reach("checkpoint.kept")

    def remove(self, name: CheckpointName) -> None:
        """Also what a tool left beside it, and what a start that was killed left unfinished."""
        self._seen.pop(name, None)
        for found in self._disk.list(FOLDER):
            if found.startswith(str(name)) or found.endswith(".new"):
                with suppress(FileNotFoundError):
                    self._disk.remove(f"{FOLDER}/{found}")

    def put_aside(self, name: CheckpointName, why: str) -> str:
        self._seen.pop(name, None)
        self._disk.make_directory(QUARANTINE)
        place = f"{QUARANTINE}/{name}"
        self._disk.rename(_path(name), place)
        self._disk.sync_directory(QUARANTINE)
        self._disk.sync_directory(FOLDER)
        return place

    def has(self, names: Sequence[CheckpointName]) -> bool:
        try:
            return all(self._seen.get(name) == self._disk.stamp(_path(name)) for name in names)
        except FileNotFoundError:
            return False


def _path(name: CheckpointName) -> str:
    return f"{FOLDER}/{name}"


def fresh_file(folder: Path) -> Path:
    """Where a checkpoint may be made; what an earlier attempt left there is removed."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = folder / MAKING
    for leftover in folder.glob(f"{MAKING}*"):
        with suppress(OSError):
            leftover.unlink()
    return made
