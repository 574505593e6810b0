"""What holds for every test of this room."""

from __future__ import annotations

import pytest

from hotstore.journal import spares
from hotstore.journal.disk import Disk, write_all
from hotstore.journal.segment import FREE, NEW, name_of


@pytest.fixture(autouse=True)
def holes_for_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores of this process make the files of their journals of holes, which are read as zeros too.

    A store makes two of 32 MiB when it opens. To write them took most of the time of a small test; that files are
    written whole is for tests of the journal.
    """
    monkeypatch.setattr(spares, "zeroed", _hole)


def _hole(disk: Disk, number: int, segment_bytes: int) -> str:
    new, free = name_of(number, NEW), name_of(number, FREE)
    file = disk.open(new, create=True)
    try:
        write_all(file, segment_bytes - 1, [b"\0"], 1)
        file.sync()
    finally:
        file.close()
    disk.rename(new, free)
    return free
