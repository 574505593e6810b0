"""The settings of a server: flags > JJQ_* > TOML file > defaults; one frozen object, validated once.

Every setting has one name, written `journal_bytes_max` in a file, `JJQ_JOURNAL_BYTES_MAX` in the
environment and `--journal-bytes-max` as a flag. Other variables that begin with JJQ_ are ignored:
Kubernetes makes up such names for a service called jjq. Other names in a file are refused.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import ByteSize, SecretStr, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from coldstore.layout.paths import check_name
from coldstore.objects.settings import S3Settings
from coldstore.shared.errors import InvalidInput
from coldstore.shared.limits import GIB, MIB, OBJECT_BYTES_MAX
from hotstore.settings import HotSettings
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
from jjq.node.cluster import ClusterSettings
from jjq.node.node import NodeSettings
from jjq.remote.settings import ClientTls
from jjq.server.settings import Plaintext, ServerSettings, Tls
from jjq.sql.query import QueryLimits
from sharding.limits import JOURNAL_FLUSH_SECONDS, LEASE_SECONDS
from sharding.routing.nodes import NodesSettings
from sharding.takeover.watch import TenureSettings

_PREFIX = "JJQ_"


class Settings(BaseSettings):
    """The settings of `jjq serve`; `jjq serve --help` says what each of them means."""

    model_config = SettingsConfigDict(env_prefix=_PREFIX, env_ignore_empty=True, frozen=True, extra="forbid")

    data: Path = Path("jjq-data")
    listen: str = f"127.0.0.1:{PORT}"
    cold: str | None = None
    node: str | None = None
    journal: str = "disk"
    lease_seconds: float = LEASE_SECONDS
    journal_flush_seconds: float = JOURNAL_FLUSH_SECONDS
    advertise: str | None = None

    s3_endpoint: str | None = None
    s3_region: str | None = None
    # No flags for these two: every user of the machine can read a command line.
    s3_access_key: SecretStr | None = None
    s3_secret_key: SecretStr | None = None

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
    log: Literal["text", "json"] = "text"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    grace_seconds: float = GRACE_SECONDS

    segment_bytes: ByteSize = ByteSize(64 * MIB)
    journal_bytes_max: ByteSize = ByteSize(4 * GIB)
    unsealed_bytes_max: ByteSize = ByteSize(1 * GIB)
    pending_bytes_max: ByteSize = ByteSize(64 * MIB)
    hot_bytes_max: ByteSize = ByteSize(512 * MIB)
    disk_free_bytes_min: ByteSize = ByteSize(256 * MIB)
    cache_bytes_max: ByteSize = ByteSize(4 * GIB)
    outgoing_bytes_max: ByteSize = ByteSize(OUTGOING_BYTES_MAX)
    object_bytes_max: ByteSize = ByteSize(OBJECT_BYTES_MAX)
    queue_objects_bytes_max: ByteSize = ByteSize(0)
    idle_seconds: float = 600.0
    producer_seconds: float = 7 * 86_400.0
    seal_on_close: bool = False
    sql_queries_max: int = SQL_QUERIES_MAX
    sql_seconds_max: float = SQL_SECONDS_MAX
    sql_bytes_max: ByteSize = ByteSize(SQL_BYTES_MAX)

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], init_settings: PydanticBaseSettingsSource, *_: Any, **__: Any
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)  # `load` has merged the other sources, and knows where each value came from

    @classmethod
    def load(cls, flags: Mapping[str, Any], config: Path | None = None) -> Self:
        """Merge flags, environment and file; `InvalidInput` says in one line what to correct, and where."""
        from_file = {} if config is None else _read(config)
        try:
            from_environment = EnvSettingsSource(cls)()
        except SettingsError as error:
            raise InvalidInput(f"the environment's {_PREFIX}* cannot be read: {error}") from None
        given = {name: value for name, value in flags.items() if value is not None}
        try:
            settings = cls(**{**from_file, **from_environment, **given})
        except ValidationError as error:
            raise InvalidInput(_line(error, given, from_environment, config)) from None
        settings.node_settings()
        settings.server_settings()
        settings.cluster_settings()
        settings.http_settings()
        return settings

    @field_validator("node")
    @classmethod
    def _check_node(cls, node: str | None) -> str | None:
        try:
            return None if node is None else check_name(node, "node")
        except InvalidInput as error:
            raise ValueError(str(error)) from None

    @field_validator("journal")
    @classmethod
    def _check_journal(cls, journal: str) -> str:
        if journal not in {"disk", "s3"}:
            raise ValueError(f"{journal!r} is not known; use disk or s3")
        return journal

    def node_settings(self) -> NodeSettings:
        """The part for the store."""
        return NodeSettings(
            data=self.data,
            cold=self.cold,
            s3=S3Settings(
                endpoint=self.s3_endpoint,
                region=self.s3_region,
                access_key=_secret(self.s3_access_key),
                secret_key=_secret(self.s3_secret_key),
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
            journal="s3" if self.journal == "s3" else "disk",
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
            journal="s3" if self.journal == "s3" else "disk",
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
    from_file = {} if config is None else _read(config)
    found: dict[str, str] = {}
    for name in Settings.model_fields:
        variable = f"{_PREFIX}{name.upper()}"
        if flags.get(name) is not None:
            found[name] = f"flag --{name.replace('_', '-')}"
        elif environment.get(variable):  # an empty one counts as none
            found[name] = f"environment {variable}"
        else:
            found[name] = f"file {config}" if name in from_file else "default"
    return found


def _secret(value: SecretStr | None) -> str | None:
    return None if value is None else value.get_secret_value()


def _read(config: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(config.read_text("utf-8"))
    except OSError as error:
        raise InvalidInput(
            f"cannot read the settings file {config}: {error.strerror}; correct its path"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"the settings file {config} is not TOML: {error}") from None


def _line(
    error: ValidationError, flags: Mapping[str, Any], environment: Mapping[str, Any], config: Path | None
) -> str:
    """The first setting that is wrong, and where it was given."""
    first = error.errors(include_url=False, include_context=False)[0]
    name = str(first["loc"][0]) if first["loc"] else "?"
    if name in flags:
        where = f"--{name.replace('_', '-')}"
    elif name in environment:
        where = f"{_PREFIX}{name.upper()}"
    else:
        where = f"{name} in {config}"
    if first["type"] == "extra_forbidden":
        return f"{where} is no setting of jjq: correct the name, or remove it"
    wrong = first["msg"].removeprefix("Value error, ")
    if first["type"] in {"byte_size", "byte_size_unit"}:
        wrong = "write a number of bytes, or one with a unit as in 512MiB"
    shown = "" if "secret" in name or "key" in name else f" is {str(first['input'])[:80]!r}"
    return f"{where}{shown}: {wrong}"
