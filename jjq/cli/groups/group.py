"""`jjq group …`: worker groups, and how they stand."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from coldstore.shared.errors import InvalidInput
from jjq.cli.connection import (
    HERE,
    AsJson,
    Clamp,
    Connection,
    Flag,
    GroupId,
    QueueFilter,
    QueueName,
    Start,
    StartOnly,
)
from jjq.cli.output import agreed, print_fields, print_json, print_table, time_text
from jjq.cli.queues.elements import choose_form, print_elements

if TYPE_CHECKING:
    from hotstore.groups.values import GroupInfo

app = App(name="group", help="Create worker groups, look at them, and change them.")

OnExhausted = Literal["bury", "drop"]
_CLEARABLE = ("ttl", "max_attempts", "capacity", "per_key", "rate")


_GROUP = "Settings"


@Parameter(name="*")
@dataclass(frozen=True)
class SettingOptions:
    """Settings of a group; what is not given is a default, or stays."""

    ttr: Annotated[float | None, Parameter(group=_GROUP)] = None
    """Seconds that a worker may hold a task. Default: 60."""

    ttl: Annotated[float | None, Parameter(group=_GROUP)] = None
    """Seconds that a task lives. Default: for ever."""

    delay: Annotated[float | None, Parameter(group=_GROUP)] = None
    """Seconds before a pushed task is ready."""

    priority: Annotated[int | None, Parameter(group=_GROUP)] = None
    """Of tasks that name none; a smaller number is taken first."""

    max_attempts: Annotated[int | None, Parameter(group=_GROUP)] = None
    """Takes that may fail. Default: any number."""

    on_exhausted: Annotated[OnExhausted | None, Parameter(group=_GROUP)] = None
    """What becomes of a task whose attempts are used up. Default: bury."""

    backoff: Annotated[str | None, Parameter(group=_GROUP)] = None
    """BASE,FACTOR,MAX,JITTER: how long a task that failed is delayed. The last ones may lack."""

    capacity: Annotated[int | None, Parameter(group=_GROUP)] = None
    """Tasks that are not done, at most; a push beyond it waits or is refused. Default: any number."""

    per_key: Annotated[int | None, Parameter(group=_GROUP)] = None
    """Tasks of one key that may be taken at a time. Default: as the driver says."""

    rate: Annotated[float | None, Parameter(group=_GROUP)] = None
    """Takes of one key per second. Default: any number."""

    def given(self) -> dict[str, Any]:
        """Those that were given, by name."""
        found = {name: value for name, value in asdict(self).items() if value is not None}
        if self.backoff is not None:
            found["backoff"] = _backoff(self.backoff)
        return found


DEFAULTS = SettingOptions()


@app.command
def create(
    queue: QueueName,
    name: str,
    /,
    *,
    start: Start = "beginning",
    driver: str = "fifo",
    settings: SettingOptions = DEFAULTS,
    json: AsJson = False,
    at: Connection = HERE,
) -> None:
    """Create a worker group; the same command again changes nothing.

    ```
    jjq group create orders billing
    jjq group create orders billing --driver utube --max-attempts 5 --backoff 1,2,60
    ```

    Parameters
    ----------
    name
        Name of the group.
    driver
        fifo, fifottl, limfifottl, arrival, utube, utubettl, or another one that is installed.
    """
    with at.open() as client:
        _show(client.create_group(queue, name, start=start, driver=driver, **settings.given()), json)


@app.command(name="list")
def list_(queue: QueueFilter = None, /, *, json: AsJson = False, at: Connection = HERE) -> None:
    """List the groups of a queue, or of all queues.

    ```
    jjq group list
    jjq group list orders --json
    ```
    """
    with at.open() as client:
        found = client.list_groups(queue)
    if json:
        print_json([group_json(group) for group in found])
        return
    columns = ("GROUP", "DRIVER", "READY", "TAKEN", "DELAYED", "BURIED", "DONE", "WAITING", "PAUSED")
    states = ("ready", "taken", "delayed", "buried", "done")
    rows = [
        (g.id, g.settings.driver, *(g.tasks.get(state, 0) for state in states), g.waiting, g.paused)
        for g in found
    ]
    print_table(columns, rows)


@app.command
def show(group: GroupId, /, *, json: AsJson = False, at: Connection = HERE) -> None:
    """Show a group: its settings and its tasks by state.

    ```
    jjq group show orders/billing
    ```
    """
    with at.open() as client:
        _show(client.get_group(group), json)


@app.command
def update(
    group: GroupId,
    /,
    *,
    settings: SettingOptions = DEFAULTS,
    clear: Annotated[list[str], Parameter(negative=())] | None = None,
    json: AsJson = False,
    at: Connection = HERE,
) -> None:
    """Change settings of a group from now on. Settings that you leave out stay. The driver cannot be changed.

    ```
    jjq group update orders/billing --ttr 120
    jjq group update orders/billing --clear ttl --clear capacity
    ```

    Parameters
    ----------
    clear
        Remove a setting: ttl, max-attempts, capacity, per-key or rate; may be repeated.
    """
    changes = settings.given()
    for word in clear or ():
        name = word.replace("-", "_")
        if name not in _CLEARABLE or name in changes:
            raise InvalidInput(f"--clear {word}: give one of {', '.join(_CLEARABLE)} that is not set as well")
        changes[name] = None
    if not changes:
        raise InvalidInput("give at least one setting to change, or --clear one")
    with at.open() as client:
        _show(client.update_group(group, **changes), json)


@app.command
def pause(group: GroupId, /, *, json: AsJson = False, at: Connection = HERE) -> None:
    """Hand out no tasks until `jjq group resume`. Acks and all other verbs work meanwhile.

    ```
    jjq group pause orders/billing
    ```
    """
    with at.open() as client:
        _show(client.pause(group), json)


@app.command
def resume(group: GroupId, /, *, json: AsJson = False, at: Connection = HERE) -> None:
    """Hand out tasks again.

    ```
    jjq group resume orders/billing
    ```
    """
    with at.open() as client:
        _show(client.resume(group), json)


@app.command
def seek(
    group: GroupId,
    start: Start,
    /,
    *,
    clamp: Clamp = False,
    dry_run: StartOnly = False,
    json: AsJson = False,
    at: Connection = HERE,
) -> None:
    """Go back to a starting point: all tasks from there on are ready again. Refused while tasks are taken.

    ```
    jjq group seek orders/billing ago:1h --dry-run
    ```
    """
    with at.open() as client:
        _show(client.seek_group(group, start, clamp=clamp, dry_run=dry_run), json)


@app.command
def stats(group: GroupId, /, *, json: AsJson = False, at: Connection = HERE) -> None:
    """Count the tasks in each state, and the calls of each verb.

    ```
    jjq group stats orders/billing
    ```
    """
    with at.open() as client:
        found = client.statistics(group)
    if json:
        print_json(asdict(found))
        return
    fields: dict[str, object] = {f"tasks {state}": count for state, count in found.tasks.items()}
    fields |= {f"calls {verb}": count for verb, count in found.calls.items()}
    fields |= {f"rate {verb}": f"{rate:.2f}/s" for verb, rate in found.rates.items() if rate}
    fields["oldest ready"] = f"{found.oldest_ready_seconds:.1f} s"
    fields["oldest taken"] = f"{found.oldest_taken_seconds:.1f} s"
    print_fields(fields)


@app.command
def purge(group: GroupId, /, *, yes: Flag = False, at: Connection = HERE) -> None:
    """Every task that is not done becomes done, taken ones too. The queue's elements stay.

    ```
    jjq group purge orders/billing --yes
    ```

    Parameters
    ----------
    yes
        Do not ask.
    """
    with at.open() as client:
        left = client.get_group(group).tasks["total"]
        if not yes and not (sys.stdin.isatty() and agreed(f"Purge {left} tasks of group {group}?")):
            raise InvalidInput(f"nothing of group {group} was purged: say --yes")
        print(f"purged {client.purge(group)}")


@app.command(name="release-all")
def release_all(group: GroupId, /, *, at: Connection = HERE) -> None:
    """Every taken task becomes ready, whoever holds it.

    ```
    jjq group release-all orders/billing
    ```
    """
    with at.open() as client:
        print(f"released {client.release_all(group)}")


@app.command
def changes(group: GroupId, /, *, start: str = "end", json: AsJson = False, at: Connection = HERE) -> None:
    """Print what happens to the tasks of a group, as it happens, until it is interrupted.

    ```
    jjq group changes orders/billing
    jjq group changes orders/billing --start ago:1h
    ```

    Parameters
    ----------
    start
        beginning, end, offset:N, time:ISO, ago:7d or last:N, in the group's ledger.
    json
        Also offset and time of each row.
    """
    form = choose_form(json, not json)
    with at.open() as client:
        for batch in client.changes(group, start):
            print_elements(batch, form)


@app.command
def delete(group: GroupId, /, *, force: Flag = False, at: Connection = HERE) -> None:
    """Delete a group. The elements and the ledger stay.

    ```
    jjq group delete orders/billing
    ```

    Parameters
    ----------
    force
        Also while tasks are taken.
    """
    with at.open() as client:
        client.delete_group(group, force=force)


def _backoff(given: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in given.split(","))
    except ValueError:
        raise InvalidInput(
            f"--backoff {given!r:.40} is not BASE,FACTOR,MAX,JITTER: write for instance 1,2,60"
        ) from None


def group_json(group: GroupInfo) -> dict[str, Any]:
    fields = asdict(group)
    del fields["created_us"]
    if group.resolved is not None:
        del fields["resolved"]["timestamp_us"]
        fields["resolved"]["timestamp"] = group.resolved.timestamp
    return fields | {"created": group.created, "ledger": group.ledger}


def _show(group: GroupInfo, json: bool) -> None:
    if json:
        print_json(group_json(group))
        return
    settings = group.settings
    backoff = settings.backoff
    fields: dict[str, object] = {
        "group": group.id,
        "driver": settings.driver,
        "tasks": ", ".join(f"{count} {state}" for state, count in group.tasks.items()),
        "paused": group.paused,
        "waiting": group.waiting,
        "first task": group.first,
        "ttr": f"{settings.ttr:g} s",
        "ttl": "for ever" if settings.ttl is None else f"{settings.ttl:g} s",
        "delay": f"{settings.delay:g} s",
        "priority": settings.priority,
        "attempts": f"{settings.max_attempts or 'any number'}, then {settings.on_exhausted}",
        "backoff": f"{backoff.base:g} s × {backoff.factor:g}, at most {backoff.max:g} s, ± {backoff.jitter:.0%}",
        "capacity": "any number" if settings.capacity is None else settings.capacity,
        "per key": "as the driver says" if settings.per_key is None else settings.per_key,
        "rate of a key": "any" if settings.rate is None else f"{settings.rate:g} a second",
        "start": group.start,
        "created": group.created,
        "ledger": group.ledger,
    }
    if group.resolved is not None:
        when = time_text(group.resolved.timestamp) or "no element there yet"
        fields["resolved"] = f"offset {group.resolved.offset} ({group.resolved.rule}), {when}"
    print_fields(fields)
