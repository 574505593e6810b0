"""Settings of the HTTP listener: values only, checked once. A file of its own: the settings of a node need it, and
must not load a web server where HTTP is off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from coldstore.shared.errors import InvalidInput
from jjq.addresses import is_loopback, split_address
from jjq.limits import PORT_MAX
from jjq.server.settings import Tls

OFF: Final = "none"
SETTING: Final = "http_listen"


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """Where HTTP is spoken, and to whom."""

    listen: str
    tls: Tls | None = None
    origins: frozenset[str] = frozenset()  # web pages of other servers that may ask; none: no page may
    hosts: frozenset[str] = frozenset()  # names that a request may give this server, beside its addresses
    connect_create_queues: bool = True  # whether clients of /connect/ may create queues

    def __post_init__(self) -> None:
        split_address(self.listen, SETTING)
        for origin in self.origins:
            scheme, _, place = origin.partition("://")
            if scheme not in {"http", "https"} or not place or "/" in place or "*" in place:
                raise InvalidInput(
                    f"http_origins has {origin!r}, which is no origin: write for instance https://shop.example"
                )

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches it. Then a name that is not this machine's is a trick of a web page."""
        return is_loopback(split_address(self.listen, SETTING)[0])


def listen_address(given: str | None, listen: str) -> str | None:
    """Where to speak HTTP: as `given`, or on the port after that of `listen`; None: nowhere."""
    if given == OFF:
        return None
    if given is not None:
        split_address(given, SETTING)
        return given
    host, port = split_address(listen, "listen")
    if port == PORT_MAX:
        raise InvalidInput(f"no port follows that of {listen}: set {SETTING} to HOST:PORT, or to {OFF}")
    shown = f"[{host}]" if ":" in host else host
    return f"{shown}:{port + 1 if port else 0}"


def words(text: str | None) -> frozenset[str]:
    """The parts of a list that is written with commas."""
    return frozenset(part.strip() for part in (text or "").split(",") if part.strip())


def cannot_listen_for_http(address: str) -> InvalidInput:
    """What to say where the address is taken."""
    return InvalidInput(
        f"cannot listen for HTTP on {address}: the address is in use, or not of this machine; "
        f"set {SETTING} to another HOST:PORT, or to {OFF}"
    )
