"""Copies of a cold store that other tools take while a server writes: restored, they are a sound prefix, and a server
that goes on with one never lets `data/` and itself disagree."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest

import jjq as client_of
from jjq.cli.app import run
from tests.servers.waiting import wait_until

PUSH = 400


class Load:
    """A server in this process that is pushed to, and seals all the while."""

    def __init__(self, folder: Path) -> None:
        self.cold = folder / "cold"
        self.pushed = 0
        self._client = client_of.open(folder)
        self._client.create_queue("orders", block_bytes=64 * 1024)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load")
        self._failed: list[BaseException] = []
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self.push()
        except BaseException as error:  # noqa: BLE001 told to the test when it ends
            self._failed.append(error)

    def push(self) -> None:
        """Every third block is young: too small to fill one."""
        count = PUSH // 8 if self.pushed % 3 == 0 else PUSH
        self._client.push("orders", [value(n) for n in range(self.pushed, self.pushed + count)])
        self._client.seal("orders")
        self.pushed += count

    def more(self, blocks: int = 3) -> None:
        """Wait until so many more blocks were sealed."""
        due = self.pushed + blocks * PUSH
        wait_until(lambda: bool(self._failed) or self.pushed >= due, "more is pushed", 60)

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self._client.close()
        assert self._failed == []


def value(offset: int) -> bytes:
    return b"%d " % offset * 40


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Load]:
    made = Load(tmp_path / "served")
    made.more()
    yield made
    made.close()


def cp(load: Load, copy: Path) -> None:
    # It ends with 1 if a claim was deleted between listing and reading: no harm.
    subprocess.run(["cp", "-r", str(load.cold), str(copy)], check=False, stderr=subprocess.DEVNULL)


def tar(load: Load, copy: Path) -> None:
    with (
        subprocess.Popen(
            ["tar", "-C", str(load.cold), "-cf", "-", "."], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as packing,
        tarfile.open(fileobj=packing.stdout, mode="r|") as packed,
    ):
        packed.extractall(copy, filter="data")


def backup(load: Load, copy: Path) -> None:
    assert run(["backup", str(load.cold), str(copy)]) == 0


def folder_by_folder(*names: str) -> Callable[[Load, Path], None]:
    """As a slow tool works: one folder, a while, the next one."""

    def slowly(load: Load, copy: Path) -> None:
        queue = Path("queues") / "orders"
        (copy / queue).mkdir(parents=True)
        for name in ("jjq.json", queue / "queue.json"):
            shutil.copy(load.cold / name, copy / name)
        for name in names:
            subprocess.run(
                ["cp", "-r", str(load.cold / queue / name), str(copy / queue / name)],
                check=False,
                stderr=subprocess.DEVNULL,
            )
            load.more()

    return slowly


WAYS: dict[str, Callable[[Load, Path], None]] = {
    "cp": cp,
    "tar": tar,
    "jjq backup": backup,
    "metadata first": folder_by_folder("meta", "young", "data"),
    "data first": folder_by_folder("data", "young", "meta"),
}


def taken(load: Load, way: str, folder: Path) -> Path:
    """A copy, taken under load, without what says who serves the place that it is of."""
    copy = folder / "copy"
    WAYS[way](load, copy)
    for name in ("cluster", "journals", "queues/orders/shards.json", "queues/orders/state"):
        path = copy / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    return copy


def in_data(cold: Path) -> list[tuple[int, bytes]]:
    """What DuckDB finds in the folder."""
    files = str(cold / "queues" / "orders" / "data" / "*.parquet")
    with duckdb.connect() as connection:
        query = f"select \"offset\", value from read_parquet('{files}') order by all"
        return connection.execute(query).fetchall()


def go_on(data: Path, cold: Path) -> int:
    """Start a server on a cold store, twice; push other elements, seal, compare it with `data/`. Where it went on."""
    went_on, _ = _serve(data, cold)
    _, served = _serve(data, cold)
    assert served[:went_on] == [(n, value(n)) for n in range(went_on)]
    assert run(["verify", "--cold", str(cold)]) == 0
    return went_on


def _serve(data: Path, cold: Path) -> tuple[int, list[tuple[int, bytes | str]]]:
    with client_of.open(data, str(cold)) as client:
        began = client.get_queue("orders").next_offset
        for count in (10, PUSH, PUSH, PUSH):
            first = client.get_queue("orders").next_offset
            client.push("orders", [b"other %d " % n * 40 for n in range(first, first + count)])
            client.seal("orders")
        served = [(e.offset, e.value) for e in client.replay("orders", start="beginning").elements()]
    assert [offset for offset, _ in served] == list(range(began + 10 + 3 * PUSH))
    found = in_data(cold)
    assert len(found) > began
    assert found == served[: len(found)]
    return began, served


@pytest.mark.parametrize("way", WAYS)
def test_a_copy_taken_under_load_is_restored_as_a_sound_prefix(load: Load, tmp_path: Path, way: str) -> None:
    before = load.pushed
    copy = taken(load, way, tmp_path)
    assert run(["verify", "--cold", str(copy)]) in ((0,) if way == "jjq backup" else (0, 8))
    assert run(["restore", str(copy), str(tmp_path / "place")]) in ((0,) if way == "jjq backup" else (0, 8))
    assert run(["verify", "--cold", str(tmp_path / "place")]) == 0
    # What was young when it began may have been merged before the tool came to it.
    assert go_on(tmp_path / "data", tmp_path / "place") >= before - PUSH


def unnamed(copy: Path) -> set[str]:
    """Files in `data/` that no metadata names."""
    queue = copy / "queues" / "orders"
    named = {json.loads(meta.read_bytes())["path"] for meta in (queue / "meta").iterdir()}
    return {f"data/{file.name}" for file in (queue / "data").iterdir()} - named


def test_a_server_that_starts_on_a_copy_whose_metadata_is_older_keeps_data_an_exact_prefix(
    load: Load, tmp_path: Path
) -> None:
    copy = taken(load, "metadata first", tmp_path)
    strays = unnamed(copy)
    assert len(strays) > 1
    go_on(tmp_path / "data", copy)
    kept = {f"data/{file.stem}" for file in (copy / "queues" / "orders" / "quarantine").iterdir()}
    assert kept >= strays  # perhaps one more: a file that was claimed, and ended where a stray began
    assert unnamed(copy) == set()
