"""Giving an answer to whoever waits for it."""

from __future__ import annotations

import asyncio
from typing import Any


def settle(reply: asyncio.Future[Any], answer: object) -> None:
    """Set the result, or the exception if it is one."""
    if reply.done():
        return  # its caller has gone
    if isinstance(answer, Exception):
        reply.set_exception(answer)
    else:
        reply.set_result(answer)
