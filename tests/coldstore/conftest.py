"""Fixtures for tests of the cold store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coldstore.shared import failpoint


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    """No test leaves a fail point armed for the next."""
    yield
    failpoint.disarm()
