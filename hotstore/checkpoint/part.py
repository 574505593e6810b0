"""What a part of the node contributes to the checkpoint, and the image: all of it as Arrow tables in memory.

A part names its tables (`TableForm`). When a checkpoint is written, the part is asked for what changed since it was
last asked (`TableChange`): new and changed rows, and which rows are gone. The image has the rest. So a thousand
changed rows among a hundred thousand cost the part a thousand rows. At a start each part gets its tables back, before
the journal after them is replayed.

**Why rows may be taken while the node runs on.** A checkpoint of sequence S begins with a record in the journal, of
that sequence. When the record is durable, everything before it is durable and in memory, and only then are rows
taken. A row may be newer than S, if its record came later; then that record is replayed too. So a part must see to
three things:

    1  a row shows only what the journal has already: else a crash would leave in the checkpoint what never happened
    2  what changes a row marks it as changed in the same step of the event loop, or earlier with the new value there
    3  replaying a record that a row already includes, and all records after it, ends in the same state
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from coldstore import compute as pc
from coldstore.shared import lists
from coldstore.shared.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class TableForm:
    """A table of the checkpoint. `key` names the column by which a changed row replaces the earlier one."""

    name: str
    schema: pa.Schema
    key: str

    def empty(self) -> pa.Table:
        return pa.Table.from_batches([lists.no_rows(self.schema)])


@dataclass(frozen=True, slots=True)
class TableChange:
    """New and changed rows, and the values of columns by which rows are gone. `whole`: there are no others."""

    rows: pa.Table
    gone: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    whole: bool = False


class CheckpointPart(Protocol):
    """A part of the node whose state outlives the process."""

    forms: Sequence[TableForm]

    def changed(self) -> bool:
        """Whether there is anything to write since `collect` was last asked."""
        ...

    async def collect(self, *, whole: bool) -> dict[str, TableChange]:
        """What changed, by table; on the event loop, which it may not hold for more than 2 ms. `whole`: all rows."""
        ...

    def restore(self, tables: Mapping[str, pa.Table], sequence: int) -> None:
        """Take the tables of the checkpoint of `sequence`. In a worker thread, before anything else runs."""
        ...


class CheckpointImage:
    """All tables as the next checkpoint will have them. One thread at a time uses it."""

    def __init__(self, forms: Sequence[TableForm], tables: Mapping[str, pa.Table] | None = None) -> None:
        self.forms = tuple(forms)
        self.complete = tables is not None  # else the next change of each table must be a whole one
        self.tables = {form.name: form.empty() for form in forms} | dict(tables or {})
        # Tables that no file has as they are.
        self.dirty = {form.name for form in forms} if tables is None else set()

    def apply(self, changes: Mapping[str, TableChange]) -> None:
        """Bring the changes in. Rows that are gone and also among the changed ones are there again."""
        for form in self.forms:
            change = changes.get(form.name)
            if change is not None:
                before = self.tables[form.name]
                after = self.tables[form.name] = _changed(form, before, change)
                if after is not before and not after.equals(before):
                    self.dirty.add(form.name)


def _changed(form: TableForm, before: pa.Table, change: TableChange) -> pa.Table:
    if not change.rows.schema.equals(form.schema):
        raise InvalidInput(f"rows for table {form.name} of the checkpoint do not have its columns")
    if change.whole:
        return change.rows
    gone = {name: values for name, values in change.gone.items() if len(values)}
    if not gone and not change.rows.num_rows:
        return before
    kept = before
    for column, values in gone.items():
        kept = _without(kept, column, lists.array(list(values), form.schema.field(column).type))
    if change.rows.num_rows:
        kept = _without(kept, form.key, change.rows.column(form.key).combine_chunks())
    return pa.concat_tables([kept, change.rows]).combine_chunks()


def _without(table: pa.Table, column: str, values: pa.Array) -> pa.Table:
    if not table.num_rows:
        return table
    return table.filter(pc.invert(pc.is_in(table.column(column), value_set=values)))
