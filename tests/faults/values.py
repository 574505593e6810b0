"""Values that prove themselves: each is unique, and its bytes follow from its number.

A value is `NUMBER;SIZE;` and filler made of the number's sha256. So a reader can tell, without asking
anyone, whether the bytes it got are the bytes that were pushed, and histories carry numbers only.
"""

from __future__ import annotations

import hashlib
import zlib

WORKER = 10**9  # numbers of one worker: it may push so many values
SIZE_MOST = 1 << 24


def make_value(number: int, size: int) -> bytes:
    """The value of this number, `size` bytes long or a little more if it must be."""
    head = b"%d;%d;" % (number, size)
    digest = hashlib.sha256(head).hexdigest().encode()
    return head + (digest * (max(0, size - len(head)) // len(digest) + 1))[: max(0, size - len(head))]


def read_value(value: bytes | str) -> int:
    """The number of a value; a negative one, which nobody pushed, if its bytes are not as they were made."""
    data = value.encode() if isinstance(value, str) else value
    number, _, rest = data.partition(b";")
    size = rest.partition(b";")[0]
    sound = number.isdigit() and size.isdigit() and int(size) <= SIZE_MOST
    if sound and make_value(int(number), int(size)) == data:
        return int(number)
    return -1 - zlib.crc32(data)
