"""Errors on their way from executors to the driver: as values, so that people see one line and no traceback."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

from coldstore.shared.errors import KINDS, DataLoss, JjqError, OutOfRange, Unavailable


@dataclass(frozen=True, slots=True)
class Failure:
    """An error that a task ended with."""

    code: str
    message: str
    more: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, error: JjqError) -> Self:
        more: dict[str, Any] = {}
        if isinstance(error, OutOfRange):
            more = {"first": error.first, "next": error.next}
        elif isinstance(error, DataLoss):
            more = {"key": error.key, "block": error.block}
        return cls(error.code, error.message, more)

    def error(self) -> JjqError:
        """The error again, of the same kind."""
        kind = next((kind for kind in KINDS if kind.code == self.code), JjqError)
        return kind(self.message, **self.more)


def spark_failed(what: str, error: Exception) -> Unavailable:
    """What to say of a job that Spark gave up: an executor died, or something that no task foresaw."""
    return Unavailable(f"{what}: Spark gave up ({_line(error)}); run it again, it goes on where it was")


def _line(error: Exception) -> str:
    """The line that says most: the last one of a Python traceback, else the first."""
    java = getattr(error, "java_exception", None)
    text = str(error) if java is None else str(java.getMessage())
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if ": " in line and not line.startswith(("at ", "File "))]
    chosen = told[-1] if "Traceback" in text and told else (lines[0] if lines else type(error).__name__)
    return chosen[:300]
