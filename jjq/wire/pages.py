"""Lists in pages: what a request asks for, and the token that asks for the next page.

A token names its list and the place in it where the page before ended. The server keeps nothing, so
a token outlives restarts, and one that belongs to another list is noticed.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from coldstore.shared.errors import InvalidInput
from coldstore.shared.limits import OFFSET_MAX
from jjq.limits import PAGE_MAX

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page:
    """One page of the list called `scope`: at most `size` after `place`; 0 asks for all at once."""

    scope: str
    size: int
    place: str

    @classmethod
    def requested(cls, scope: str, page_size: int, page_token: str) -> Page:
        """What a request asks for, or what is wrong with it."""
        if page_size < 0:
            raise InvalidInput(f"page_size must not be negative, as {page_size} is: use 1 to {PAGE_MAX}")
        return cls(scope, min(page_size, PAGE_MAX), _place(scope, page_token))

    @property
    def limit(self) -> int:
        """How many to look for: one more than are sent, to know whether there is another page."""
        return (self.size or PAGE_MAX) + 1

    @property
    def offset(self) -> int:
        """The place in a list that goes by offsets."""
        if not self.place:
            return 0
        if not self.place.isdecimal() or len(self.place) > len(str(OFFSET_MAX)):
            raise _foreign()
        return min(int(self.place), OFFSET_MAX)

    def cut(self, found: Sequence[T], place: Callable[[T], str | int]) -> tuple[Sequence[T], str]:
        """What to send of `found`, and the token for what comes after it; `place` tells where an item ends."""
        if len(found) < self.limit:
            return found, ""
        if not self.size:
            raise InvalidInput(
                f"the list has more than {PAGE_MAX} entries: ask for pages, with page_size and page_token"
            )
        sent = found[: self.size]
        return sent, self.token_after(place(sent[-1]))

    def token_after(self, place: str | int) -> str:
        """Asks for what comes after `place`, of the same list."""
        return token(self.scope, place)


def token(scope: str, place: str | int) -> str:
    """Asks for what comes after `place`, if that is not the beginning; our own clients may make their first one."""
    return base64.urlsafe_b64encode(f"{scope}\n{place}".encode()).decode() if place else ""


def _place(scope: str, page_token: str) -> str:
    if not page_token:
        return ""
    try:
        text = base64.b64decode(page_token, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise _foreign() from None
    named, _, place = text.partition("\n")
    if named != scope or not place:
        raise _foreign()
    return place


def _foreign() -> InvalidInput:
    return InvalidInput(
        "page_token does not belong to this list: send next_page_token of the page before, with the same request"
    )
