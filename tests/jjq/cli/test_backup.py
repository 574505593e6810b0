"""`jjq backup` and `jjq restore`: what they print, and how they end."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import jjq as client_of
from coldstore.shared.chance import SystemChance
from tests.jjq.cli.command import Command
from tests.servers.s3 import S3Server


@pytest.fixture(scope="module")
def cold(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two queues."""
    folder = tmp_path_factory.mktemp("data")
    with client_of.open(folder) as client:
        for name, blocks in (("orders", 3), ("events", 1)):
            client.create_queue(name, block_bytes=128 * 1024)
            for n in range(blocks):
                client.push(name, [b"%d-%d" % (n, i) * 20 for i in range(1_000)])
                client.seal(name)
    return folder / "cold"


def test_a_backup_and_a_restore_tell_of_each_queue_and_end_with_0(
    alone: Command, cold: Path, tmp_path: Path
) -> None:
    lines = alone.ok("backup", str(cold), "kept").lines
    assert [line.split()[:4] for line in lines[1:]] == [
        ["events", "ok", "1000", "1"],
        ["orders", "ok", "3000", "3"],
    ]
    again = alone.ok("backup", str(cold), "kept", "orders", "--verify", "copied", "--json").json
    assert [(c["queue"], c["blocks"], c["next_offset"], c["problem"]) for c in again] == [
        ("orders", 0, 3_000, None)
    ]
    alone.ok("restore", "kept", "place")
    chains = [
        [r["chain"] for r in alone.ok("verify", "--cold", where, "--json").json]
        for where in ("place", str(cold))
    ]
    assert chains[0] == chains[1]
    with client_of.open(tmp_path / "data", str(tmp_path / "place")) as client:
        assert client.push("orders", [b"next"]).first_offset == 3_000


def test_a_place_that_is_not_empty_is_refused_with_5_and_advice(alone: Command, cold: Path) -> None:
    alone.ok("backup", str(cold), "kept")
    ran = alone("restore", str(cold), "kept")
    assert (ran.code, ran.output) == (5, b"")
    assert "restore into an empty place" in ran.errors
    assert alone("backup", "nothing", "elsewhere").code == 3
    assert alone("backup", str(cold), str(cold)).code == 5
    assert alone("backup", str(cold), "other", "no-such-queue").code == 3
    assert alone("backup", str(cold)).code == 2
    assert alone.ok("restore", str(cold), "kept", "--resume").code == 0


def test_a_source_that_is_cut_off_ends_with_8_and_one_that_is_damaged_with_4(
    alone: Command, cold: Path, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    shutil.copytree(cold, source)
    last = max((source / "queues" / "orders").glob("[dy]*/*.parquet"), key=lambda path: path.name)
    kept = last.read_bytes()
    last.unlink()
    ran = alone("restore", str(source), "cut")
    assert ran.code == 8
    assert "cut off at 2000" in ran.text
    assert "the copy is sound up to offset 2000" in ran.errors
    assert alone("verify", "--cold", "cut").code == 0
    last.write_bytes(kept[:-1] + bytes([kept[-1] ^ 1]))
    ran = alone("backup", str(source), "damaged", "--json")
    assert ran.code == 4
    assert [(c["queue"], c["verdict"]) for c in ran.json] == [("events", "ok"), ("orders", "not whole")]


def test_s3_is_reached_by_the_environment_and_the_target_may_be_elsewhere(
    alone: Command,
    cold: Path,
    moto: S3Server,
    seaweed: S3Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, two = (f"s3://{server.bucket}/t-{SystemChance().token()}" for server in (moto, seaweed))
    flags = ["--s3-endpoint", moto.endpoint, "--s3-region", moto.region]
    keys = {"JJQ_S3_ACCESS_KEY": moto.access_key, "JJQ_S3_SECRET_KEY": moto.secret_key}
    keys |= {"JJQ_TARGET_S3_ACCESS_KEY": seaweed.access_key, "JJQ_TARGET_S3_SECRET_KEY": seaweed.secret_key}
    monkeypatch.setattr(
        Command, "environment", lambda self, plain=Command.environment: {**plain(self), **keys}
    )
    alone.ok("backup", str(cold), one, *flags, "--target-s3-endpoint", moto.endpoint)
    alone.ok("backup", one, two, *flags, "--target-s3-endpoint", seaweed.endpoint)
    elsewhere = ["--s3-endpoint", seaweed.endpoint, "--s3-region", seaweed.region]
    keys |= {"JJQ_S3_ACCESS_KEY": seaweed.access_key, "JJQ_S3_SECRET_KEY": seaweed.secret_key}
    alone.ok("restore", two, str(tmp_path / "place"), *elsewhere)
    found = alone.ok("verify", "--cold", str(tmp_path / "place"), "--json").json
    assert [(r["queue"], r["elements"], r["verdict"]) for r in found] == [
        ("events", 1_000, "ok"),
        ("orders", 3_000, "ok"),
    ]
