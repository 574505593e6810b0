"""Addresses as people write them."""

from __future__ import annotations

from coldstore.shared.errors import InvalidInput
from jjq.limits import PORT


def split_address(address: str, what: str) -> tuple[str, int]:
    """Host and port of `host:port`; IPv6 hosts stand in brackets."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdigit() or int(port) > 65_535 or (":" in host and host[0] != "["):
        raise InvalidInput(f"{what} {address!r} is not HOST:PORT; write for instance 127.0.0.1:{PORT}")
    return host.strip("[]"), int(port)
