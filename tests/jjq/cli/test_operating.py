"""The commands of an operator: is it there, how is it, change it, delete it, bring it back."""

from __future__ import annotations

import socket
from pathlib import Path

from tests.jjq.cli.command import Command


def test_ping_tells_whether_a_server_serves(jjq: Command, alone: Command) -> None:
    assert f"{jjq.server} serves" in jjq.ok("ping").text
    assert jjq.ok("ping", "--wait", "5", "--json").json[0]["error"] is None
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        there = f"127.0.0.1:{closed.getsockname()[1]}"
        away = alone("ping", "--server", there, "--wait", "0.5")
        assert (away.code, away.text) == (7, "")
        assert f"{there} does not serve" in away.errors


def test_a_server_that_is_alone_says_that_it_has_no_nodes_and_shards(jjq: Command, queue: str) -> None:
    for words in (
        ["node", "list"],
        ["shard", "list"],
        ["shard", "split", queue, "--parts", "2", "--dry-run"],
    ):
        ran = jjq(*words)
        assert (ran.code, ran.errors.count("\n")) == (2, 1), ran
        assert "this server is in no cluster" in ran.errors


def test_status_is_one_screen(jjq: Command, queue: str) -> None:
    jjq.ok("push", queue, "a", "b")
    jjq.ok("subscriber", "create", queue, "s", "--start", "beginning")
    lines = jjq.ok("status", "--seconds", "0.01").lines
    assert lines[0].split() == [
        "NODE", "VERSION", "UP", "QUEUES", "SUBSCRIBERS", "JOURNAL", "EXPOSED", "FOR", "MOST", "LAG", "COLD", "STORE",
    ]  # fmt: skip
    assert lines[1].startswith("alone")
    assert "answers in" in lines[1]
    found = jjq.ok("status", "--seconds", "0", "--json").json
    [node] = found["nodes"]
    assert (node["node"], node["error"], node["cold_error"]) == (None, None, None)
    assert node["figures"]["exposed_bytes"] > 0
    assert node["lag_elements"] >= 2
    [mine] = [each for each in found["queues"] if each["name"] == queue]
    assert (mine["elements"], mine["not_cold"], mine["lag"]) == (2, 2, 2)


def test_top_shows_rates(jjq: Command, queue: str) -> None:
    jjq.ok("push", queue, "a", "b")
    shown = jjq.ok("top", "--every", "0.01", "--count", "2").lines
    assert len([line for line in shown if line.startswith("NODE")]) == 2
    assert queue in {line.split()[0] for line in shown if line}


def test_a_queue_is_changed_and_sealed(jjq: Command, queue: str) -> None:
    jjq.ok("push", queue, "a")
    changed = jjq.ok("queue", "set", queue, "--block-bytes", "1MiB", "--block-seconds", "30", "--json").json
    assert (changed["block_bytes"], changed["block_seconds"]) == (1 << 20, 30.0)
    assert "1.0 MiB or 30 s" in jjq.ok("queue", "show", queue).text
    assert jjq.ok("queue", "seal", queue, "--json").json["cold_offset"] == 1
    nothing = jjq("queue", "set", queue)
    assert (nothing.code, "nothing to change" in nothing.errors) == (2, True)


def test_a_queue_is_deleted_only_when_that_is_meant_and_comes_back(jjq: Command, queue: str) -> None:
    jjq.ok("push", queue, "a", "b")
    jjq.ok("subscriber", "create", queue, "s", "--start", "beginning")
    planned = jjq.ok("queue", "delete", queue, "--dry-run", "--json").json
    assert (planned["elements"], planned["subscribers"], planned["deleted"]) == (2, 1, None)
    unasked = jjq("queue", "delete", queue)
    assert (unasked.code, "give --yes" in unasked.errors) == (2, True)
    assert jjq.ok("queue", "show", queue, "--json").json["next_offset"] == 2
    done = jjq.ok("queue", "delete", queue, "--yes", "--grace-days", "30", "--json").json
    assert done["until"] > done["deleted"]
    gone = jjq("queue", "show", queue)
    assert (gone.code, f"jjq queue undelete {queue}" in gone.errors) == (3, True)
    assert jjq("pop", f"{queue}/s").code == 3
    assert jjq("queue", "create", queue).code == 5
    assert jjq.ok("queue", "undelete", queue, "--json").json["next_offset"] == 2
    assert jjq.ok("pop", f"{queue}/s", "--max", "9").lines == ["a", "b"]


def test_tail_can_begin_where_a_subscriber_is(jjq: Command, queue: str) -> None:
    jjq.ok("push", queue, *(str(n) for n in range(20)))
    jjq.ok("subscriber", "create", queue, "s", "--start", "offset:17")
    assert jjq.ok("tail", queue, "--subscriber", "s").lines == ["17", "18", "19"]
    assert jjq.ok("tail", queue, "--subscriber", f"{queue}/s").lines == ["17", "18", "19"]


def test_config_shows_each_value_and_who_said_so(alone: Command, tmp_path: Path) -> None:
    (tmp_path / "jjq.toml").write_text(
        'grace_seconds = 3\ns3_access_key = "us"\ns3_secret_key = "do-not-show"\n'
    )
    given = ("--config", "jjq.toml", "--listen", "127.0.0.1:1")
    rows = alone.ok("config", "show", "--json", *given).json
    found = {row["setting"]: (row["value"], row["from"]) for row in rows}
    assert found["listen"] == ("127.0.0.1:1", "flag --listen")
    assert found["grace_seconds"] == ("3", "file jjq.toml")
    assert found["journal"] == ("disk", "default")
    assert found["s3_secret_key"] == ("**********", "file jjq.toml")
    assert "do-not-show" not in alone.ok("config", "show", *given).text
    shell = alone.shell("JJQ_JOURNAL_BYTES_MAX=8GiB jjq config show --json")
    from_environment = {row["setting"]: (row["value"], row["from"]) for row in shell.json}
    assert from_environment["journal_bytes_max"] == ("8589934592", "environment JJQ_JOURNAL_BYTES_MAX")
    wrong = alone("config", "show", "--journal", "paper")
    assert (wrong.code, "use disk or s3" in wrong.errors) == (2, True)
    unknown = alone("config", "show", "--no-such-flag")
    assert unknown.code == 2


def test_a_server_on_a_taken_port_leaves_nothing_behind(jjq: Command, alone: Command, tmp_path: Path) -> None:
    assert jjq.server is not None
    taken = alone("serve", "--listen", jjq.server, "--data", str(tmp_path / "data"))
    assert (taken.code, "the address is in use" in taken.errors) == (2, True)
    assert not (tmp_path / "data").exists()
    free = alone(
        "serve", "--listen", "127.0.0.1:0", "--metrics-listen", jjq.server, "--data", str(tmp_path / "d")
    )
    assert (free.code, (tmp_path / "d").exists()) == (2, False)
