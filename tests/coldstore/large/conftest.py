"""The four stores that large objects are kept in."""

from __future__ import annotations

from tests.coldstore.objects.conftest import objects

__all__ = ["objects"]
