"""`jjq key …`: who may do what."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from jjq.cli.connection import HERE, AsJson, Connection
from jjq.cli.output import note, print_fields, print_json, print_table, time_text

if TYPE_CHECKING:
    from jjq.remote.operate.keys import KeyInfo

app = App(name="key", help="Keys: who may do what. As long as there is none, everything is open.")


@app.command
def create(
    *,
    scope: Annotated[list[str], Parameter(negative=())],
    name: str = "",
    elements_per_second: float = 0.0,
    bytes_per_second: float = 0.0,
    streams: int = 0,
    queues: int = 0,
    json: AsJson = False,
    at: Connection = HERE,
) -> None:
    """Make a key and print it, once: the server stores only its digest.

    ```
    jjq key create --scope admin
    jjq key create --scope 'push:orders-*' --scope read:orders-eu --name billing
    ```

    The first key must have the scope admin. From then on every call needs a key.

    Parameters
    ----------
    scope
        push, pop, read, work or admin; for some queues only, with a pattern: push:orders-*. May be repeated.
    name
        What the key is for, for people.
    elements_per_second
        How many elements it may push, on each node; 0: any number.
    bytes_per_second
        How many bytes of elements; 0: any number.
    streams
        How many streams it may hold open; 0: any number.
    queues
        How many queues may exist among those that it may create; 0: any number.
    """
    from jjq.access.quotas import Quota

    quota = Quota(elements_per_second, bytes_per_second, streams, queues)
    with at.keys() as keys:
        made = keys.create(name, scope, quota)
    if json:
        print_json({**_fields(made.key), "text": made.text})
        return
    print(made.text)
    if sys.stdout.isatty():  # a script has only the key in its hand
        note(f"key {made.key.id}, {', '.join(made.key.scopes)}; it is shown this once: set it as JJQ_KEY")


@app.command(name="list")
def list_(*, json: AsJson = False, at: Connection = HERE) -> None:
    """List the keys, without their secrets."""
    with at.keys() as keys:
        found = keys.list()
    if json:
        print_json([_fields(key) for key in found])
        return
    if not found:
        print("no keys: everything is open to whoever reaches the server")
        return
    rows = [(key.id, key.name, ", ".join(key.scopes), time_text(key.created), _limits(key)) for key in found]
    print_table(("KEY", "NAME", "SCOPES", "CREATED", "LIMITS"), rows)


@app.command
def revoke(key: str, /, *, at: Connection = HERE) -> None:
    """End a key. Calls and streams that use it end within five seconds, on all nodes.

    Parameters
    ----------
    key
        Its id, as `jjq key list` prints it.
    """
    with at.keys() as keys:
        keys.revoke(key)
    print_fields({"key": key, "state": "revoked"})


def _limits(key: KeyInfo) -> str:
    quota = key.quota
    limits = [
        (quota.elements_per_second, "elements/s"),
        (quota.bytes_per_second, "bytes/s"),
        (quota.streams, "streams"),
    ]
    return ", ".join(f"{limit:g} {unit}" for limit, unit in limits if limit) or "none"


def _fields(key: KeyInfo) -> dict[str, Any]:
    quota = key.quota
    return {
        "id": key.id,
        "name": key.name,
        "scopes": list(key.scopes),
        "created": key.created,
        "elements_per_second": quota.elements_per_second,
        "bytes_per_second": quota.bytes_per_second,
        "streams": quota.streams,
    }
