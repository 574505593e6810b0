"""The command line: `jjq --help`. Tables for people, `--json` for programs, exit codes for scripts.

    app          all commands put together; errors become exit codes
    exits        the exit codes, which scripts may rely on
    lean         libraries that a command or a server does without
    connection   options that every client command has, and the client that they ask for
    output       tables, JSON, sizes, times, questions and the progress bar
    queues/      commands of users: queues, subscribers, elements, pipelines
    groups/      commands of workers: groups and their tasks
    text/        commands for text queues, which are files
    sqew/        the command `sqew`, with a face of its own
    operate/     commands of operators: servers, nodes, shards, backups, verification

A word list enters (`sys.argv`), an exit code leaves. Results go to standard output; everything that is no
result goes to standard error. Commands talk to servers through the blocking client only, as users do; `serve`,
`verify`, `backup`, `restore` and `release` open a data directory or a cold store themselves. What a command
needs is imported when the command runs, so that `jjq --help` is quick.

Commands start without pandas. Where pandas is installed, pyarrow imports it when it first makes an array of a
list, to see whether the list is a series. That takes as long as all else that a command does before its first
request, and no command has a series. Pipelines are excepted: they run code of their users. Of all commands only
the one that is asked for is imported. A server does without more (`prepare_server`).
"""

from __future__ import annotations

import os
import sys

from jjq.cli.lean import choose_pool, without_pandas


def main() -> None:
    """What the command `jjq` runs."""
    arguments = sys.argv[1:]
    if arguments[:1] != ["pipeline"]:
        without_pandas()
        if sys.platform == "linux":
            choose_pool(os.environ)
    from jjq.cli.app import run

    sys.exit(run(arguments))
