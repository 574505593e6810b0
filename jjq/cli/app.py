"""The commands put together, and what becomes of their errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version

from cyclopts import App, CycloptsError

from coldstore.shared.errors import JjqError
from jjq.cli import exits
from jjq.cli.operate import config, node, shard, status
from jjq.cli.operate.backup import backup, restore
from jjq.cli.operate.release import release
from jjq.cli.operate.serve import serve
from jjq.cli.operate.verify import verify
from jjq.cli.queues import pipeline, pop, push, queue, subscriber
from jjq.cli.queues.bench import bench

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
        serve, push.push, pop.pop, pop.peek, pop.tail, pop.replay, queue.blocks, verify, backup, restore,
        release, bench, status.ping, status.status, status.top,
        queue.app, subscriber.app, node.app, shard.app, config.app, pipeline.app,
    ):  # fmt: skip
        app.command(command)
    app.register_install_completion_command(help="Install completion for your shell (bash, zsh or fish).")
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
