"""The settings of producers, consumers and admins: three tables with a common base.

Keys are Kafka's dotted names; with underscores for dots they are keyword arguments. `configured`
turns either form into a checked table. A field has the name of its key, with underscores for dots.
A test checks that the TypedDicts have the fields of the tables.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

from ..runtime.config import (
    check_keys,
    config_table,
    from_mapping,
    objects_of,
    part,
    setting,
    settings_of,
    shown,
)
from ..runtime.errors import ConfigError
from ..security.control_settings import FILE, KEYSTORE, ControlSettings, ControlTlsConfig
from .net.address import Address
from .security_config import SecurityConfig, SecuritySettings

log = logging.getLogger(__name__)

C = TypeVar("C", bound="CommonConfig")

Servers = str | Sequence[str]
"""One host:port, several separated by commas, or a list of host:port."""

_JAVA = "it names Java classes; hand functions or objects to the client"
_FIXED = "this client sizes it by itself"
_TOKENS = "a token is got when a login needs one, within ten seconds"

KNOWN_UNUSED: Final[dict[str, str]] = {
    key: reason
    for reason, keys in {
        "ssl.enabled.protocols has the versions of TLS": ("ssl.protocol",),
        _JAVA: (
            "interceptor.classes",
            "key.deserializer",
            "key.serializer",
            "metric.reporters",
            "partitioner.class",
            "sasl.client.callback.handler.class",
            "sasl.login.callback.handler.class",
            "sasl.login.class",
            "sasl.oauthbearer.jwt.retriever.class",
            "sasl.oauthbearer.jwt.validator.class",
            "ssl.engine.factory.class",
            "ssl.keymanager.algorithm",
            "ssl.provider",
            "ssl.secure.random.implementation",
            "ssl.trustmanager.algorithm",
            "value.deserializer",
            "value.serializer",
        ),
        _TOKENS: (
            "sasl.login.connect.timeout.ms",
            "sasl.login.read.timeout.ms",
            "sasl.login.refresh.buffer.seconds",
            "sasl.login.refresh.min.period.seconds",
            "sasl.login.refresh.window.factor",
            "sasl.login.refresh.window.jitter",
            "sasl.login.retry.backoff.max.ms",
            "sasl.login.retry.backoff.ms",
        ),
        _FIXED: (
            "client.dns.lookup",
            "connections.max.idle.ms",
            "metrics.num.samples",
            "metrics.recording.level",
            "metrics.sample.window.ms",
            "partitioner.adaptive.partitioning.enable",
            "partitioner.availability.timeout.ms",
            "receive.buffer.bytes",
            "send.buffer.bytes",
        ),
    }.items()
    for key in keys
}
"""Kafka's client keys that have no effect here, with the reason; each is logged as a warning."""

INSTEAD: Final = {
    "compression.codec": "compression.type",
    "message.send.max.retries": "delivery.timeout.ms",
    "message.timeout.ms": "delivery.timeout.ms",
    "queue.buffering.max.ms": "linger.ms",
    "retries": "delivery.timeout.ms",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.location": "ssl.keystore.location",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.location": "ssl.keystore.location",
    "ssl.key.pem": "ssl.keystore.key",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.oauthbearer.client.id": "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.secret": "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.plain.password": "sasl.password",
    "sasl.plain.username": "sasl.username",
}
"""Keys of other clients that are refused, and the key to use instead."""


@config_table
class CommonConfig:
    """The settings that every client of a cluster takes."""

    bootstrap_servers: tuple[str, ...] = setting(
        "bootstrap.servers",
        ("localhost:9092",),
        doc="host:port,... of some brokers; the client learns the rest of the cluster from "
        "one of them.",
    )
    client_id: str = setting("client.id", "minikafka", doc="Names the client in broker logs.")
    request_timeout_ms: int = setting(
        "request.timeout.ms",
        30_000,
        at_least=1,
        doc="A connection is closed when a request on it has had no answer for this long; "
        "the request may be retried.",
    )
    bootstrap_timeout_ms: int = setting(
        "bootstrap.timeout.ms",
        10_000,
        at_least=1,
        doc="How long the first connection to the cluster is retried before BootstrapError; a "
        "login that is refused is not retried.",
    )
    socket_connection_setup_timeout_ms: int = setting(
        "socket.connection.setup.timeout.ms",
        10_000,
        at_least=1,
        doc="The time limit for opening a connection: DNS, TCP, TLS, SASL and ApiVersions "
        "together.",
    )
    retry_backoff_ms: int = setting(
        "retry.backoff.ms",
        50,
        at_least=1,
        doc="The wait before the first retry; it doubles with each retry, with 20 % jitter.",
    )
    retry_backoff_max_ms: int = setting(
        "retry.backoff.max.ms", 1_000, at_least=1, doc="The longest wait before a retry."
    )
    reconnect_backoff_ms: int = setting(
        "reconnect.backoff.ms",
        50,
        at_least=1,
        doc="The wait before the first reconnect; it doubles with each failure, with 20 % jitter.",
    )
    reconnect_backoff_max_ms: int = setting(
        "reconnect.backoff.max.ms", 1_000, at_least=1, doc="The longest wait before a reconnect."
    )
    metadata_max_age_ms: int = setting(
        "metadata.max.age.ms",
        300_000,
        at_least=1,
        doc="Metadata is fetched again at this age, to find new brokers and partitions.",
    )
    enable_metrics_push: bool = setting(
        "enable.metrics.push",
        True,
        doc="Push the client's metrics to a broker, where the cluster asks for them (KIP-714).",
    )
    security: SecurityConfig = part(SecurityConfig)
    unanswered_request_ms: int = setting(
        "unanswered.request.ms",
        500,
        at_least=1,
        doc="When a request has had no answer for this long, the client asks another "
        "broker who leads the partition.",
    )


@config_table
class ProducerConfig(CommonConfig):
    """The settings of a producer."""

    acks: str = setting(
        "acks",
        "all",
        choices=("all", "-1", "0", "1"),
        doc="A record counts as sent when every in-sync replica has it (all), when the "
        "leader has it (1), or at once (0).",
    )
    enable_idempotence: bool | None = setting(
        "enable.idempotence",
        None,
        doc="Retries neither duplicate nor reorder records. It needs acks=all, and is then "
        "on by default.",
    )
    linger_ms: int = setting(
        "linger.ms", 5, at_least=0, doc="How long a batch waits for more records before it is sent."
    )
    batch_size: int = setting(
        "batch.size",
        65_536,
        at_least=0,
        doc="Size in bytes at which a batch is sent without waiting for linger.ms.",
    )
    compression_type: str = setting(
        "compression.type",
        "none",
        choices=("none", "gzip", "snappy", "lz4", "zstd"),
        doc="The codec that compresses whole batches; larger batches compress better.",
    )
    max_request_size: int = setting(
        "max.request.size",
        1_048_576,
        at_least=1,
        doc="Largest record and largest request in bytes; the topic's max.message.bytes "
        "also limits batches.",
    )
    buffer_memory: int = setting(
        "buffer.memory",
        33_554_432,
        at_least=1,
        doc="The most bytes of unacknowledged records; above it send() waits.",
    )
    max_block_ms: int = setting(
        "max.block.ms",
        60_000,
        at_least=0,
        doc="How long send() waits for memory, or for the metadata of a topic.",
    )
    delivery_timeout_ms: int = setting(
        "delivery.timeout.ms",
        120_000,
        at_least=1,
        doc="A record fails if it is not acknowledged this long after send(), retries included.",
    )
    max_in_flight_requests_per_connection: int = setting(
        "max.in.flight.requests.per.connection",
        5,
        at_least=1,
        doc="The most unanswered requests per broker; idempotence needs at most 5.",
    )
    allow_auto_create_topics: bool = setting(
        "allow.auto.create.topics",
        True,
        doc="Let the cluster create missing topics that are written to, if its settings permit.",
    )
    transactional_id: str | None = setting(
        "transactional.id",
        None,
        doc="The lasting name under which this producer sends in transactions; a newer "
        "producer of the same name fences it.",
    )
    transaction_timeout_ms: int = setting(
        "transaction.timeout.ms",
        60_000,
        at_least=1,
        doc="The broker aborts a transaction that is open for longer; at most the broker's "
        "transaction.max.timeout.ms.",
    )

    @property
    def is_idempotent(self) -> bool:
        """True if the producer is idempotent: brokers recognise a repeated batch by sequence."""
        if self.enable_idempotence is None:
            return self.acks_number == -1
        return self.enable_idempotence

    @property
    def acks_number(self) -> int:
        """The number that requests carry for `acks`: -1 for all, else 0 or 1."""
        return -1 if self.acks == "all" else int(self.acks)

    def check(self) -> None:
        """Check the rules across settings; raise ConfigError, which names the first broken one."""
        if self.enable_idempotence and self.acks_number != -1:
            raise ConfigError("acks", self.acks, "must be all when enable.idempotence is true")
        if self.transactional_id is not None:
            if self.acks_number != -1:
                raise ConfigError("acks", self.acks, "must be all with a transactional.id")
            if not self.is_idempotent:
                why = "must be true with a transactional.id"
                raise ConfigError("enable.idempotence", self.enable_idempotence, why)
        most = self.max_in_flight_requests_per_connection
        if self.is_idempotent and most > 5:
            why = "must be at most 5 with idempotence: brokers recognise the last 5 batches"
            raise ConfigError("max.in.flight.requests.per.connection", most, why)


@config_table
class ConsumerConfig(CommonConfig):
    """The settings of a consumer."""

    auto_offset_reset: str = setting(
        "auto.offset.reset",
        "latest",
        choices=("earliest", "latest", "none"),
        doc="Where to begin if there is no committed offset, or if it is outside the log; "
        "with none, an error is raised.",
    )
    isolation_level: str = setting(
        "isolation.level",
        "read_uncommitted",
        choices=("read_uncommitted", "read_committed"),
        doc="With read_committed, records of open and aborted transactions are not returned.",
    )
    check_crcs: bool = setting(
        "check.crcs", True, doc="Verify the checksum of every batch that is decoded."
    )
    fetch_min_bytes: int = setting(
        "fetch.min.bytes",
        1,
        at_least=0,
        doc="A broker answers a fetch as soon as it has this many bytes.",
    )
    fetch_max_bytes: int = setting(
        "fetch.max.bytes",
        52_428_800,
        at_least=1,
        doc="The most bytes of one fetch from one broker.",
    )
    fetch_max_wait_ms: int = setting(
        "fetch.max.wait.ms",
        500,
        at_least=0,
        doc="A broker answers a fetch after this time, even if it has fewer bytes than "
        "fetch.min.bytes.",
    )
    max_partition_fetch_bytes: int = setting(
        "max.partition.fetch.bytes",
        1_048_576,
        at_least=1,
        doc="The most bytes per partition of one fetch; the first batch is returned "
        "whatever its size.",
    )
    max_poll_records: int = setting(
        "max.poll.records", 500, at_least=1, doc="The most records that one poll returns."
    )
    allow_auto_create_topics: bool = setting(
        "allow.auto.create.topics",
        False,
        doc="Let the cluster create missing topics that are subscribed to, if its settings permit.",
    )
    client_rack: str = setting(
        "client.rack",
        "",
        doc="The rack of this consumer; brokers may send it to a replica in the same rack.",
    )
    group_id: str | None = setting(
        "group.id",
        None,
        doc="The consumer group, whose members share the partitions and commit offsets.",
    )
    group_instance_id: str | None = setting(
        "group.instance.id",
        None,
        doc="A lasting name of this member; if it restarts within session.timeout.ms, it "
        "keeps its partitions.",
    )
    group_protocol: str = setting(
        "group.protocol",
        "classic",
        choices=("classic",),
        doc="The group protocol; only the classic one is supported.",
    )
    partition_assignment_strategy: tuple[str, ...] = setting(
        "partition.assignment.strategy",
        ("cooperative-sticky",),
        choices=("cooperative-sticky", "sticky", "range", "roundrobin"),
        doc="Assignors, preferred first; the group uses one that all members have. "
        "Rebalances are incremental only if all of them are cooperative.",
    )
    enable_auto_commit: bool = setting(
        "enable.auto.commit",
        True,
        doc="Commit the offsets of records that earlier polls returned: on polls, on "
        "close, and when partitions are revoked.",
    )
    auto_commit_interval_ms: int = setting(
        "auto.commit.interval.ms",
        5_000,
        at_least=0,
        doc="The least time between two automatic commits by polls.",
    )
    session_timeout_ms: int = setting(
        "session.timeout.ms",
        45_000,
        at_least=1,
        doc="A member that sends no heartbeat for this long is removed from the group.",
    )
    heartbeat_interval_ms: int = setting(
        "heartbeat.interval.ms",
        3_000,
        at_least=1,
        doc="The time between heartbeats, by which a member also learns of a rebalance.",
    )
    max_poll_interval_ms: int = setting(
        "max.poll.interval.ms",
        300_000,
        at_least=1,
        doc="A member that does not poll for this long leaves the group; a rebalance waits "
        "for a member as long.",
    )
    default_api_timeout_ms: int = setting(
        "default.api.timeout.ms",
        60_000,
        at_least=1,
        doc="The time limit of commits and other calls without a timeout of their own, "
        "retries included.",
    )
    exclude_internal_topics: bool = setting(
        "exclude.internal.topics",
        True,
        doc="Subscriptions by pattern do not match internal topics.",
    )

    @property
    def reads_committed(self) -> bool:
        """True if records of open and aborted transactions are not handed out."""
        return self.isolation_level == "read_committed"

    @property
    def isolation_number(self) -> int:
        """The isolation level as Fetch and ListOffsets carry it: 1 for read_committed, else 0."""
        return int(self.reads_committed)

    @property
    def commits_by_itself(self) -> bool:
        """True if there is a group and polls commit automatically."""
        return self.group_id is not None and self.enable_auto_commit

    def check(self) -> None:
        """Check the rules across settings; raise ConfigError, which names the first broken one."""
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            why = "must be less than session.timeout.ms, at most a third of it is usual"
            raise ConfigError("heartbeat.interval.ms", self.heartbeat_interval_ms, why)
        if not self.partition_assignment_strategy:
            raise ConfigError("partition.assignment.strategy", "", "needs at least one assignor")
        if self.group_instance_id is not None and self.group_id is None:
            why = "means nothing without group.id"
            raise ConfigError("group.instance.id", self.group_instance_id, why)


@config_table
class AdminConfig(CommonConfig):
    """The settings of an admin."""

    default_api_timeout_ms: int = setting(
        "default.api.timeout.ms",
        60_000,
        at_least=1,
        doc="The time limit of one call, retries included; the cluster is given the same "
        "time to finish.",
    )
    control_psk_file: str | None = setting(
        FILE,
        None,
        doc="The file of the cluster's key, for tools that ask controllers by themselves: with"
        " --bootstrap-controller, and doctor --controllers.",
    )
    control_tls: ControlTlsConfig = part(ControlTlsConfig)

    @property
    def control(self) -> ControlSettings:
        """The settings of the control plane's security."""
        return ControlSettings(None, self.control_psk_file, self.control_tls)

    def check(self) -> None:
        """Raise ConfigError if the control plane is given both a key and a certificate."""
        if self.control_psk_file is not None and self.control.has_tls:
            why = f"cannot be set together with {KEYSTORE}: controllers are shown one of them"
            raise ConfigError(FILE, self.control_psk_file, why)


class CommonSettings(SecuritySettings, total=False):
    """Keyword arguments of every client, besides bootstrap_servers."""

    client_id: str
    request_timeout_ms: int
    bootstrap_timeout_ms: int
    socket_connection_setup_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    metadata_max_age_ms: int
    enable_metrics_push: bool
    unanswered_request_ms: int


class ProducerSettings(CommonSettings, total=False):
    """Keyword arguments of a producer."""

    acks: str | int
    enable_idempotence: bool | None
    linger_ms: int
    batch_size: int
    compression_type: str
    max_request_size: int
    buffer_memory: int
    max_block_ms: int
    delivery_timeout_ms: int
    max_in_flight_requests_per_connection: int
    allow_auto_create_topics: bool
    transactional_id: str | None
    transaction_timeout_ms: int


class ConsumerSettings(CommonSettings, total=False):
    """Keyword arguments of a consumer."""

    auto_offset_reset: str
    isolation_level: str
    check_crcs: bool
    fetch_min_bytes: int
    fetch_max_bytes: int
    fetch_max_wait_ms: int
    max_partition_fetch_bytes: int
    max_poll_records: int
    allow_auto_create_topics: bool
    client_rack: str
    group_id: str | None
    group_instance_id: str | None
    group_protocol: str
    partition_assignment_strategy: str | Sequence[str]
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    default_api_timeout_ms: int
    exclude_internal_topics: bool


class AdminSettings(CommonSettings, total=False):
    """Keyword arguments of an admin."""

    default_api_timeout_ms: int
    control_psk_file: str | None
    control_ssl_keystore_location: str | None
    control_ssl_keystore_password: str | None
    control_ssl_key_password: str | None
    control_ssl_truststore_location: str | None
    control_ssl_truststore_password: str | None
    control_ssl_endpoint_identification_algorithm: str | None
    control_ssl_principal_mapping_rules: str


def configured(table: type[C], servers: Servers | None, settings: Mapping[str, Any]) -> C:
    """Return the table of settings given as dotted keys, as keyword names, or mixed.

    Values may be text or of their own type. Raise ConfigError for an unknown key (naming the most
    similar one), for a value out of bounds, and for a setting that is given twice. A key of
    KNOWN_UNUSED is logged as a warning.
    """
    if isinstance(servers, Mapping):
        raise ConfigError("bootstrap.servers", None, "settings in a mapping go to from_config(...)")
    given = dict(settings) if servers is None else {"bootstrap_servers": servers, **settings}
    objects = {name: given.pop(name) for name in objects_of(table) if name in given}
    known = {row.key: None for row in settings_of(table)}
    mapping: dict[str, str] = {}
    for name, value in given.items():
        dotted = name.replace("_", ".")
        key = dotted if dotted in known or dotted in KNOWN_UNUSED else name
        if key in mapping:
            raise ConfigError(key, shown(key, value), "is given twice")
        if key not in known and INSTEAD.get(key) in known:
            why = f"unknown key; use {INSTEAD[key]} instead"
            raise ConfigError(key, shown(key, value), why)
        mapping[key] = _as_text(value)
    for warning in check_keys(mapping, table, known_unused=KNOWN_UNUSED):
        log.warning("%s", warning)
    config = from_mapping(table, mapping, objects)
    if not config.bootstrap_servers:
        raise ConfigError("bootstrap.servers", "", "needs at least one host:port")
    for server in config.bootstrap_servers:
        Address.parse(server)
    return config


def settings_like(config: CommonConfig) -> dict[str, Any]:
    """Return the settings, by field, that make another client connect as this one does."""
    security = config.security.as_arguments()
    common = [row.field for row in settings_of(CommonConfig) if row.field not in security]
    return {field: getattr(config, field) for field in common} | security


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value)
