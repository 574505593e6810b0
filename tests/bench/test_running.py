"""The comparison runs, here with jjq embedded alone; a peer that is not there, or falls over, is said to."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.groups.network import network_rows
from bench.groups.peers import JjqGroup, RedisGroup
from bench.peers.compare import measured
from bench.peers.figures import compare
from bench.peers.scale import TINY, works
from bench.peers.server import Server, StartFailed, free_port
from bench.peers.systems.registry import SYSTEMS
from bench.peers.values import Timed, pool

ABSENT = {"native"}  # jjq has no generator apart from its clients


def test_every_work_gives_a_figure_for_jjq_embedded(tmp_path: Path) -> None:
    said: list[str] = []
    outcome = measured("embedded", "tiny", tmp_path, said.append)
    assert outcome.failed == {}
    assert set(outcome.values) == {work.key for work in works(TINY)} - ABSENT
    assert set(outcome.absent) == ABSENT
    assert all(value > 0 for values in outcome.values.values() for value in values)
    assert len(compare(works(TINY), {"jjq": outcome})) == len(works(TINY)) - len(ABSENT)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["redis", "nats", "kafka", "rabbitmq", "beanstalkd"])
def test_a_peer_that_is_not_installed_says_how_to_get_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"bench.peers.systems.{name}.command", lambda program: None)
    monkeypatch.setattr("bench.peers.systems.rabbitmq.DEBIAN", tmp_path / "none")
    said: list[str] = []
    outcome = measured(name, "tiny", tmp_path, said.append)
    assert "apt-get install" in outcome.missing or "make bench" in outcome.missing
    assert said == [f"{SYSTEMS[name].title} is missing: {outcome.missing}"]
    assert outcome.values == {}


def test_a_system_that_fails_is_reported_with_its_error_and_no_figures(tmp_path: Path) -> None:
    folder = tmp_path / "embedded" / "live"
    folder.mkdir(parents=True)
    (folder / "data").write_text("in the way of its directory")
    said: list[str] = []
    outcome = measured("embedded", "tiny", tmp_path, said.append)
    assert list(outcome.failed) == ["live"]
    assert "data" in outcome.failed["live"]
    assert outcome.values == {}
    assert said[-1] == f"jjq (embedded) failed, live: {outcome.failed['live']}"


def test_a_server_that_ends_at_once_is_reported_with_its_last_words(tmp_path: Path) -> None:
    server = Server(["sh", "-c", "echo no room on the disk; exit 3"], tmp_path / "log")
    with pytest.raises(StartFailed, match="ended with 3: no room on the disk"):
        server.wait_for_port(free_port())


def test_values_have_their_size_and_differ() -> None:
    for size in (100, 1_000):
        values = pool(size, 100_000)
        assert {len(value) for value in values} == {size}
        assert len(set(values)) == len(values) == 100_000 // size


def test_timed_values_are_counted_as_they_are_taken() -> None:
    source = Timed([b"a", b"b", b"c"], 0.01, step=2)
    assert len(list(source)) == source.count > 0


def test_workers_over_the_network_are_measured_and_a_missing_peer_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(RedisGroup, "missing", lambda: "no redis-server: apt-get install redis-server")
    ours, missing = network_rows(64, 1, (JjqGroup, RedisGroup))
    assert (ours.unit, ours.target) == ("/s", "≥ 8000")
    assert ours.value > 0
    assert "no redis-server" in missing.name
    assert missing.ok is None
