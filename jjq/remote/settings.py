"""Settings of a client: values only, validated once, and what they mean to gRPC."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import grpc

from coldstore.shared.errors import InvalidInput
from coldstore.shared.limits import MESSAGE_BYTES_MAX
from jjq import arguments, limits
from jjq.addresses import split_address
from jjq.wire.services import JJQ

# auto: WebSocket where it can be had, else gRPC; websocket: that, or an error.
TRANSPORTS: Final = ("auto", "websocket", "grpc")
_WORD: Final = re.compile(r"[A-Za-z0-9_]{1,200}")


@dataclass(frozen=True, slots=True)
class ClientTls:
    """Whom to trust (`authority`; the system's roots by default), and for mTLS who we are."""

    authority: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    def __post_init__(self) -> None:
        for name in ("authority", "certificate", "key"):
            given = getattr(self, name)
            if given is not None:
                object.__setattr__(self, name, arguments.path(name, given))
        if (self.certificate is None) != (self.key is None):
            raise InvalidInput("mTLS needs both certificate and key; give both or neither")

    def credentials(self) -> grpc.ChannelCredentials:
        return grpc.ssl_channel_credentials(_read(self.authority), _read(self.key), _read(self.certificate))

    def context(self) -> ssl.SSLContext:
        """The same for a plain connection."""
        made = ssl.create_default_context(cafile=self.authority)
        if self.certificate is not None:
            made.load_cert_chain(self.certificate, self.key)
        return made


def _read(path: Path | None) -> bytes | None:
    try:
        return None if path is None else path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"cannot read the TLS file {path}: {error.strerror}; correct its path") from None


@dataclass(frozen=True, slots=True)
class RemoteSettings:
    """How patient to be."""

    timeout_seconds: float = limits.CALL_SECONDS  # one verb, all its attempts; a pop has its wait on top
    tls: ClientTls | None = None
    in_flight_bytes_max: int = limits.CLIENT_BYTES_MAX  # of one queue's pushes with an identity
    direct: bool = True  # follow hints to the owners of queues
    patient: bool = True  # try again what may be tried again; a node that forwards leaves that to the client
    patient_at_first: bool = False  # also before any server was reached; else that is an error at once
    service: str = JJQ  # nodes among themselves use another one
    key: str | None = field(default=None, repr=False)  # shown with every call
    transport: str = "grpc"  # of single calls and subscriptions: one of TRANSPORTS

    def __post_init__(self) -> None:
        arguments.number("timeout", self.timeout_seconds)
        if self.key is not None and not _WORD.fullmatch(arguments.text("key", self.key)):
            raise InvalidInput("key is not jjq_<id>_<secret>: give it as `jjq key create` printed it")
        if self.tls is not None:
            arguments.kind("tls", self.tls, ClientTls, "a jjq.ClientTls, with the authority to trust")
        if self.transport not in TRANSPORTS:
            raise InvalidInput(f"transport is {self.transport!r}: use one of {', '.join(TRANSPORTS)}")
        if self.timeout_seconds <= 0:
            raise InvalidInput(f"timeout_seconds must be positive, not {self.timeout_seconds}")
        if self.in_flight_bytes_max < 1:
            raise InvalidInput(f"in_flight_bytes_max must be positive, not {self.in_flight_bytes_max}")

    def options(self) -> list[tuple[str, int]]:
        return [
            ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
            ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
            ("grpc.max_metadata_size", limits.METADATA_BYTES_MAX),
            ("grpc.absolute_max_metadata_size", limits.METADATA_BYTES_MAX),
            ("grpc.keepalive_time_ms", round(limits.CLIENT_KEEPALIVE_SECONDS * 1000)),
            ("grpc.keepalive_timeout_ms", round(limits.KEEPALIVE_TIMEOUT_SECONDS * 1000)),
            ("grpc.initial_reconnect_backoff_ms", round(limits.BACKOFF_SECONDS * 1000)),
            ("grpc.max_reconnect_backoff_ms", round(limits.BACKOFF_SECONDS_MAX * 1000)),
            ("grpc.min_reconnect_backoff_ms", round(limits.CONNECT_SECONDS * 1000)),
            # Each lane is a connection of its own; core would let equal channels share one.
            ("grpc.use_local_subchannel_pool", 1),
        ]


class SocketPlace(NamedTuple):
    """Where a server takes WebSockets, and what it wants to see there."""

    host: str
    port: int
    instance: str  # the process that is there
    tls: ssl.SSLContext | None
    key: str | None


def split_targets(targets: str) -> list[str]:
    """The addresses of `a:1,b:2`, each once, in order; the default port where none is given."""
    found: dict[str, None] = {}
    for target in arguments.text("servers", targets).split(","):
        address = target.strip()
        if not address or any(c.isspace() for c in address) or "/" in address:
            raise InvalidInput(f"server {targets!r} is not HOST:PORT, or several of them with commas between")
        bare = address[address.rfind("]") + 1 :]
        whole = address if ":" in bare else f"{address}:{limits.PORT}"
        split_address(whole, "server")
        found[whole] = None
    return list(found)
