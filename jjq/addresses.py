"""Addresses as people write them."""

from __future__ import annotations

import socket
from ipaddress import ip_address

from coldstore.shared.errors import InvalidInput
from jjq.limits import PORT


def split_address(address: str, what: str) -> tuple[str, int]:
    """Host and port of `host:port`; IPv6 hosts stand in brackets."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdigit() or int(port) > 65_535 or (":" in host and host[0] != "["):
        raise InvalidInput(f"{what} {address!r} is not HOST:PORT; write for instance 127.0.0.1:{PORT}")
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address; a name may mean any address, but for localhost."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_free(address: str, what: str, taken: InvalidInput | None = None) -> None:
    """`InvalidInput` if nobody can listen there now: before anything is made that would be left behind."""
    host, port = split_address(address, what)
    try:
        for family, kind, _, _, place in socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            with socket.socket(family, kind) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(place)
    except OSError:
        raise taken or cannot_listen(address) from None


def cannot_listen(address: str) -> InvalidInput:
    return InvalidInput(
        f"cannot listen on {address}: the address is in use, or not of this machine; choose another"
    )
