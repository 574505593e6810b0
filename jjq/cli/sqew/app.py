"""The command `sqew` put together: serve, queue, message, stats, health, metrics."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Final

from cyclopts import App, CycloptsError, Parameter

from coldstore.shared.errors import JjqError
from jjq.cli import exits
from jjq.cli.lean import without_pandas
from jjq.cli.sqew import messages, queues
from jjq.cli.sqew.client import SqewConnection, SqewRefusal, place
from jjq.limits import SQEW_PORT

_HERE: Final = SqewConnection()


def serve(
    *,
    port: Annotated[int | None, Parameter(help="Port of 127.0.0.1, in place of --bind.")] = None,
    bind: Annotated[
        str, Parameter(env_var="SQEW_BIND", help="HOST:PORT of HTTP.")
    ] = f"127.0.0.1:{SQEW_PORT}",
    data: Annotated[Path, Parameter(env_var="JJQ_DATA", help="Directory of all data.")] = Path("sqew-data"),
    listen: Annotated[
        str | None, Parameter(env_var="JJQ_LISTEN", help="HOST:PORT of gRPC [a free one].")
    ] = None,
) -> int:
    """Run a server of jjq whose HTTP is at Sqew's address. JJQ_* variables set everything else."""
    from jjq.cli.lean import prepare_server

    prepare_server(os.environ)
    from jjq.addresses import split_address
    from jjq.cli.operate.running import run
    from jjq.node.settings import Settings

    address = bind if port is None else f"127.0.0.1:{port}"
    host = split_address(address, "SQEW_BIND")[0]
    shown = f"[{host}]" if ":" in host else host
    return run(Settings.load({"http_listen": address, "listen": listen or f"{shown}:0", "data": data}))


def stats(
    queue: Annotated[str, Parameter(name="--queue", help="Name of the queue.")],
    *,
    connection: SqewConnection = _HERE,
) -> None:
    """Show the statistics of a queue."""
    with connection.open() as client:
        found = client.ask("GET", place(queue, "stats"))
    print("Stats: " + " ".join(f"{name}={count}" for name, count in found.items()))


def health(*, connection: SqewConnection = _HERE) -> None:
    """Whether the server answers."""
    with connection.open() as client:
        print(client.text("GET", "/health").decode())


def metrics(*, connection: SqewConnection = _HERE) -> None:
    """Show the server's figures, in the form of Prometheus."""
    with connection.open() as client:
        print(client.text("GET", "/metrics").decode(), end="")


def make_sqew() -> App:
    """All commands."""
    app = App(
        name="sqew",
        help="A lightweight message queue, served by jjq.",
        help_format="markdown",
        version=lambda: version("jjq"),
        suppress_keyboard_interrupt=False,
    )
    for command in (serve, queues.app, messages.app, stats, health, metrics):
        app.command(command)
    return app


def run_sqew(arguments: Sequence[str]) -> int:
    """Run one command; the exit code of the process."""
    try:
        result = make_sqew()(
            list(arguments), exit_on_error=False, print_error=False, result_action="return_value"
        )
        sys.stdout.flush()
    except CycloptsError as error:
        return _fail(f"{error} Try --help.", exits.USAGE)
    except SqewRefusal as refusal:
        return _fail(str(refusal), exits.ERROR)
    except JjqError as error:
        return _fail(str(error), exits.code_of(error))
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    return result if isinstance(result, int) else exits.OK


def _fail(text: str, code: int) -> int:
    print(" ".join(text.split()), file=sys.stderr)
    return code


def main() -> None:
    """What the command `sqew` runs."""
    without_pandas()
    sys.exit(run_sqew(sys.argv[1:]))
