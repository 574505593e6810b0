"""Fixtures and settings for tests of the cold store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from coldstore import failpoint

# A property does not fail because the machine is busy.
settings.register_profile("coldstore", deadline=None)
settings.load_profile("coldstore")


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    """No test leaves a fail point armed for the next."""
    yield
    failpoint.disarm()
