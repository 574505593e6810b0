"""Data files of the cold store as a file system of Arrow, so that Parquet is read by ranges, wherever it lies.

In a folder Arrow opens the files itself. On S3, or in memory, our own object store reads the ranges that Arrow asks
for, with its credentials and its retries. So no secret is in DuckDB, no extension is needed, and nothing is downloaded
that was not asked for.

Arrow passes errors on as text. `ScanFailures` keeps the first one as it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import pyarrow as pa
from pyarrow import fs

from coldstore.objects.local import LocalObjects
from coldstore.objects.object_reader import ObjectReader
from coldstore.objects.port import ObjectStore
from coldstore.shared.errors import JjqError


class ScanFailures:
    """The first error of ours that happened inside of Arrow or DuckDB."""

    def __init__(self) -> None:
        self.first: JjqError | None = None

    def note(self, error: JjqError) -> None:
        if self.first is None:
            self.first = error


def file_system(objects: ObjectStore, sizes: Mapping[str, int], failures: ScanFailures) -> fs.FileSystem:
    """The objects by their keys. `sizes` are known from metadata, so nothing is asked before it is read."""
    if isinstance(objects, LocalObjects):
        return fs.SubTreeFileSystem(str(objects.root), fs.LocalFileSystem())
    return fs.PyFileSystem(_ObjectFiles(objects, sizes, failures))


class _ScannedObject(ObjectReader):
    """As a scan reads it: Arrow gets an `OSError`, and the error of ours is kept."""

    def __init__(self, objects: ObjectStore, key: str, size: int, failures: ScanFailures) -> None:
        super().__init__(objects, key, size)
        self._failures = failures

    def read(self, size: int | None = -1) -> bytes:
        try:
            return super().read(size)
        except JjqError as error:
            self._failures.note(error)
            raise OSError(str(error)) from error


class _ObjectFiles(fs.FileSystemHandler):  # type: ignore[misc]
    """What Arrow needs to read files by name; it lists and writes nothing."""

    def __init__(self, objects: ObjectStore, sizes: Mapping[str, int], failures: ScanFailures) -> None:
        self._objects = objects
        self._sizes = sizes
        self._failures = failures

    def get_type_name(self) -> str:
        return "jjq"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        return [fs.FileInfo(path, fs.FileType.File, size=self._sizes[path]) for path in paths]

    def open_input_file(self, path: str) -> pa.PythonFile:
        return pa.PythonFile(_ScannedObject(self._objects, path, self._sizes[path], self._failures), mode="r")

    def open_input_stream(self, path: str) -> pa.PythonFile:
        return self.open_input_file(path)

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError("files of the cold store are only read")

    get_file_info_selector = create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = (
        _refuse
    )
    delete_file = move = copy_file = open_output_stream = open_append_stream = _refuse
