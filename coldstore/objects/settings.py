"""How to reach an S3 store: a frozen value, checked when it is made. The caller reads environment and options.

A file of its own, although small: many modules need these settings without boto3, which `s3_requests`
imports.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args
from urllib.parse import urlsplit

from coldstore.shared import limits
from coldstore.shared.errors import InvalidInput

Addressing = Literal["auto", "path", "virtual"]


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Settings:
    """Without keys, credentials come from the usual chain: environment, shared files, instance role."""

    endpoint: str | None = None  # None: AWS itself
    region: str | None = None
    addressing: Addressing = "auto"  # path style on a custom endpoint, virtual hosts on AWS
    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    connect_seconds: float = 5.0
    read_seconds: float = 15.0  # without a byte from the store; then the request counts as lost
    retry_seconds: float = limits.OBJECT_RETRY_SECONDS
    connections: int = 32

    def __post_init__(self) -> None:
        if self.endpoint is not None:
            parts = urlsplit(self.endpoint)
            if parts.scheme not in {"http", "https"} or not parts.hostname or "@" in parts.netloc:
                raise InvalidInput(
                    "the S3 endpoint must be http://HOST[:PORT] or https://…, without credentials"
                )
        if self.addressing not in get_args(Addressing):
            raise InvalidInput(
                f"S3 addressing {self.addressing!r} is not one of {', '.join(get_args(Addressing))}"
            )
        if (self.access_key is None) != (self.secret_key is None):
            raise InvalidInput("give both the S3 access key and the secret key, or neither")
        if min(self.connect_seconds, self.read_seconds, self.connections) <= 0 or self.retry_seconds < 0:
            raise InvalidInput("S3 timeouts and the number of connections must be positive")
