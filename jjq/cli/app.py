"""The commands put together, and what becomes of their errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

from cyclopts import App, CycloptsError

from coldstore.shared.errors import JjqError
from jjq.cli import exits

_EPILOGUE = """\
Client commands find the server by --server or JJQ_SERVER. Exit codes: 0 done, 1 error, 2 wrong request, \
3 not found, 4 damaged data, 5 conflict, 6 not allowed, 7 not now, 8 cut off, 130 interrupted.
"""
_HOMES = {
    "jjq.cli.operate.serve": {"serve": "serve"},
    "jjq.cli.queues.push": {"push": "push", "push-file": "push_file"},
    "jjq.cli.queues.pop": {name: name for name in ("pop", "peek", "tail", "replay", "get")},
    "jjq.cli.queues.sql": {"sql": "sql"},
    "jjq.cli.queues.queue": {"blocks": "blocks", "queue": "app"},
    "jjq.cli.queues.subscriber": {"subscriber": "app"},
    "jjq.cli.queues.bench": {"bench": "bench"},
    "jjq.cli.queues.pipeline": {"pipeline": "app"},
    "jjq.cli.groups.group": {"group": "app"},
    "jjq.cli.groups.task": {"task": "app"},
    "jjq.cli.groups.work": {"work": "work"},
    "jjq.cli.operate.verify": {"verify": "verify"},
    "jjq.cli.operate.backup": {"backup": "backup", "restore": "restore"},
    "jjq.cli.operate.release": {"release": "release"},
    "jjq.cli.operate.status": {"ping": "ping", "status": "status", "top": "top"},
    "jjq.cli.operate.key": {"key": "app"},
    "jjq.cli.operate.node": {"node": "app"},
    "jjq.cli.operate.shard": {"shard": "app"},
    "jjq.cli.operate.config": {"config": "app"},
    "jjq.cli.text.work": {"text": "app"},
}
_PLACES = {name: (home, found) for home, names in _HOMES.items() for name, found in names.items()}


def make_app(name: str) -> App:
    """The command of this name and no other, so that no other is imported; all of them if there is none."""
    app = App(
        name="jjq",
        help="A multi-subscriber log with an infinite history.",
        help_epilogue=_EPILOGUE,
        help_format="markdown" if name in _PLACES else "plaintext",  # rich takes long to import the former
        version=_version,
        suppress_keyboard_interrupt=False,
    )
    for known, (home, found) in _PLACES.items():
        if name == known or name not in _PLACES:
            app.command(getattr(import_module(home), found), name=known)
    app.register_install_completion_command(help="Install completion for your shell (bash, zsh or fish).")
    return app


def _version() -> str:
    from importlib.metadata import version

    return version("jjq")


def run(arguments: Sequence[str]) -> int:
    """Run one command; the exit code of the process."""
    try:
        app = make_app(arguments[0] if arguments else "")
        result = app(list(arguments), exit_on_error=False, print_error=False, result_action="return_value")
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
