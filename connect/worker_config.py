"""The settings of a Connect worker, distributed or standalone: Kafka's keys in one table.

Beside its own keys a worker's file holds prefixed ones, which are passed on: `key.converter.*`
to converters, `producer.*`, `consumer.*` and `admin.*` to the clients of connectors.
"""

import logging
from collections.abc import Mapping
from typing import Any, Final

from ..client.config import CommonConfig, settings_like
from ..runtime.config import (
    INT32_MAX,
    check_keys,
    config_table,
    from_mapping,
    handed,
    part,
    setting,
)
from ..runtime.errors import ConfigError

log = logging.getLogger(__name__)

PASSED_ON: Final = (
    "key.converter.",
    "value.converter.",
    "header.converter.",
    "listeners.https.",
    "producer.",
    "consumer.",
    "admin.",
    "config.providers.",
    "config.storage.",
    "offset.storage.",
    "status.storage.",
    "topic.creation.",
)
"""Prefixes of keys that are passed on; those of storage are settings of topics (KIP-605)."""

_JAVA = "it is about the JVM, its classes or its threads"
_ALGORITHMS = "requests between workers are signed with HmacSHA256 alone"

KNOWN_UNUSED: Final[dict[str, str]] = {
    key: reason
    for reason, keys in {
        _JAVA: (
            "metric.reporters",
            "metrics.num.samples",
            "metrics.recording.level",
            "metrics.sample.window.ms",
            "plugin.discovery",
            "auto.include.jmx.reporter",
            "rest.extension.classes",
            "response.http.headers.config",
        ),
        _ALGORITHMS: (
            "inter.worker.key.generation.algorithm",
            "inter.worker.key.size",
            "inter.worker.signature.algorithm",
            "inter.worker.verification.algorithms",
        ),
        "workers speak sessioned, and compatible where another one speaks no better": (
            "connect.protocol",
        ),
        "a worker that is behind reads on, and joins as soon as it has caught up": (
            "worker.unsync.backoff.ms",
        ),
        "clients size it by themselves": (
            "client.dns.lookup",
            "connections.max.idle.ms",
            "receive.buffer.bytes",
            "send.buffer.bytes",
        ),
        "offsets and configurations are JSON": (
            "internal.key.converter",
            "internal.value.converter",
            "internal.key.converter.schemas.enable",
            "internal.value.converter.schemas.enable",
        ),
    }.items()
    for key in keys
}
"""Keys of Kafka's workers without effect here, with the reason; each is logged as a warning."""


@config_table
class WorkerConfig:
    """The settings of one worker."""

    clients: CommonConfig = part(CommonConfig)
    """The settings that all clients of the worker share."""

    key_converter: str = setting(
        "key.converter",
        doc="The converter of keys, for connectors that name none: JsonConverter,"
        " StringConverter, ByteArrayConverter, or any plugin.",
    )
    value_converter: str = setting(
        "value.converter", doc="The converter of values, for connectors that name none."
    )
    header_converter: str = setting(
        "header.converter",
        "SimpleHeaderConverter",
        doc="The converter of headers, for connectors that name none.",
    )
    group_id: str | None = setting(
        "group.id",
        None,
        doc="The group of workers that share connectors; also the first part of the"
        " transactional ids of exactly-once sources.",
    )
    config_storage_topic: str | None = setting(
        "config.storage.topic", None, doc="The topic of configurations; makes a worker distributed."
    )
    config_storage_replication_factor: int = setting(
        "config.storage.replication.factor",
        3,
        at_least=-1,
        at_most=32_767,
        doc="Replicas of the topic of configurations, if the worker creates it; -1: the cluster's"
        " default.",
    )
    offset_storage_topic: str | None = setting(
        "offset.storage.topic",
        None,
        doc="The topic of source offsets. A standalone worker needs it for exactly once only.",
    )
    offset_storage_partitions: int = setting(
        "offset.storage.partitions",
        25,
        at_least=-1,
        at_most=INT32_MAX,
        doc="Partitions of the topic of offsets, if it is created; -1: the cluster's default.",
    )
    offset_storage_replication_factor: int = setting(
        "offset.storage.replication.factor",
        3,
        at_least=-1,
        at_most=32_767,
        doc="Replicas of the topic of offsets, if it is created; -1: the cluster's default.",
    )
    status_storage_topic: str | None = setting(
        "status.storage.topic", None, doc="The topic of states of connectors and tasks."
    )
    status_storage_partitions: int = setting(
        "status.storage.partitions",
        5,
        at_least=-1,
        at_most=INT32_MAX,
        doc="Partitions of the topic of states, if it is created; -1: the cluster's default.",
    )
    status_storage_replication_factor: int = setting(
        "status.storage.replication.factor",
        3,
        at_least=-1,
        at_most=32_767,
        doc="Replicas of the topic of states, if it is created; -1: the cluster's default.",
    )
    offset_storage_file_filename: str | None = setting(
        "offset.storage.file.filename",
        None,
        doc="The file of source offsets of a standalone worker, JSON lines.",
    )
    offset_flush_interval_ms: int = setting(
        "offset.flush.interval.ms",
        60_000,
        at_least=1,
        doc="The time between two commits of a task's offsets: what may be repeated after a crash.",
    )
    offset_flush_timeout_ms: int = setting(
        "offset.flush.timeout.ms",
        5_000,
        at_least=1,
        doc="How long a commit of offsets waits; then it is tried again at the next interval.",
    )
    task_shutdown_graceful_timeout_ms: int = setting(
        "task.shutdown.graceful.timeout.ms",
        5_000,
        at_least=0,
        doc="How long tasks may take to stop, all together. Those that take longer are abandoned:"
        " their clients are closed and their results ignored. In a group it must leave a third of"
        " session.timeout.ms, and a second; else a worker that is cut off may still run what others"
        " have got.",
    )
    task_restart_backoff_ms: int = setting(
        "minikafka.connect.task.restart.backoff.ms",
        0,
        at_least=0,
        at_most=600_000,
        doc="The wait before a failed task is started again; it doubles up to ten minutes."
        " 0: failed tasks stay failed, as in Kafka.",
    )
    exactly_once_source_support: str = setting(
        "exactly.once.source.support",
        "disabled",
        choices=("disabled", "preparing", "enabled"),
        doc="Sources write records and offsets in transactions (KIP-618). A group goes to"
        " enabled by two rolling restarts, through preparing.",
    )
    connector_client_config_override_policy: str = setting(
        "connector.client.config.override.policy",
        "All",
        choices=("All", "None", "Principal"),
        doc="The client settings that connectors may override by producer.override.KEY,"
        " consumer.override.KEY and admin.override.KEY: all, none, or those of the login.",
    )
    plugin_path: tuple[str, ...] = setting(
        "plugin.path", (), doc="Directories with further Python packages that have plugins."
    )
    config_providers: tuple[str, ...] = setting(
        "config.providers",
        (),
        doc="Names of config providers; ${NAME:path:key} in a connector's configuration is"
        " replaced by what they answer.",
    )
    listeners: tuple[str, ...] = setting(
        "listeners",
        ("http://:8083",),
        doc="Where the REST API is served: http:// or https://, host and port.",
    )
    admin_listeners: tuple[str, ...] | None = setting(
        "admin.listeners",
        None,
        doc="Where /admin is served; empty: nowhere, absent: with the rest.",
    )
    rest_advertised_host_name: str | None = setting(
        "rest.advertised.host.name", None, doc="The host under which other workers reach this one."
    )
    rest_advertised_port: int | None = setting(
        "rest.advertised.port",
        None,
        at_least=0,
        at_most=65_535,
        doc="The port under which other workers reach this one.",
    )
    rest_advertised_listener: str | None = setting(
        "rest.advertised.listener",
        None,
        choices=("http", "https"),
        doc="The listener that other workers use.",
    )
    access_control_allow_origin: str = setting(
        "access.control.allow.origin", "", doc="Origins that browsers may call the REST API from."
    )
    access_control_allow_methods: str = setting(
        "access.control.allow.methods", "", doc="Methods that such calls may use."
    )
    session_timeout_ms: int = setting(
        "session.timeout.ms",
        10_000,
        at_least=1,
        doc="A worker that sends no heartbeat for this long is removed from the group.",
    )
    heartbeat_interval_ms: int = setting(
        "heartbeat.interval.ms", 3_000, at_least=1, doc="The time between a worker's heartbeats."
    )
    rebalance_timeout_ms: int = setting(
        "rebalance.timeout.ms",
        60_000,
        at_least=1,
        doc="How long a rebalance waits for workers that stop their tasks.",
    )
    worker_sync_timeout_ms: int = setting(
        "worker.sync.timeout.ms",
        3_000,
        at_least=1,
        doc="How long a worker that is behind reads the topic of configurations before it rejoins.",
    )
    scheduled_rebalance_max_delay_ms: int = setting(
        "scheduled.rebalance.max.delay.ms",
        300_000,
        at_least=0,
        at_most=INT32_MAX,
        doc="How long the work of a vanished worker waits for its return before others get it.",
    )
    inter_worker_key_ttl_ms: int = setting(
        "inter.worker.key.ttl.ms",
        3_600_000,
        at_least=1,
        at_most=INT32_MAX,
        doc="The age at which the key that signs requests between workers is replaced.",
    )
    topic_tracking_enable: bool = setting(
        "topic.tracking.enable", True, doc="Keep which topics each connector has used (KIP-558)."
    )
    topic_tracking_allow_reset: bool = setting(
        "topic.tracking.allow.reset", True, doc="Let users reset the topics of a connector."
    )
    topic_creation_enable: bool = setting(
        "topic.creation.enable",
        True,
        doc="Create missing topics of sources that set topic.creation.default.partitions and"
        " topic.creation.default.replication.factor (KIP-158).",
    )
    props: Mapping[str, str] = handed()
    """All keys of the worker's file, those that are passed on among them."""
    mixed: bool = setting(
        "minikafka.connect.mixed",
        False,
        doc="Join a group in which there are workers of Apache Kafka; they cannot run Python"
        " connectors.",
    )

    @property
    def is_distributed(self) -> bool:
        """True if configurations are in a topic, and workers share the work."""
        return self.config_storage_topic is not None

    @property
    def is_exactly_once(self) -> bool:
        """True if sources write in transactions."""
        return self.exactly_once_source_support == "enabled"

    @property
    def client_id(self) -> str:
        """The name of the worker's own clients in broker logs."""
        return self.clients.client_id

    def storage_configs(self, prefix: str) -> dict[str, str]:
        """Return the topic settings behind `prefix`, as `offset.storage.` (KIP-605)."""
        found = {"cleanup.policy": "compact", **below(self.props, prefix)}
        return {key: value for key, value in found.items() if prefix + key not in WORKER_KEYS}

    @property
    def common(self) -> dict[str, Any]:
        """Arguments by which a client connects as this worker does; they name no client.id."""
        found = settings_like(self.clients)
        del found["client_id"]
        return found

    def check(self) -> None:
        """Raise ConfigError if keys are missing that this way of running needs."""
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            why = "must be less than session.timeout.ms"
            raise ConfigError("heartbeat.interval.ms", self.heartbeat_interval_ms, why)
        if self.is_distributed:
            needed = {
                "group.id": self.group_id,
                "offset.storage.topic": self.offset_storage_topic,
                "status.storage.topic": self.status_storage_topic,
            }
            why = "is required for a distributed worker"
        else:
            needed = {"offset.storage.file.filename": self.offset_storage_file_filename}
            why = "is required for a standalone worker; config.storage.topic makes it distributed"
        for key, value in needed.items():
            if value is None:
                raise ConfigError(key, None, why)
        if self.is_exactly_once and not self.is_distributed:
            for key, value in (
                ("group.id", self.group_id),
                ("offset.storage.topic", self.offset_storage_topic),
            ):
                if value is None:
                    why = "is required for exactly.once.source.support=enabled"
                    raise ConfigError(key, None, why)


def worker_config(props: Mapping[str, str]) -> WorkerConfig:
    """Return the checked settings of a worker's file.

    Raise ConfigError for a wrong, missing or unknown key, naming the nearest known one. A key of
    KNOWN_UNUSED is logged as a warning.
    """
    known = dict.fromkeys(WORKER_KEYS)
    own = {
        key: value for key, value in props.items() if key in known or not key.startswith(PASSED_ON)
    }
    for warning in check_keys(own, WorkerConfig, known_unused=KNOWN_UNUSED):
        log.warning("%s", warning)
    return from_mapping(WorkerConfig, own, {"props": dict(props)})


def below(props: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Return the keys behind `prefix`, without it."""
    return {
        key.removeprefix(prefix): value for key, value in props.items() if key.startswith(prefix)
    }


WORKER_KEYS: Final = tuple(row.key for row in WorkerConfig.SETTINGS)  # type: ignore[attr-defined]
