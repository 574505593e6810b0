"""Settings of the server: values only, validated once, and what they mean to gRPC."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import grpc

from coldstore.shared.errors import InvalidInput
from coldstore.shared.limits import MESSAGE_BYTES_MAX
from jjq import limits
from jjq.addresses import is_loopback, split_address

Plaintext = Literal["warn", "refuse", "allow"]


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
        self.context()  # gRPC would only say that it cannot listen
        return grpc.ssl_server_credentials([pair], authority, require_client_auth=authority is not None)

    def context(self) -> ssl.SSLContext:
        """The same for a plain connection, or what is wrong with the files."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(self.certificate, self.key, password="")
        except (ssl.SSLError, ValueError) as error:
            raise InvalidInput(
                f"the TLS certificate {self.certificate} and key {self.key} do not fit ({_reason(error)}): "
                f"give a certificate and its unencrypted key, both in PEM"
            ) from None
        if self.client_ca is not None:
            try:
                context.load_verify_locations(self.client_ca)
            except ssl.SSLError as error:
                raise InvalidInput(
                    f"the client CA {self.client_ca} holds no certificate in PEM ({_reason(error)}): correct it"
                ) from None
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def _reason(error: Exception) -> str:
    return (getattr(error, "reason", None) or str(error)).lower().replace("_", " ")


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
    plaintext: Plaintext = "warn"  # what to do about an address that others reach, without TLS
    metrics: str | None = None  # host:port of the Prometheus page
    reflection: bool = False
    grace_seconds: float = limits.GRACE_SECONDS
    calls_max: int = limits.CALLS_MAX
    streams_max: int = limits.STREAMS_MAX
    message_bytes_max: int = MESSAGE_BYTES_MAX
    outgoing_bytes_max: int = limits.OUTGOING_BYTES_MAX  # for what clients have not read yet
    traced: bool = False  # calls are parts of traces: their trace context is read

    def __post_init__(self) -> None:
        split_address(self.listen, "listen")
        if self.exposed and self.plaintext == "refuse":
            raise InvalidInput(f"{self.exposure}, or set plaintext to warn or allow")
        if self.metrics is not None:
            split_address(self.metrics, "metrics")
        for name in ("calls_max", "streams_max", "message_bytes_max"):
            if getattr(self, name) < 1:
                raise InvalidInput(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.outgoing_bytes_max < limits.OUTGOING_BYTES_MIN:
            raise InvalidInput(
                f"outgoing_bytes_max must be at least {limits.OUTGOING_BYTES_MIN}, not {self.outgoing_bytes_max}"
            )
        if self.grace_seconds < 0:
            raise InvalidInput(f"grace_seconds must not be negative, as {self.grace_seconds} is")

    @property
    def exposed(self) -> bool:
        """Whether other machines may reach the port without TLS, so that others on the network can read along."""
        return self.tls is None and not is_loopback(split_address(self.listen, "listen")[0])

    @property
    def exposure(self) -> str:
        """What is wrong with that, in words."""
        return (
            f"{self.listen} is open to other machines, without TLS: whoever reaches it may read and write everything. "
            f"Set tls_certificate, tls_key and tls_client_ca, or listen on 127.0.0.1"
        )

    def options(self) -> list[tuple[str, int]]:
        """Channel arguments, spelt as gRPC core spells them."""
        return [
            ("grpc.max_receive_message_length", self.message_bytes_max),
            ("grpc.max_send_message_length", self.message_bytes_max),
            ("grpc.max_metadata_size", limits.METADATA_BYTES_SOFT),
            ("grpc.absolute_max_metadata_size", limits.METADATA_BYTES_MAX),
            ("grpc.max_concurrent_streams", self.streams_max),
            # Calls that came and are not looked at yet. From 1,000 of them on core drops some, whosever they are and
            # without a reason (CANCELLED): many calls of one client ended those of others. Ours are refused in words.
            ("grpc.server.max_pending_requests", limits.CALLS_PENDING_MAX),
            ("grpc.server.max_pending_requests_hard_limit", limits.CALLS_PENDING_MAX),
            ("grpc.http2.bdp_probe", 0),  # else core itself decides how much it looks ahead
            ("grpc.http2.lookahead_bytes", limits.LOOKAHEAD_BYTES),
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
