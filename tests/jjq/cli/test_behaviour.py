"""How commands behave among others: exit codes, pipes, Ctrl-C, terminals, bad input."""

from __future__ import annotations

import os
import pty
import signal
from pathlib import Path

import psutil
import pytest

from coldstore.shared import errors
from jjq.cli import exits
from tests.jjq.cli.command import Command
from tests.servers.jjq_server import JjqServer
from tests.servers.waiting import wait_until


def one_line(text: str) -> bool:
    return text.startswith("jjq: ") and text.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "code", "why"),
    [
        (["nonsense"], 2, "nonsense"),
        (["pop"], 2, "SUBSCRIBER"),
        (["pop", "{q}/s", "--mx", "3"], 2, "--max"),
        (["pop", "{q}/s", "--max", "x"], 2, "int"),
        (["peek", "{q}/s", "--max", "0"], 2, "max"),
        (["pop", "{q}/s", "--json", "--values"], 2, "not both"),
        (["pop", "{q}/nobody"], 3, "nobody"),
        (["pop", "{q}"], 2, "id"),
        (["push", "nope", "a"], 3, "nope"),
        (["push", "{q}", "a", "--header", "b"], 2, "NAME=VALUE"),
        (["push", "{q}", "a", "--header", "jjq-b=1"], 2, "'jjq-b' is reserved"),
        (["push", "{q}", "a", "--file", "x"], 2, "not both"),
        (["push", "{q}", "--file", "missing"], 2, "missing"),
        (["queue", "create", "../up"], 2, "'..'"),
        (["queue", "create", "{q}", "--content", "text"], 5, "exists"),
        (["queue", "create", "x", "--block-bytes", "much"], 2, "64MiB"),
        (["queue", "show", "nope"], 3, "nope"),
        (["subscriber", "create", "{q}", "--start", "offset:7"], 2, "0..0"),
        (["subscriber", "create", "{q}", "--start", "yesterday"], 2, "ago:7d"),
        (["tail", "{q}", "-n", "-1"], 2, "negative"),
        (["pop", "{q}/s", "--server", "127.0.0.1:1"], 7, "jjq serve"),
        (["pop", "{q}/s", "--server", "no port here"], 2, "HOST:PORT"),
        (["pop", "{q}/s", "--timeout", "0"], 2, "--timeout"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_is_wrong_ends_with_its_code_and_one_line_that_says_what_to_do(
    jjq: Command, queue: str, line: list[str], code: int, why: str
) -> None:
    ran = jjq(*(word.replace("{q}", queue) for word in line))
    assert (ran.code, ran.output) == (code, b""), ran
    assert one_line(ran.errors), ran.errors
    assert why in ran.errors


def test_a_full_disk_is_named_as_such_and_exits_as_no_room(tmp_path: Path) -> None:
    with JjqServer(tmp_path / "full", "--disk-free-bytes-min", "1EiB") as server:
        jjq = Command(tmp_path, server.address)
        jjq.ok("queue", "create", "orders")
        # The server looks at its disk now and then.
        wait_until(lambda: jjq("push", "orders", "a", "--timeout", "1").code != 0, "it is full")
        for line in (["push", "orders", "a"], ["push", "orders"]):
            ran = jjq(*line, "--timeout", "1", input=b"a\nb\n")
            assert (ran.code, ran.output) == (7, b""), ran
            assert one_line(ran.errors), ran.errors
            assert "bytes free" in ran.errors
            assert "unknown" not in ran.errors


def test_a_bad_line_of_json_is_named_and_what_came_before_it_stays(jjq: Command, queue: str) -> None:
    ran = jjq("push", queue, "--jsonl", input=b'{"value": "a"}\n{"value": 1}\n[]\n')
    assert (ran.code, ran.output) == (2, b"")
    assert "line 3 is no JSON object" in ran.errors
    assert jjq.ok("replay", queue).lines == ["a", "1"]


def test_what_is_right_is_pushed_beside_what_is_wrong_and_that_is_said(jjq: Command, queue: str) -> None:
    jjq.ok("queue", "create", f"{queue}-json", "--content", "json")
    ran = jjq("push", f"{queue}-json", "1", "{", "3")
    assert (ran.code, ran.output) == (2, b"")
    assert one_line(ran.errors)
    assert "element 1" in ran.errors
    assert "all that is right was pushed" in ran.errors
    assert jjq.ok("replay", f"{queue}-json").lines == ["1", "3"]


def test_every_kind_of_error_has_an_exit_code() -> None:
    made = [
        kind("x", **({"first": 0, "next": 0} if kind is errors.OutOfRange else {})) for kind in errors.KINDS
    ]
    assert [exits.code_of(error) for error in made] == [2, 2, 3, 5, 6, 7, 7, 4]
    assert exits.code_of(errors.Fenced("x")) == 5
    assert exits.code_of(errors.JjqError("x")) == 1


def test_help_has_examples_and_the_version_is_known(alone: Command) -> None:
    assert alone.ok("--version").text == "0.1.0\n"
    overview = alone.ok("--help").text
    assert all(command in overview for command in ("serve", "push", "verify", "subscriber", "JJQ_SERVER"))
    for command in ("serve", "push", "pop", "tail", "replay", "verify", "bench"):
        assert f"jjq {command}" in alone.ok(command, "--help").text.split("\n", 3)[3]
    assert alone.ok().text == overview


def test_a_reader_that_goes_away_ends_a_command_silently(jjq: Command, queue: str) -> None:
    jjq.ok("push", queue, input=b"x" * 1_000 + b"\n" + b"y" * 1_000_000 + b"\n" * 2_000)
    ran = jjq.shell(f"jjq replay {queue} | head -c 5; echo ${{PIPESTATUS[0]}}")
    assert (ran.text, ran.errors) == ("xxxxx141\n", "")


@pytest.mark.parametrize("command", [["tail", "{q}", "--follow"], ["pop", "{q}/s", "--wait", "300"]])
def test_ctrl_c_ends_what_waits_with_130_and_says_nothing(
    jjq: Command, queue: str, command: list[str]
) -> None:
    jjq.ok("subscriber", "create", queue, "s")
    with jjq.start(*(word.replace("{q}", queue) for word in command)) as process:
        waiting = psutil.Process(process.pid)
        wait_until(lambda: bool(waiting.net_connections()), "it is connected", 30)
        wait_until(lambda: waiting.status() == psutil.STATUS_SLEEPING, "it waits", 30)
        process.send_signal(signal.SIGINT)
        output, complaints = process.communicate(timeout=30)
    assert (process.returncode, output, complaints) == (130, b"", b"")


def test_tail_follows_what_is_pushed(jjq: Command, queue: str) -> None:
    jjq.ok("push", queue, "before")
    with jjq.start("tail", queue, "-f", "-n", "1") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"before\n"
        jjq.ok("push", queue, "after")
        assert process.stdout.readline() == b"after\n"
        process.terminate()


def on_terminal(jjq: Command, *arguments: str, out: bool = False) -> tuple[int, bytes, bytes]:
    """Run with standard error, or both, on a terminal; the code, what was shown there, and the output."""
    here, there = pty.openpty()
    with jjq.start(*arguments, stderr=there, **({"stdout": there} if out else {})) as process:
        os.close(there)
        output = b"" if process.stdout is None else process.stdout.read()
        shown = b""
        try:
            while chunk := os.read(here, 65_536):
                shown += chunk
        except OSError:
            pass  # the other side is closed
        os.close(here)
        return process.wait(60), shown, output


def test_a_progress_bar_is_shown_on_a_terminal_and_nowhere_else(
    jjq: Command, queue: str, tmp_path: Path
) -> None:
    (tmp_path / "lines").write_bytes(b"0123456789\n" * 20_000)
    code, shown, output = on_terminal(jjq, "push", queue, "--file", "lines")
    assert (code, b"push " + queue.encode() in shown) == (0, True)
    assert output.startswith(b"pushed 20,000 elements")
    code, shown, output = on_terminal(jjq, "replay", queue)
    assert (code, b"replay " + queue.encode() in shown, output.count(b"\n")) == (0, True, 20_000)
    assert jjq.ok("replay", queue).output == output


def test_elements_stand_in_columns_on_a_terminal(jjq: Command, queue: str) -> None:
    jjq.ok("push", queue, "value\x1b[31m", "--key", "k")
    code, shown, _ = on_terminal(jjq, "tail", queue, out=True)
    assert code == 0
    offset, time, key, value = shown.split()
    assert (offset, time[-1:], key, value) == (b"0", b"Z", b"k", rb"value\x1b[31m")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_installed_for_the_shell(alone: Command, tmp_path: Path, shell: str) -> None:
    environment = {**alone.environment(), "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    with alone.start("--install-completion", "--shell", shell, env=environment) as process:
        output, complaints = process.communicate(timeout=60)
    assert process.returncode == 0, complaints
    files = [path for path in tmp_path.rglob("*") if path.is_file() and "subscriber" in path.read_text()]
    assert files, output


def test_completion_knows_commands_and_options(alone: Command, tmp_path: Path) -> None:
    environment = {**alone.environment(), "HOME": str(tmp_path)}
    with alone.start("--install-completion", "--shell", "bash", env=environment) as process:
        process.communicate(timeout=60)
    script = next(p for p in tmp_path.rglob("*") if p.is_file() and "subscriber" in p.read_text())
    assert all(word in script.read_text() for word in ("serve", "replay", "--follow", "--start"))


def test_the_server_of_the_environment_can_be_overruled(jjq: Command, server: JjqServer) -> None:
    jjq.server = "127.0.0.1:1"
    assert jjq("queue", "list").code == 7
    assert jjq("queue", "list", "--server", server.address).code == 0
