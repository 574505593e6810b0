"""`jjq config …`: what a server would run with, and who said so."""

from __future__ import annotations

import os
from typing import Annotated, Any

from cyclopts import App, Parameter

from coldstore.shared.errors import InvalidInput
from jjq.cli.connection import AsJson
from jjq.cli.operate.serve import serve
from jjq.cli.output import print_json, print_table

app = App(name="config", help="Look at the settings of a server.")


@app.command
def show(
    *flags: Annotated[str, Parameter(allow_leading_hyphen=True, show=False)], json: AsJson = False
) -> None:
    """Show every setting of `jjq serve`, its value, and where that comes from: flag, environment, file or default.

    ```
    jjq config show
    jjq config show --config jjq.toml --data /var/lib/jjq
    ```

    It takes the flags of `jjq serve`, and starts nothing. Secrets are not shown.

    Parameters
    ----------
    flags
        As for `jjq serve`.
    """
    given = _parsed(flags)
    from jjq.node.settings import Settings, origins

    config = given.pop("config", None)
    settings = Settings.load(given, config)
    rows = [
        {"setting": name, "value": _shown(name, getattr(settings, name)), "from": origin}
        for name, origin in origins(given, os.environ, config).items()
    ]
    if json:
        print_json(rows)
        return
    print_table(("SETTING", "VALUE", "FROM"), [tuple(row.values()) for row in rows])


def _parsed(flags: tuple[str, ...]) -> dict[str, Any]:
    """What `jjq serve` would make of its flags."""
    reader = App(name="serve", version_flags=[], help_flags=[])
    reader.default(serve)
    command, bound, _ = reader.parse_args(list(flags), exit_on_error=False, print_error=False)
    if command is not serve:
        raise InvalidInput("give the flags of `jjq serve`, and nothing else")
    return dict(bound.arguments)


def _shown(name: str, value: object) -> str | None:
    """As it would be written; of a secret stars."""
    from jjq.node.settings import SECRETS

    if value is None or isinstance(value, bool):
        return None if value is None else str(value).lower()
    if name in SECRETS:
        return "**********"
    return f"{value:g}" if isinstance(value, float) else str(value)
