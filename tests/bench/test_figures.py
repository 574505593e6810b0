"""The arithmetic of the comparison: medians, spreads, ratios, and what is said of a peer that is not there."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from bench.groups import __main__ as work_chart
from bench.groups.peers import JjqGroup, RedisGroup
from bench.peers import report
from bench.peers.figures import Outcome, Work, compare, ratio, summary
from bench.peers.plot import plot

RATE = Work("rate", "push", "elements/s")
TIME = Work("time", "restart", "s", higher_is_better=False)


def outcomes() -> dict[str, Outcome]:
    ours = Outcome("jjq (server)", values={"rate": [100.0, 300.0, 200.0], "time": [2.0]})
    peer = Outcome(
        "Peer", weaker=True, durability="none", values={"rate": [50.0]}, absent={"time": "no disk"}
    )
    gone = Outcome("Gone", missing="no gone-server: apt-get install gone")
    ill = Outcome("Ill", failed={"live": "it fell over"}, values={"time": [1.0]})
    return {"jjq": ours, "peer": peer, "gone": gone, "ill": ill}


def found() -> dict[str, Any]:
    systems = outcomes()
    return {
        "when": "2026-01-01T00:00:00+00:00",
        "size": "full",
        "machine": {"cores": "2"},
        "limits": [{"title": "write + fdatasync", "value": 0.25, "unit": "ms"}],
        "systems": {name: asdict(outcome) for name, outcome in systems.items()},
        "table": compare([RATE, TIME], systems),
    }


def test_a_summary_is_the_median_and_the_range_whatever_the_order() -> None:
    got = summary([30.0, 10.0, 20.0, 100.0])
    assert (got.median, got.low, got.high) == (25.0, 10.0, 100.0)
    assert got.spread == pytest.approx(3.6)


def test_a_ratio_above_one_is_always_better_than_jjq() -> None:
    assert ratio(RATE, 200.0, 100.0) == 2.0
    assert ratio(TIME, 0.5, 2.0) == 4.0
    assert ratio(TIME, 4.0, 2.0) == 0.5


def test_there_is_no_ratio_with_nothing() -> None:
    assert ratio(RATE, 0.0, 100.0) is None
    assert ratio(TIME, 1.0, 0.0) is None


def test_a_table_has_a_figure_or_a_reason_for_every_system() -> None:
    rate, time = compare([RATE, TIME], outcomes())
    assert rate["systems"]["jjq"] == {"median": 200.0, "low": 100.0, "high": 300.0, "runs": 3, "ratio": 1.0}
    assert rate["systems"]["peer"]["ratio"] == 0.25
    assert rate["systems"]["gone"] == {"why": "no gone-server: apt-get install gone"}
    assert rate["systems"]["ill"] == {"why": "it fell over"}
    assert time["systems"]["peer"] == {"why": "no disk"}
    assert time["systems"]["ill"]["ratio"] == 2.0


def test_work_that_nobody_did_is_no_line() -> None:
    assert compare([Work("other", "other", "s")], outcomes()) == []


def test_without_jjq_there_are_figures_and_no_ratios() -> None:
    [row] = compare([RATE], {"peer": outcomes()["peer"]})
    assert row["systems"]["peer"]["median"] == 50.0
    assert "ratio" not in row["systems"]["peer"]


def test_the_report_marks_weaker_durability_and_names_what_is_missing_or_failed() -> None:
    text = report.markdown(found())
    assert "| push, elements/s | 200 ±50% | 50 (0.25×) | — | — |" in text
    assert "Peer*" in text
    assert "* Peer: none" in text
    assert "Gone is missing: no gone-server: apt-get install gone" in text
    assert "Ill failed, live: it fell over" in text


def test_the_short_table_says_what_is_missing_instead_of_showing_an_empty_column() -> None:
    text = report.short(found())
    assert "Gone |" not in text
    assert "Gone is missing: no gone-server" in text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.2345, "0.234"), (12.34, "12.3"), (1234.5, "1,234"), (45_600.0, "45.6 k"), (1_234_000.0, "1.23 M")],
)
def test_numbers_have_three_digits(value: float, text: str) -> None:
    assert report.number(value) == text


def test_a_run_is_drawn_as_two_charts(tmp_path: Path) -> None:
    works = [Work("push.64.100", "push", "elements/s"), Work("growth.100", "push", "ms", False)]
    systems = {
        "jjq": Outcome("jjq", values={"push.64.100": [2.0], "growth.100": [1.0]}),
        "peer": Outcome("Peer", weaker=True, values={"push.64.100": [1.0]}),
    }
    table = compare(works, systems)
    drawn = {"table": table, "systems": {name: asdict(system) for name, system in systems.items()}}
    assert plot(drawn, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["latency.png", "throughput.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in tmp_path.iterdir())


def test_the_files_of_a_run_can_be_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.peers.plot.find_spec", lambda name: None)
    report.write(found(), tmp_path)
    read = json.loads((tmp_path / "peers.json").read_text("utf-8"))
    assert read == found()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["README-table.md", "peers.json", "peers.md"]


def test_the_chart_of_work_queues_has_every_round_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rates = {JjqGroup: [7_000.0, 9_000.0, 8_000.0], RedisGroup: [2_000.0]}
    monkeypatch.setattr(work_chart, "network_rates", lambda tasks, rounds, peers: rates)
    assert work_chart.main(["--results", str(tmp_path), "--tasks", "5"]) == 0
    found = json.loads((tmp_path / "work.json").read_text())
    assert found["tasks"] == 5
    assert found["rates"] == {JjqGroup.title: rates[JjqGroup], RedisGroup.title: rates[RedisGroup]}
    assert (tmp_path / "work.png").read_bytes().startswith(b"\x89PNG")
    assert "jjq: 8,000/s" in capsys.readouterr().out
