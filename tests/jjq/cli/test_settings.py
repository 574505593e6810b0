"""Settings: flags > JJQ_* > TOML file > defaults, validated once, refused in one line."""

from __future__ import annotations

import inspect
import os
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest

from coldstore.shared.errors import InvalidInput
from hotstore.settings import HotSettings
from jjq.cli.operate.serve import serve
from jjq.node.settings import NAMES, SECRETS, Settings


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("JJQ_")]:
        monkeypatch.delenv(name)


def toml(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "jjq.toml"
    path.write_text(text)
    return path


def test_flags_win_over_the_environment_and_that_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = toml(tmp_path, 'listen = "1.1.1.1:1"\nnode = "file"\nlog = "json"\n')
    monkeypatch.setenv("JJQ_LISTEN", "2.2.2.2:2")
    monkeypatch.setenv("JJQ_NODE", "environment")
    settings = Settings.load({"listen": "3.3.3.3:3", "node": None}, config)
    assert (settings.listen, settings.node, settings.log) == ("3.3.3.3:3", "environment", "json")
    assert settings.data == Path("jjq-data")


def test_defaults_are_those_of_the_parts() -> None:
    settings = Settings.load({})
    node = settings.node_settings()
    assert node.hot == HotSettings()
    assert node.cold_url == "jjq-data/cold"
    assert settings.server_settings().listen == "127.0.0.1:7575"


def test_sizes_have_units_and_settings_reach_the_parts(tmp_path: Path) -> None:
    config = toml(tmp_path, 'hot_bytes_max = "1.5GiB"\njournal_bytes_max = 1073741824\nreflection = true\n')
    settings = Settings.load({"cold": "s3://bucket/x", "s3_endpoint": "http://h:1", "data": "d"}, config)
    node = settings.node_settings()
    assert (node.hot.hot_bytes_max, node.hot.journal_bytes_max) == (3 << 29, 1 << 30)
    assert node.s3 is not None
    assert (node.cold_url, node.s3.endpoint) == ("s3://bucket/x", "http://h:1")
    assert settings.server_settings().reflection


def test_settings_never_change_and_never_show_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JJQ_S3_ACCESS_KEY", "who")
    monkeypatch.setenv("JJQ_S3_SECRET_KEY", "hush")
    settings = Settings.load({})
    assert "hush" not in repr(settings) + repr(settings.node_settings())
    s3 = settings.node_settings().s3
    assert s3 is not None
    assert (s3.access_key, s3.secret_key) == ("who", "hush")
    with pytest.raises(FrozenInstanceError):
        settings.listen = "elsewhere:1"  # type: ignore[misc]


def test_other_variables_are_ignored_as_kubernetes_makes_them_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JJQ_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("JJQ_PORT", "tcp://10.0.0.1:7575")
    monkeypatch.setenv("JJQ_COLD", "")
    assert Settings.load({}).cold is None


WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"journal": "tape"}, "", "--journal is 'tape': 'tape' is not known; use disk or s3"),
    ({"journal": "tape"}, "", "--journal is 'tape'"),
    ({"listen": "here"}, "", "is not HOST:PORT"),
    ({"metrics_listen": "9090"}, "", "metrics '9090' is not HOST:PORT"),
    ({"node": "a/b"}, "", "--node"),
    ({"hot_bytes_max": "lots"}, "", "--hot-bytes-max is 'lots': write a number of bytes"),
    ({"journal_bytes_max": "1MiB"}, "", "journal_bytes_max must be at least four segments"),
    ({"s3_endpoint": "nowhere"}, "", "http://HOST"),
    ({"tls_key": Path("k")}, "", "give both or neither"),
    ({"tls_client_ca": Path("k")}, "", "needs tls_certificate"),
    ({"grace_seconds": -1.0}, "", "must not be negative"),
    ({}, "lisen = 1\n", "lisen in"),
    ({}, "listen = \n", "is not TOML"),
    ({}, 'idle_seconds = "long"\n', "idle_seconds in"),
    ({}, 's3_secret_key = ["hush"]\n', "s3_secret_key in"),
]


@pytest.mark.parametrize(("flags", "text", "why"), WRONG, ids=[why[:30] for _, _, why in WRONG])
def test_what_is_wrong_is_said_in_one_line_with_its_place(
    tmp_path: Path, flags: dict[str, Any], text: str, why: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        Settings.load(flags, toml(tmp_path, text))
    assert why in str(refused.value)
    assert "\n" not in str(refused.value)
    assert "hush" not in str(refused.value)


def test_a_variable_at_fault_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JJQ_LOG", "xml")
    with pytest.raises(InvalidInput, match=r"^JJQ_LOG is 'xml'"):
        Settings.load({})


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot read the settings file"):
        Settings.load({}, tmp_path / "missing.toml")


def test_every_setting_but_secrets_is_a_flag_of_serve() -> None:
    flags = set(inspect.signature(serve).parameters)
    assert flags - {"config"} == set(NAMES) - set(SECRETS)
