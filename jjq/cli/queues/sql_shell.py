"""The shell of `jjq sql`: queries typed at a terminal, with history and completion (prompt_toolkit).

A query ends with a semicolon and may have several lines. Ctrl-C stops a query that runs, or clears the line; Ctrl-D
ends the shell. The history is kept in `sql-history` of the user's state folder, readable by that user alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from prompt_toolkit.output import Output

from coldstore.layout.paths import is_name
from coldstore.shared.clock import Clock, SystemClock
from coldstore.shared.errors import JjqError
from jjq.cli.output import note
from jjq.cli.queues.sql_output import Format, open_output

if TYPE_CHECKING:
    from jjq.blocking import SqlResult

Ask = Callable[[str, list[Any]], "SqlResult"]

_WORDS: Final = (
    "SELECT", "FROM", "WHERE", "GROUP BY ALL", "ORDER BY", "LIMIT", "DESCRIBE", "SUMMARIZE", "SHOW TABLES", "EXPLAIN",
    "WITH", "JOIN", "count(*)", "INTERVAL", "now()", "AS", "AND", "OR", "NOT", "IN", "BETWEEN", "HAVING", "DISTINCT",
)  # fmt: skip
_COLUMNS: Final = ("offset", "timestamp", "key", "value", "headers")
_HELP: Final = """\
A query ends with ;   SHOW TABLES; lists queues and system tables   DESCRIBE orders; tells its columns
Ctrl-C stops a query, Ctrl-D or exit leaves. docs/sql.md has examples."""


class TableCompleter(Completer):
    """Words of SQL, columns, and the tables there are: asked for once, when the first is wanted."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._tables: list[str] | None = None

    def forget(self) -> None:
        """Look again: queues may have come."""
        self._tables = None

    def tables(self) -> list[str]:
        if self._tables is None:
            try:
                rows = self._ask("SELECT schema, name FROM jjq.tables", []).to_pylist()
            except JjqError:
                return []  # the next query tells why
            self._tables = [_written(row["schema"], row["name"]) for row in rows]
        return self._tables

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        word = document.get_word_before_cursor(WORD=True).rpartition("(")[2].rpartition(",")[2]
        before = document.text_before_cursor[: len(document.text_before_cursor) - len(word)].split()
        wants_table = bool(before) and before[-1].lower() in {
            "from",
            "join",
            "describe",
            "summarize",
            "table",
        }
        known = self.tables() if wants_table else [*_WORDS, *_COLUMNS, *self.tables()]
        begun = word.lower().lstrip('"')
        for name in known:
            if word and name.lower().lstrip('"').startswith(begun):
                yield Completion(name, start_position=-len(word))
            elif wants_table and not word:
                yield Completion(name)


def _written(schema: str, name: str) -> str:
    """A table as SQL writes it."""
    if schema:
        return f"{schema}.{name}"
    return name if is_name(name) and name.isidentifier() else f'"{name}"'


def run_shell(
    ask: Ask,
    format: Format,
    *,
    history: History | None = None,
    input: Input | None = None,
    output: Output | None = None,
    clock: Clock | None = None,
) -> None:
    """Read queries and print their rows, until the end. `input` and `output` are those of a test."""
    from pygments.lexers.sql import SqlLexer

    completer = TableCompleter(ask)
    session: PromptSession[str] = PromptSession(
        "jjq> ",
        multiline=True,
        prompt_continuation="...> ",
        history=history or _history(),
        completer=completer,
        complete_in_thread=True,
        lexer=PygmentsLexer(SqlLexer),
        key_bindings=_keys(),
        input=input,
        output=output,
    )
    note(_HELP)
    while True:
        try:
            text = session.prompt().strip().rstrip(";").strip()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        if text.lower() in {"exit", "quit", "\\q"}:
            return
        if text.lower() in {"help", "?"}:
            note(_HELP)
        elif text:
            _answer(ask, text, format, clock or SystemClock())
            completer.forget()


def _answer(ask: Ask, text: str, format: Format, clock: Clock) -> None:
    began = clock.monotonic()
    try:
        with ask(text, []) as rows, open_output(format, None) as write:
            count = write(rows)
        note(f"({count:,} rows, {clock.monotonic() - began:.2f} s)")
    except JjqError as error:
        note(f"jjq: {' '.join(str(error).split())}")
    except KeyboardInterrupt:
        note("jjq: stopped")


def _keys() -> KeyBindings:
    """Enter sends what ends with a semicolon, or is a word for the shell; else it begins a new line."""
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        text = event.current_buffer.text.strip()
        if not text or text.endswith(";") or text.lower() in {"exit", "quit", "\\q", "help", "?"}:
            event.current_buffer.validate_and_handle()
        else:
            event.current_buffer.insert_text("\n")

    return keys


def _history() -> History:
    """What was typed before; in memory only, where no file can be written."""
    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "jjq"
    path = folder / "sql-history"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))
