"""The settings of a server: flags > JJQ_* > TOML file > defaults; one frozen object, validated once.

Every setting has one name, written `journal_bytes_max` in a file, `JJQ_JOURNAL_BYTES_MAX` in the
environment and `--journal-bytes-max` as a flag. Other variables that begin with JJQ_ are ignored:
Kubernetes makes up such names for a service called jjq. Other names in a file are refused.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal, Self, get_args

from coldstore.layout.paths import check_name
from coldstore.objects.settings import S3Settings
from coldstore.shared.errors import InvalidInput
from coldstore.shared.limits import GIB, MIB, OBJECT_BYTES_MAX
from hotstore.settings import HotSettings
from jjq import arguments
from jjq.addresses import split_address
from jjq.http.settings import HttpSettings, listen_address, words
from jjq.limits import (
    GRACE_SECONDS,
    OUTGOING_BYTES_MAX,
    PORT,
    SQL_BYTES_MAX,
    SQL_QUERIES_MAX,
    SQL_SECONDS_MAX,
)
from jjq.node.node import ClusterSettings, NodeSettings
from jjq.remote.settings import ClientTls
from jjq.server.settings import Plaintext, ServerSettings, Tls
from jjq.sql.query import QueryLimits
from sharding.limits import JOURNAL_FLUSH_SECONDS, LEASE_SECONDS
from sharding.routing.nodes import NodesSettings
from sharding.takeover.watch import TenureSettings

SECRETS: Final = (
    "s3_access_key",
    "s3_secret_key",
)  # no flags: every user of the machine can read a command line
_PREFIX: Final = "JJQ_"
_TRUE: Final = ("true", "yes", "on", "1")
_FALSE: Final = ("false", "no", "off", "0")
Bytes = int  # written as a number of bytes, or with a unit
JournalName = Literal["disk", "s3"]
LogForm = Literal["text", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of `jjq serve`; `jjq serve --help` says what each of them means."""

    data: Path = Path("jjq-data")
    listen: str = f"127.0.0.1:{PORT}"
    cold: str | None = None
    node: str | None = None
    journal: JournalName = "disk"
    lease_seconds: float = LEASE_SECONDS
    journal_flush_seconds: float = JOURNAL_FLUSH_SECONDS
    advertise: str | None = None

    s3_endpoint: str | None = None
    s3_region: str | None = None
    s3_access_key: str | None = field(default=None, repr=False)
    s3_secret_key: str | None = field(default=None, repr=False)

    tls_certificate: Path | None = None
    tls_key: Path | None = None
    tls_client_ca: Path | None = None
    plaintext: Plaintext = "warn"

    http_listen: str | None = None  # None: the port after that of listen
    http_origins: str | None = None
    http_hosts: str | None = None
    connect_create_queues: bool = True
    metrics_listen: str | None = None
    reflection: bool = False
    traces: str | None = None
    log: LogForm = "text"
    log_level: LogLevel = "info"
    grace_seconds: float = GRACE_SECONDS

    segment_bytes: Bytes = 64 * MIB
    journal_bytes_max: Bytes = 4 * GIB
    unsealed_bytes_max: Bytes = 1 * GIB
    pending_bytes_max: Bytes = 64 * MIB
    hot_bytes_max: Bytes = 512 * MIB
    disk_free_bytes_min: Bytes = 256 * MIB
    cache_bytes_max: Bytes = 4 * GIB
    outgoing_bytes_max: Bytes = OUTGOING_BYTES_MAX
    object_bytes_max: Bytes = OBJECT_BYTES_MAX
    queue_objects_bytes_max: Bytes = 0
    idle_seconds: float = 600.0
    producer_seconds: float = 7 * 86_400.0
    seal_on_close: bool = False
    sql_queries_max: int = SQL_QUERIES_MAX
    sql_seconds_max: float = SQL_SECONDS_MAX
    sql_bytes_max: Bytes = SQL_BYTES_MAX

    @classmethod
    def load(cls, flags: Mapping[str, Any], config: Path | None = None) -> Self:
        """Merge flags, environment and file; `InvalidInput` says in one line what to correct, and where."""
        given = {name: (value, f"{name} in {config}") for name, value in _read(config).items()}
        for known in fields(cls):
            variable = f"{_PREFIX}{known.name.upper()}"
            if os.environ.get(variable):  # an empty one counts as none
                given[known.name] = (os.environ[variable], variable)
        for name, value in flags.items():
            if value is not None:
                given[name] = (value, f"--{name.replace('_', '-')}")
        settings = cls(**{name: _parsed(name, value, where) for name, (value, where) in given.items()})
        settings.node_settings()
        settings.server_settings()
        settings.cluster_settings()
        settings.http_settings()
        return settings

    def node_settings(self) -> NodeSettings:
        """The part for the store."""
        return NodeSettings(
            data=self.data,
            cold=self.cold,
            s3=S3Settings(
                endpoint=self.s3_endpoint,
                region=self.s3_region,
                access_key=self.s3_access_key,
                secret_key=self.s3_secret_key,
            ),
            hot=HotSettings(
                segment_bytes=self.segment_bytes,
                journal_bytes_max=self.journal_bytes_max,
                unsealed_bytes_max=self.unsealed_bytes_max,
                pending_bytes_max=self.pending_bytes_max,
                hot_bytes_max=self.hot_bytes_max,
                disk_free_bytes_min=self.disk_free_bytes_min,
                object_bytes_max=self.object_bytes_max,
                queue_objects_bytes_max=self.queue_objects_bytes_max,
                idle_seconds=self.idle_seconds,
                producer_seconds=self.producer_seconds,
                seal_on_close=self.seal_on_close,
            ),
            cache_disk_bytes=self.cache_bytes_max,
            node=self.node if self.journal == "disk" else self.node or "local",
            journal=self.journal,
            tenure=TenureSettings.for_lease(self.lease_seconds),
            flush_seconds=self.journal_flush_seconds,
            traces=self.traces,
            sql=QueryLimits(self.sql_seconds_max, self.sql_bytes_max, self.sql_queries_max),
        )

    def cluster_settings(self) -> ClusterSettings:
        """The part for a node of a cluster."""
        if self.advertise is not None:
            split_address(self.advertise, "advertise")
        tls = self._tls()
        return ClusterSettings(
            journal=self.journal,
            advertise=self.advertise,
            tls=None if tls is None else ClientTls(tls.client_ca, tls.certificate, tls.key),
            nodes=NodesSettings.for_lease(self.lease_seconds),
        )

    def server_settings(self) -> ServerSettings:
        """The part for the gRPC server."""
        return ServerSettings(
            listen=self.listen,
            tls=self._tls(),
            plaintext=self.plaintext,
            metrics=self.metrics_listen,
            reflection=self.reflection,
            grace_seconds=self.grace_seconds,
            outgoing_bytes_max=self.outgoing_bytes_max,
            traced=self.traces is not None,
        )

    def http_settings(self) -> HttpSettings | None:
        """The part for HTTP; None: it is off."""
        listen = listen_address(self.http_listen, self.listen)
        if listen is None:
            return None
        return HttpSettings(
            listen,
            self._tls(),
            words(self.http_origins),
            words(self.http_hosts),
            connect_create_queues=self.connect_create_queues,
        )

    def _tls(self) -> Tls | None:
        if self.tls_certificate is None and self.tls_key is None:
            if self.tls_client_ca is not None:
                raise InvalidInput("tls_client_ca needs tls_certificate and tls_key, too")
            return None
        if self.tls_certificate is None or self.tls_key is None:
            raise InvalidInput("TLS needs both tls_certificate and tls_key: give both or neither")
        return Tls(self.tls_certificate, self.tls_key, self.tls_client_ca)


def origins(
    flags: Mapping[str, Any], environment: Mapping[str, str], config: Path | None = None
) -> dict[str, str]:
    """Who said each setting, the first named winning: a flag, a variable, the file, or nobody (default)."""
    from_file = _read(config)
    found: dict[str, str] = {}
    for name in NAMES:
        variable = f"{_PREFIX}{name.upper()}"
        if flags.get(name) is not None:
            found[name] = f"flag --{name.replace('_', '-')}"
        elif environment.get(variable):  # an empty one counts as none
            found[name] = f"environment {variable}"
        else:
            found[name] = f"file {config}" if name in from_file else "default"
    return found


def _read(config: Path | None) -> dict[str, Any]:
    if config is None:
        return {}
    try:
        return tomllib.loads(config.read_text("utf-8"))
    except OSError as error:
        raise InvalidInput(
            f"cannot read the settings file {config}: {error.strerror}; correct its path"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"the settings file {config} is not TOML: {error}") from None


def _parsed(name: str, given: object, where: str) -> Any:
    """A setting as its type; the error says where it was given."""
    parse = _PARSERS.get(name)
    if parse is None:
        raise InvalidInput(f"{where} is no setting of jjq: correct the name, or remove it")
    try:
        return parse(given)
    except (ValueError, InvalidInput) as error:
        shown = "" if "secret" in name or "key" in name else f" is {str(given)[:80]!r}"
        raise InvalidInput(f"{where}{shown}: {error}") from None


def _text(given: object) -> str:
    if not isinstance(given, str):
        raise ValueError("write text")
    return given


def _node(given: object) -> str:
    return check_name(_text(given), "node")


def _path(given: object) -> Path:
    if not isinstance(given, str | Path):
        raise ValueError("write a path")
    return Path(given)


def _bytes(given: object) -> int:
    try:
        return arguments.size("size", given)
    except InvalidInput:
        raise ValueError("write a number of bytes, or one with a unit as in 512MiB") from None


def _number(given: object) -> float:
    if isinstance(given, str | int | float) and not isinstance(given, bool):
        with suppress(ValueError):
            return float(given)
    raise ValueError("write a number")


def _whole(given: object) -> int:
    if isinstance(given, str | int) and not isinstance(given, bool):
        with suppress(ValueError):
            return int(given)
    raise ValueError("write a whole number")


def _flag(given: object) -> bool:
    word = str(given).lower()
    if word not in _TRUE + _FALSE:
        raise ValueError("write true or false")
    return word in _TRUE


def _one_of(form: Any) -> Callable[[object], str]:
    words = get_args(form)

    def parse(given: object) -> str:
        if given not in words:
            raise ValueError(f"{given!r} is not known; use {', '.join(words[:-1])} or {words[-1]}")
        return str(given)

    return parse


_BY_TYPE: Final[dict[str, Callable[[object], Any]]] = {
    "str": _text,
    "Path": _path,
    "Bytes": _bytes,
    "float": _number,
    "int": _whole,
    "bool": _flag,
    "JournalName": _one_of(JournalName),
    "LogForm": _one_of(LogForm),
    "LogLevel": _one_of(LogLevel),
    "Plaintext": _one_of(Plaintext),
}
NAMES: Final = tuple(known.name for known in fields(Settings))
_PARSERS: Final[dict[str, Callable[[object], Any]]] = {
    known.name: _BY_TYPE[str(known.type).removesuffix(" | None")] for known in fields(Settings)
} | {"node": _node}
