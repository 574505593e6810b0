"""Settings of the server: values only, validated once, and what they mean to gRPC."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import grpc

from coldstore.errors import InvalidInput
from coldstore.limits import MESSAGE_BYTES_MAX
from jjq import limits


@dataclass(frozen=True, slots=True)
class Tls:
    """The server's certificate; with `client_ca` every client must show one signed by it (mTLS)."""

    certificate: Path
    key: Path
    client_ca: Path | None = None

    def credentials(self) -> grpc.ServerCredentials:
        """Read the files, or say which one cannot be used."""
        authority = None if self.client_ca is None else _read(self.client_ca, "client CA")
        pair = (_read(self.key, "TLS key"), _read(self.certificate, "TLS certificate"))
        return grpc.ssl_server_credentials([pair], authority, require_client_auth=authority is not None)


def _read(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"cannot read the {what} {path}: {error.strerror}; correct its path") from None


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Where to listen and how much to admit."""

    listen: str = f"127.0.0.1:{limits.PORT}"
    tls: Tls | None = None
    metrics: str | None = None  # host:port of the Prometheus page
    reflection: bool = False
    grace_seconds: float = limits.GRACE_SECONDS
    calls_max: int = limits.CALLS_MAX
    streams_max: int = limits.STREAMS_MAX
    message_bytes_max: int = MESSAGE_BYTES_MAX

    def __post_init__(self) -> None:
        split_address(self.listen, "listen")
        if self.metrics is not None:
            split_address(self.metrics, "metrics")
        for name in ("calls_max", "streams_max", "message_bytes_max"):
            if getattr(self, name) < 1:
                raise InvalidInput(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.grace_seconds < 0:
            raise InvalidInput(f"grace_seconds must not be negative, as {self.grace_seconds} is")

    def options(self) -> list[tuple[str, int]]:
        """Channel arguments, spelt as gRPC core spells them."""
        return [
            ("grpc.max_receive_message_length", self.message_bytes_max),
            ("grpc.max_send_message_length", self.message_bytes_max),
            ("grpc.max_metadata_size", limits.METADATA_BYTES_SOFT),
            ("grpc.absolute_max_metadata_size", limits.METADATA_BYTES_MAX),
            ("grpc.max_concurrent_streams", self.streams_max),
            ("grpc.http2.min_ping_interval_without_data_ms", round(limits.PING_SECONDS_MIN * 1000)),
            ("grpc.http2.max_ping_strikes", limits.PING_STRIKES_MAX),
            ("grpc.keepalive_time_ms", round(limits.KEEPALIVE_SECONDS * 1000)),
            ("grpc.keepalive_timeout_ms", round(limits.KEEPALIVE_TIMEOUT_SECONDS * 1000)),
            ("grpc.max_connection_idle_ms", round(limits.IDLE_SECONDS * 1000)),
            ("grpc.server_handshake_timeout_ms", round(limits.HANDSHAKE_SECONDS * 1000)),
            # Its default lets two processes share our port and halves each other's calls.
            ("grpc.so_reuseport", 0),
            # Core inflates a message whole before it looks at its size: identity only, or a few bytes
            # of gzip fill the memory. Compressed requests get UNIMPLEMENTED.
            ("grpc.compression_enabled_algorithms_bitset", 1),
        ]


def split_address(address: str, what: str) -> tuple[str, int]:
    """Host and port of `host:port`; IPv6 hosts stand in brackets."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdigit() or int(port) > 65_535 or (":" in host and host[0] != "["):
        raise InvalidInput(f"{what} {address!r} is not HOST:PORT; write for instance 127.0.0.1:{limits.PORT}")
    return host.strip("[]"), int(port)
