"""The commands put together, and what becomes of their errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.metadata import version

from cyclopts import App, CycloptsError

from coldstore.shared.errors import JjqError
from jjq.cli import exits
from jjq.cli.groups import group, task
from jjq.cli.groups.work import work
from jjq.cli.operate import config, key, node, shard, status
from jjq.cli.operate.backup import backup, restore
from jjq.cli.operate.release import release
from jjq.cli.operate.serve import serve
from jjq.cli.operate.verify import verify
from jjq.cli.queues import pipeline, pop, push, queue, subscriber
from jjq.cli.queues.bench import bench
from jjq.cli.queues.sql import sql
from jjq.cli.text import files as text_files
from jjq.cli.text import transfer as text_transfer
from jjq.cli.text import work as text_work

_EPILOGUE = """\
Client commands find the server by --server or JJQ_SERVER. Exit codes: 0 done, 1 error, 2 wrong request, \
3 not found, 4 damaged data, 5 conflict, 6 not allowed, 7 not now, 8 cut off, 130 interrupted.
"""


def make_app() -> App:
    """All commands."""
    app = App(
        name="jjq",
        help="A multi-subscriber log with an infinite history.",
        help_epilogue=_EPILOGUE,
        help_format="markdown",
        version=lambda: version("jjq"),
        suppress_keyboard_interrupt=False,
    )
    for command in (
        serve, push.push, push.push_file, pop.pop, pop.peek, pop.tail, pop.replay, pop.get, sql, queue.blocks, verify,
        backup, restore, release, bench, status.ping, status.status, status.top,
        queue.app, subscriber.app, group.app, task.app, work, key.app, node.app, shard.app, config.app, pipeline.app,
        _text_app(),
    ):  # fmt: skip
        app.command(command)
    app.register_install_completion_command(help="Install completion for your shell (bash, zsh or fish).")
    return app


def _text_app() -> App:
    """`jjq text …`"""
    app = App(name="text", help="Queues that are text files, which people can read and edit.")
    commands: dict[str, Callable[..., object]] = {
        "list": text_files.list_,
        "append": text_files.append,
        "done": text_files.done,
        "error": text_files.error,
        "set": text_files.set_,
        "work": text_work.work,
        "import": text_transfer.import_,
        "export": text_transfer.export,
    }
    for name, command in commands.items():
        app.command(command, name=name)
    return app


def run(arguments: Sequence[str]) -> int:
    """Run one command; the exit code of the process."""
    try:
        result = make_app()(
            list(arguments), exit_on_error=False, print_error=False, result_action="return_value"
        )
        sys.stdout.flush()
    except CycloptsError as error:
        return _fail(f"{error} Try --help.", exits.USAGE)
    except JjqError as error:
        return _fail(str(error), exits.code_of(error))
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    except BrokenPipeError:
        # Python would complain once more when it flushes at exit.
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exits.BROKEN_PIPE
    return result if isinstance(result, int) else exits.OK


def _fail(text: str, code: int) -> int:
    print(f"jjq: {' '.join(text.split())}", file=sys.stderr)
    return code
