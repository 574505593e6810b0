"""Options and arguments that commands share, and the client that they ask for."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from coldstore.shared.errors import InvalidInput
from jjq.limits import CALL_SECONDS, PORT

if TYPE_CHECKING:
    from coldstore.objects.settings import S3Settings
    from coldstore.shared.clock import Clock
    from coldstore.store import ColdStore
    from jjq.blocking import Client
    from jjq.client.blocking_operator import BlockingKeys, BlockingOperator
    from jjq.remote.settings import ClientTls

_GROUP = "Connection"

TlsCa = Annotated[
    Path | None,
    Parameter(
        env_var="JJQ_TLS_CA",
        group=_GROUP,
        help="PEM file of the certificate authority to trust. Turns TLS on.",
    ),
]
# The variables of a client alone go first: a machine may have those of a server, too.
TlsCertificate = Annotated[
    Path | None,
    Parameter(
        env_var=["JJQ_CLIENT_CERTIFICATE", "JJQ_TLS_CERTIFICATE"],
        group=_GROUP,
        help="PEM file of our own certificate, for mTLS.",
    ),
]
TlsKey = Annotated[
    Path | None,
    Parameter(
        env_var=["JJQ_CLIENT_KEY", "JJQ_TLS_KEY"], group=_GROUP, help="PEM file of our certificate's key."
    ),
]
_KEY_HELP = (
    "Key for a server that wants one. Better as JJQ_KEY: others on this machine can read a command line."
)
Key = Annotated[
    str | None,
    Parameter(name=["--key", "--access-key"], env_var="JJQ_KEY", group=_GROUP, help=_KEY_HELP),
]


@Parameter(name="*")
@dataclass(frozen=True)
class Connection:
    """Where the server is, and how patient to be."""

    server: Annotated[str, Parameter(env_var="JJQ_SERVER", group=_GROUP)] = f"127.0.0.1:{PORT}"
    """HOST:PORT of the server, or several, separated by commas."""

    timeout: Annotated[float, Parameter(group=_GROUP)] = CALL_SECONDS
    """Seconds that a call may take, including retries."""

    tls_ca: TlsCa = None
    tls_certificate: TlsCertificate = None
    tls_key: TlsKey = None
    key: Key = None

    transport: Annotated[str, Parameter(env_var="JJQ_TRANSPORT", group=_GROUP)] = "grpc"
    """How single calls travel: grpc, websocket, or auto. A second connection does not pay for one command."""

    def open(self) -> Client:
        """A client; use it as a context manager."""
        from jjq.blocking import connect

        return connect(
            self.server, timeout=self._timeout, tls=self.tls(), key=self._secret, transport=self.transport
        )

    def operator(self) -> AbstractContextManager[BlockingOperator]:
        """An operator of the cluster."""
        from jjq.client.blocking_operator import operator

        return operator(self.server, timeout=self._timeout, tls=self.tls(), key=self._secret)

    def keys(self) -> AbstractContextManager[BlockingKeys]:
        """The keys of the servers."""
        from jjq.client.blocking_operator import keys

        return keys(self.server, timeout=self._timeout, tls=self.tls(), key=self._secret)

    @property
    def _secret(self) -> str | None:
        return self.key or None

    def tls(self) -> ClientTls | None:
        """How to talk to it; None: in the open."""
        from jjq.remote.settings import ClientTls

        if self.tls_ca is None and self.tls_certificate is None:
            return None
        return ClientTls(self.tls_ca, self.tls_certificate, self.tls_key)

    @property
    def _timeout(self) -> float:
        if not self.timeout > 0:
            raise InvalidInput(f"--timeout is {self.timeout:g}: give a number of seconds above 0")
        return self.timeout


@Parameter(name="*")
@dataclass(frozen=True)
class PushConnection(Connection):
    """The same for a command whose --key is the key of elements."""

    key: Annotated[
        str | None, Parameter(name="--access-key", env_var="JJQ_KEY", group=_GROUP, help=_KEY_HELP)
    ] = None


HERE = Connection()


def s3_settings(endpoint: str | None, region: str | None, keys: str = "JJQ_S3") -> S3Settings:
    """How S3 is reached. Keys are in the variables <keys>_ACCESS_KEY and <keys>_SECRET_KEY, as for `jjq serve`, and no
    flags: others would see them in the list of processes."""
    from coldstore.objects.settings import S3Settings

    return S3Settings(
        endpoint=endpoint,
        region=region,
        access_key=os.environ.get(f"{keys}_ACCESS_KEY"),
        secret_key=os.environ.get(f"{keys}_SECRET_KEY"),
    )


def open_cold_store(cold: str, s3_endpoint: str | None, s3_region: str | None, clock: Clock) -> ColdStore:
    """The store as a command that needs no server opens it: without a cache."""
    from coldstore.shared.chance import SystemChance
    from jjq.node.node import NodeSettings, open_cold

    s3 = s3_settings(s3_endpoint, s3_region)
    return open_cold(NodeSettings(Path(), cold, s3, cache_disk_bytes=0), clock, SystemChance())


ColdUrl = Annotated[
    str, Parameter(env_var="JJQ_COLD", help="The cold store: a folder, or s3://BUCKET/PREFIX.")
]
S3Endpoint = Annotated[
    str | None, Parameter(env_var="JJQ_S3_ENDPOINT", help="URL of an S3 server that is not AWS.")
]
S3Region = Annotated[str | None, Parameter(env_var="JJQ_S3_REGION", help="Region of the bucket.")]
Json = Annotated[bool, Parameter(name="--json", negative=())]
AsJson = Annotated[bool, Parameter(name="--json", negative=(), help="Print JSON, for programs.")]
Flag = Annotated[bool, Parameter(negative=())]
JsonLines = Annotated[bool, Parameter(name="--json", negative=(), help="Print one JSON object per line.")]
QueueName = Annotated[str, Parameter(help="Name of the queue.")]
SubscriberId = Annotated[str, Parameter(help="Id of the subscriber: QUEUE/NAME.")]
QueueFilter = Annotated[str | None, Parameter(help="Name of a queue. Default: all queues.")]
GroupId = Annotated[str, Parameter(help="Id of the group: QUEUE/NAME.")]
TextFile = Annotated[Path, Parameter(help="The text queue.")]
Start = Annotated[
    str, Parameter(help="beginning, end, offset:N, time:ISO, ago:7d, last:N or subscriber:NAME.")
]
Clamp = Annotated[bool, Parameter(negative=(), help="Take the nearest existing offset instead of failing.")]
StartOnly = Annotated[
    bool, Parameter(negative=(), help="Only show the offset of the starting point; change nothing.")
]
