"""The status of this node: its version, uptime, figures and lag, and whether the cold store answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from coldstore.layout import paths
from coldstore.shared.clock import Clock
from coldstore.shared.errors import JjqError, NotFound
from coldstore.shared.results import NodeStatus
from coldstore.store import ColdStore
from hotstore.limits import COLD_ANSWER_SECONDS
from hotstore.read.listing import Lag
from hotstore.runner import Runner

_ALONE: Final = ""


def installed_version() -> str:
    """Of jjq, as it is installed; for a tree that is not installed there is none."""
    from importlib.metadata import (
        PackageNotFoundError,
        version,
    )  # with email and others, which nothing else needs

    try:
        return version("jjq")
    except PackageNotFoundError:
        return "unknown"


class StatusDesk:
    """Says how the node is. A cold store that does not answer has one question at a time."""

    def __init__(self, cold: ColdStore, runner: Runner, clock: Clock, node: str = _ALONE) -> None:
        self._cold = cold
        self._runner = runner
        self._clock = clock
        self._node = node
        self._started = clock.monotonic()
        self._asking: asyncio.Task[tuple[float, str]] | None = None

    @property
    def uptime_seconds(self) -> float:
        return self._clock.monotonic() - self._started

    async def tell(self, figures: Mapping[str, float], lags: Sequence[Lag]) -> NodeStatus:
        cold_seconds, cold_error = await self._ask_cold()
        return NodeStatus(
            node=self._node,
            version=installed_version(),
            uptime_seconds=self.uptime_seconds,
            figures=figures,
            lag_elements=max((lag.elements for lag in lags), default=0),
            lag_seconds=max((lag.seconds for lag in lags), default=0.0),
            cold_seconds=cold_seconds,
            cold_error=cold_error,
        )

    async def _ask_cold(self) -> tuple[float, str]:
        """How long the cold store takes for an answer, and why there is none."""
        if self._asking is None:
            self._asking = asyncio.create_task(self._question(), name="jjq-cold-answers")
            self._asking.add_done_callback(self._answered)
        try:
            return await asyncio.wait_for(asyncio.shield(self._asking), COLD_ANSWER_SECONDS)
        except TimeoutError:
            return COLD_ANSWER_SECONDS, f"no answer within {COLD_ANSWER_SECONDS:g} s"

    def _answered(self, task: asyncio.Task[tuple[float, str]]) -> None:
        self._asking = None

    async def _question(self) -> tuple[float, str]:
        began = self._clock.monotonic()
        error = ""
        try:
            await self._runner.run(lambda: self._cold.objects.head(paths.STORE))
        except NotFound:
            pass  # nothing was ever written, and that is an answer
        except JjqError as failure:
            error = failure.message
        return self._clock.monotonic() - began, error
