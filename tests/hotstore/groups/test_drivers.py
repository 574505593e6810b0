"""Drivers: the shipped ones and the example keep the contract; one that breaks it is told so."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import pytest

from coldstore.shared.errors import InvalidInput
from hotstore.groups import drivers
from hotstore.groups.drivers import DriverKind, RunDriver, find_driver
from hotstore.groups.keyed import KeyedDriver
from hotstore.groups.values import GroupSettings
from hotstore.testing.driver_contract import check_driver
from tests.hotstore.kit import World
from tests.hotstore.work.kit import create, put, take

EXAMPLE = Path(__file__).parents[3] / "examples" / "newest_first"
SHIPPED = ["fifo", "fifottl", "limfifottl", "arrival", "utube", "utubettl"]


def everything(_task: int) -> bool:
    return True


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_driver_keeps_the_contract(name: str) -> None:
    check_driver(find_driver(name))


def test_sub_queues_with_limits_and_rates_keep_the_contract() -> None:
    check_driver(find_driver("utube"), GroupSettings(driver="utube", per_key=3, rate=2.0))


def test_arrival_puts_a_task_that_comes_back_behind_those_that_wait() -> None:
    driver = find_driver("arrival").make(GroupSettings(driver="arrival"))
    driver.add(0, 3, 0, None)
    assert driver.take(1, None, 0, everything) == [(0, 1)]
    driver.add(3, 1, -5, None)
    driver.add(0, 1, 0, None)  # given back
    driver.add(4, 1, 0, None)
    taken = [driver.take(1, None, 0, everything) for _ in range(5)]
    assert taken == [[(3, 1)], [(1, 1)], [(2, 1)], [(0, 1)], [(4, 1)]]
    assert driver.take(1, None, 0, everything) == []


class Forgetful(RunDriver):
    """Loses every tenth task."""

    def add(self, first: int, count: int, priority: int, key: bytes | None) -> None:
        if first % 10:
            super().add(first, count, priority, key)


class Generous(RunDriver):
    """Hands out more than it is asked for."""

    def take(
        self, most: int, keys: Collection[bytes] | None, now_us: int, is_ready: Callable[[int], bool]
    ) -> list[tuple[int, int]]:
        return super().take(most + 1, keys, now_us, is_ready)


@pytest.mark.parametrize(
    ("broken", "rule"),
    [(Forgetful, "never handed out"), (Generous, "at most")],
    ids=["forgetful", "generous"],
)
def test_a_driver_that_breaks_the_contract_is_told_so(broken: type[RunDriver], rule: str) -> None:
    kind = DriverKind("broken", frozenset(), lambda _settings: broken())
    with pytest.raises(AssertionError, match=rule):
        check_driver(kind)


def test_runs_are_joined_however_many_tasks_they_are() -> None:
    driver = RunDriver()
    for first in range(0, 1_000_000, 1_000):
        driver.add(first, 1_000, 0, None)
    assert driver.take(1_000_000, None, 0, everything) == [(0, 1_000_000)]


def test_a_busy_key_is_never_looked_at() -> None:
    driver = KeyedDriver(1)
    for task in range(10_000):
        driver.add(task, 1, 0, b"busy")
    driver.add(10_000, 1, 0, b"free")
    asked: list[int] = []

    def ask(task: int) -> bool:
        asked.append(task)
        return True

    assert driver.take(5, None, 0, ask) == [(0, 1), (10_000, 1)]
    assert driver.take(5, None, 0, ask) == []
    assert asked == [0, 10_000]


def test_keys_that_are_done_are_forgotten() -> None:
    for driver in (KeyedDriver(1), KeyedDriver(1, rate=1_000.0)):
        for task in range(100):
            driver.add(task, 1, 0, b"%d" % task)
        for task, _ in driver.take(100, None, 0, everything):
            driver.free(task)
        driver.take(1, None, 10_000_000, everything)
        assert driver._keys == {}


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The example, as `pip install` would leave it."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    points = project["entry-points"]["jjq.drivers"]
    info = tmp_path / "jjq_newest_first-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 1.0\n")
    lines = "".join(f"{name} = {target}\n" for name, target in points.items())
    (info / "entry_points.txt").write_text(f"[jjq.drivers]\n{lines}broken = json:dumps\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(EXAMPLE))
    drivers._installed.cache_clear()
    yield
    drivers._installed.cache_clear()
    sys.modules.pop("newest_first", None)


async def test_a_driver_comes_by_its_entry_point(installed: None, world: World) -> None:
    check_driver(find_driver("newest-first"))
    await create(world.store, driver="newest-first")
    await put(world.store, b"0", b"1", b"2")
    assert await take(world.store, 2, stage="synced") == [(2, 1), (1, 1)]
    await world.restart()
    assert await take(world.store, 1) == [(2, 2)]


async def test_a_group_waits_for_its_driver_while_pushes_go_on(
    installed: None, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create(world.store, driver="newest-first")
    await put(world.store, b"0", b"1")
    assert await take(world.store, 1, stage="synced") == [(1, 1)]
    with monkeypatch.context() as uninstalled:
        uninstalled.setattr(drivers, "_installed", dict)
        await world.restart()
        with pytest.raises(InvalidInput, match="driver 'newest-first' is not known"):
            await take(world.store)
        await put(world.store, b"2")
        await create(world.store, "q/other")
        assert [group.id for group in await world.store.list_groups()] == ["q/other"]
    await world.restart()
    assert await take(world.store, 3) == [(2, 1), (1, 2), (0, 1)]


def test_an_unknown_driver_and_one_that_is_none_are_refused(installed: None) -> None:
    with pytest.raises(InvalidInput, match=r"use one of fifo, .*newest-first"):
        find_driver("lifo")
    with pytest.raises(InvalidInput, match="must be a DriverKind"):
        find_driver("broken")
