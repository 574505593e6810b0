"""The tour of the README runs exactly as written, and shows what the README shows."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT
from tests.servers.jjq_server import clean_environment
from tests.servers.waiting import free_ports, wait_until

ADDRESS = "127.0.0.1:7575"
HANGS = 240  # seconds; on a busy machine the step that starts Spark took more than 60
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")


@dataclass
class Step:
    """A code block, and the output that is shown below it."""

    language: str
    code: str
    shown: str = ""


def tour() -> list[Step]:
    text = (ROOT / "README.md").read_text("utf-8")
    section = text.split("## A tour in five minutes")[1].split("\n## ")[0]
    steps: list[Step] = []
    for language, code in BLOCK.findall(section):
        if language == "text":
            steps[-1].shown += code
        else:
            steps.append(Step(language, code))
    return steps


@pytest.fixture(scope="module")
def address() -> str:
    """The default address if it is free, else another: the only thing that may differ from the text."""
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", 7575)):
            return ADDRESS
    return f"127.0.0.1:{free_ports(1)[0]}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, address: str) -> Iterator[Path]:
    """A folder like the checkout of a user who has run `make serve`."""
    home = tmp_path_factory.mktemp("checkout")
    (home / ".venv").symlink_to(Path(sys.prefix))
    (home / "README.md").symlink_to(ROOT / "README.md")
    log = home / "log"
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [".venv/bin/jjq", "serve", "--listen", address],
            cwd=home,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=clean_environment(),
        ) as server,
    ):
        wait_until(
            lambda: b"jjq listens on" in log.read_bytes() or server.poll() is not None, "it serves", 60
        )
        assert server.poll() is None, log.read_text()
        yield home
        server.terminate()
        assert server.wait(30) == 0


def run(step: Step, folder: Path, address: str) -> str:
    code = step.code.replace(ADDRESS, address)
    command = ["bash", "-euo", "pipefail", "-c", code]
    if step.language == "python":
        command = [".venv/bin/python", "-W", "error", "-c", code]
    environment = clean_environment(PATH=f"{folder}/.venv/bin:{os.environ['PATH']}")
    if address != ADDRESS:
        environment["JJQ_SERVER"] = address
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=HANGS, env=environment, check=False
    )
    said = "" if "pyspark" in code else done.stderr  # Java and Spark talk while they start
    assert (done.returncode, said) == (0, ""), f"{step.code}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(2 * HANGS)
def test_the_tour_runs_exactly_as_written(folder: Path, address: str) -> None:
    outputs = []
    for step in tour():
        output = run(step, folder, address)
        if step.shown:
            assert TIME.sub("TIME", output) == TIME.sub("TIME", step.shown)
        outputs.append(output)
    everything = "\n".join(outputs)
    assert re.search(r"0 +final +\d+", everything), "the blocks were shown"
    assert re.search(r"milk +│ +1 ", everything), "DuckDB has counted"
    assert "00000000000000000000.parquet" in everything
    assert re.search(r"^milk +1$", everything, re.MULTILINE), "SQL has counted"


def test_the_tour_has_every_stop() -> None:
    code = "".join(step.code for step in tour())
    for stop in (
        "queue create",
        "subscriber create",
        "push",
        "pop",
        "ago:1h",
        "blocks",
        "jjq sql",
        "duckdb",
        "client.take",
        "client.ack",
        "jjq.spark.read",
        "jjq.open",
        "push_file",
    ):
        assert stop in code
    assert {step.language for step in tour()} == {"sh", "python"}


def test_every_file_that_the_readme_names_exists() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    links = re.findall(r"\]\(([^)#:]+)\)", text)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_every_command_that_the_readme_names_exists() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:^|`)make ([a-z-]+)", text, re.MULTILINE)) <= targets
