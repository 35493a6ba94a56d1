"""The broker's configuration: a table of settings under Kafka's keys, and checks across keys.

These are values only; nothing is opened here. Defaults of topics are in storage's `TopicConfig`.
"""

from ..protocol.control.messages import Endpoint
from ..runtime.config import INT32_MAX, INT64_MAX, MiB, config_table, setting
from ..runtime.errors import ConfigError
from ..runtime.metrics_config import metrics_address, metrics_listener
from ..security.control_settings import control_psk_file, control_security
from ..security.listener import (
    SecurityProtocol,
    inter_broker_name,
    parse_listeners,
    parse_protocols,
    protocol_of,
)
from ..security.tokens import token_secret_key

ANY_ADDRESS = ("0.0.0.0", "::")


@config_table
class BrokerConfig:
    """The settings of one broker, without the defaults of topics and the coordinators' settings."""

    node_id: int = setting(
        "node.id",
        at_least=0,
        at_most=INT32_MAX,
        aliases=("broker.id",),
        doc="The broker's id, which never changes: a data directory belongs to one id.",
    )
    listeners: str = setting(
        "listeners",
        "PLAINTEXT://:9092",
        doc="NAME://host:port,... to listen on; an empty host is every interface, port 0 "
        "any free port.",
    )
    advertised_listeners: str | None = setting(
        "advertised.listeners",
        None,
        doc="NAME://host:port,... by which clients and brokers connect to this broker; if "
        "unset, listeners.",
    )
    inter_broker_listener_name: str | None = setting(
        "inter.broker.listener.name",
        None,
        doc="The listener that brokers use among themselves; if unset, the first one.",
    )
    security_inter_broker_protocol: str | None = setting(
        "security.inter.broker.protocol",
        None,
        doc="The security protocol of which brokers use the listener of that name among "
        "themselves; it cannot be set together with inter.broker.listener.name.",
    )
    listener_security_protocol_map: tuple[str, ...] = setting(
        "listener.security.protocol.map",
        ("PLAINTEXT:PLAINTEXT",),
        doc="NAME:PROTOCOL,... ; a name that is missing here must itself be a protocol.",
    )
    log_dirs: tuple[str, ...] = setting(
        "log.dirs",
        ("/tmp/minikafka-logs",),
        aliases=("log.dir",),
        doc="Directories that store partitions; a new partition goes to the one with the fewest.",
    )
    cluster_id: str | None = setting(
        "cluster.id",
        None,
        doc="The id of the cluster to belong to; if unset, it is taken from the data or "
        "the controller.",
    )
    broker_rack: str | None = setting(
        "broker.rack", None, doc="The broker's rack; replicas of a partition are spread over racks."
    )
    controller_quorum_bootstrap_servers: tuple[str, ...] = setting(
        "controller.quorum.bootstrap.servers",
        (),
        doc="host:port,... of some controllers; the broker learns the others from them.",
    )
    controller_quorum_voters: tuple[str, ...] = setting(
        "controller.quorum.voters",
        (),
        doc="id@host:port,... of the controllers; used if "
        "controller.quorum.bootstrap.servers is unset.",
    )
    controller_listener_names: tuple[str, ...] = setting(
        "controller.listener.names",
        ("CONTROLLER",),
        doc="Listeners of controllers; a broker does not listen on them.",
    )
    broker_heartbeat_interval_ms: int = setting(
        "broker.heartbeat.interval.ms",
        500,
        at_least=10,
        at_most=INT32_MAX,
        doc="The time between heartbeats to the controller.",
    )
    broker_session_timeout_ms: int = setting(
        "broker.session.timeout.ms",
        1800,
        at_least=100,
        at_most=INT32_MAX,
        doc="The controllers' broker.session.timeout.ms. The broker gives up a heartbeat "
        "after a third of it, at least 1 s, and connects to a controller anew.",
    )
    controlled_shutdown_enable: bool = setting(
        "controlled.shutdown.enable",
        True,
        doc="Hand over leadership before stopping; if false, requests fail until the "
        "controller has noticed the stop.",
    )

    auto_create_topics_enable: bool = setting(
        "auto.create.topics.enable",
        True,
        doc="Create a missing topic when a client asks for its metadata; if false, the "
        "client gets an error.",
    )
    delete_topic_enable: bool = setting(
        "delete.topic.enable", True, doc="If false, no client can delete a topic."
    )
    num_partitions: int = setting(
        "num.partitions",
        1,
        at_least=1,
        at_most=10_000,
        doc="The number of partitions of a topic that is created without one.",
    )
    default_replication_factor: int = setting(
        "default.replication.factor",
        3,
        at_least=1,
        at_most=32767,
        doc="The number of replicas of a topic that is created without one; refused if "
        "above the live brokers.",
    )

    replica_lag_time_max_ms: int = setting(
        "replica.lag.time.max.ms",
        30_000,
        at_least=1,
        doc="A follower that has not caught up for this long is removed from the ISR; "
        "until then acks=all waits for it.",
    )
    replica_fetch_max_bytes: int = setting(
        "replica.fetch.max.bytes",
        1 * MiB,
        at_least=0,
        at_most=INT32_MAX,
        doc="The most bytes of one partition in a replica fetch; a larger first batch is "
        "still sent whole.",
    )
    replica_fetch_response_max_bytes: int = setting(
        "replica.fetch.response.max.bytes",
        10 * MiB,
        at_least=0,
        at_most=INT32_MAX,
        doc="The most bytes of a replica fetch in all, which limits a follower's memory "
        "per leader.",
    )
    replica_fetch_min_bytes: int = setting(
        "replica.fetch.min.bytes",
        1,
        at_least=0,
        at_most=INT32_MAX,
        doc="The bytes that a replica fetch waits for; more than 1 delays acks=all.",
    )
    replica_fetch_wait_max_ms: int = setting(
        "replica.fetch.wait.max.ms",
        500,
        at_least=0,
        at_most=INT32_MAX,
        doc="How long a replica fetch waits for data; at most replica.lag.time.max.ms.",
    )
    replica_socket_timeout_ms: int = setting(
        "replica.socket.timeout.ms",
        30_000,
        at_least=1,
        at_most=INT32_MAX,
        doc="How long a follower waits for a leader's answer before it connects again.",
    )
    num_replica_fetchers: int = setting(
        "num.replica.fetchers",
        1,
        at_least=1,
        at_most=1000,
        doc="Connections per leader over which replicas are fetched, each for a share of "
        "the partitions.",
    )
    log_dir_failure_timeout_ms: int = setting(
        "log.dir.failure.timeout.ms",
        30_000,
        at_least=1,
        doc="The broker stops if it cannot report a failed directory to the controller for "
        "this long.",
    )
    replica_high_watermark_checkpoint_interval_ms: int = setting(
        "replica.high.watermark.checkpoint.interval.ms",
        5000,
        at_least=1,
        doc="How often high watermarks are written to disk; the longer, the more a "
        "restarted follower fetches again.",
    )

    log_retention_check_interval_ms: int = setting(
        "log.retention.check.interval.ms",
        300_000,
        at_least=1,
        doc="How often the broker looks for segments to delete by retention.",
    )
    log_flush_scheduler_interval_ms: int = setting(
        "log.flush.scheduler.interval.ms",
        INT64_MAX,
        at_least=1,
        doc="How often logs are checked for records that flush.ms requires to be flushed.",
    )
    log_scrub_interval_ms: int = setting(
        "log.scrub.interval.ms",
        7 * 24 * 60 * 60 * 1000,
        at_least=0,
        doc="How often all closed segments are read from disk and their checksums "
        "verified; 0 means never.",
    )
    log_scrub_bytes_per_second: int = setting(
        "log.scrub.bytes.per.second",
        8 * MiB,
        at_least=1024,
        doc="How fast that check reads; faster finds damage sooner, and leaves less of the "
        "disk's bandwidth.",
    )

    socket_request_max_bytes: int = setting(
        "socket.request.max.bytes",
        100 * MiB,
        at_least=1,
        at_most=INT32_MAX,
        doc="The largest request; the connection of a larger one is closed before it is "
        "read into memory.",
    )
    socket_listen_backlog_size: int = setting(
        "socket.listen.backlog.size",
        1024,
        at_least=1,
        at_most=INT32_MAX,
        doc="The listen backlog; connections of a burst beyond it are delayed by a second.",
    )
    fetch_max_bytes: int = setting(
        "fetch.max.bytes",
        55 * MiB,
        at_least=1024,
        at_most=INT32_MAX,
        doc="The most bytes that any fetch gets; its first batch is always sent whole.",
    )
    max_incremental_fetch_session_cache_slots: int = setting(
        "max.incremental.fetch.session.cache.slots",
        1000,
        at_least=0,
        at_most=INT32_MAX,
        doc="The most fetch sessions; a client without one names every partition in every fetch.",
    )
    max_fetch_session_partitions: int = setting(
        "minikafka.max.fetch.session.partitions",
        200_000,
        at_least=0,
        at_most=INT32_MAX,
        doc="The most partitions in all fetch sessions together; each takes some 300 bytes.",
    )
    request_timeout_ms: int = setting(
        "request.timeout.ms",
        30_000,
        at_least=1,
        at_most=INT32_MAX,
        doc="How long a request to the controller may take.",
    )
    metrics_listener: str | None = metrics_listener()
    control_security: str | None = control_security()
    control_psk_file: str | None = control_psk_file()
    delegation_token_secret_key: str | None = token_secret_key()

    def check(self) -> None:
        """Raise ConfigError if settings contradict each other, or one of them cannot be parsed."""
        inter_broker_listener(self)
        if self.replica_fetch_wait_max_ms > self.replica_lag_time_max_ms:
            why = "must not exceed replica.lag.time.max.ms: an idle follower would leave the ISR"
            raise ConfigError("replica.fetch.wait.max.ms", self.replica_fetch_wait_max_ms, why)
        metrics_address(self.metrics_listener)
        if not controller_addresses(self):
            why = "is required: where is the controller?"
            raise ConfigError("controller.quorum.bootstrap.servers", None, why)


def bound_listeners(config: BrokerConfig) -> tuple[Endpoint, ...]:
    """Return the listeners that the broker opens, without those of controllers.

    Raise ConfigError if there is none, or if two have the same address.
    """
    elsewhere = config.controller_listener_names
    listeners = tuple(
        listener
        for listener in parse_listeners("listeners", config.listeners)
        if listener.name not in elsewhere
    )
    if not listeners:
        raise ConfigError("listeners", config.listeners, "names no listener of a broker")
    ports = [(listener.host, listener.port) for listener in listeners if listener.port]
    if len(dict.fromkeys(ports)) < len(ports):
        raise ConfigError("listeners", config.listeners, "two listeners have one address")
    return _with_protocols(config, listeners)


def advertised_listeners(config: BrokerConfig) -> tuple[Endpoint, ...]:
    """Return the addresses that clients and brokers get; port 0 stands for the bound port.

    Raise ConfigError if an address cannot be reached by others, such as 0.0.0.0.
    """
    key, bound = "advertised.listeners", bound_listeners(config)
    if config.advertised_listeners is None:
        for listener in bound:
            if listener.host in ANY_ADDRESS:
                why = f"is required: nobody can reach {listener.name} at {listener.host}"
                raise ConfigError(key, None, why)
        return bound
    listeners = parse_listeners(key, config.advertised_listeners)
    names = [each.name for each in bound]
    for listener in listeners:
        why = ""
        if listener.host in ("", *ANY_ADDRESS):
            why = f"{listener.name} needs a host that others can reach"
        elif listener.name not in names:
            why = f"listener {listener.name} is advertised but not in listeners"
        if why:
            raise ConfigError(key, config.advertised_listeners, why)
    return _with_protocols(config, listeners)


def _with_protocols(config: BrokerConfig, listeners: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
    """Return the listeners with their security protocols; raise ConfigError if one is unknown."""
    mapped = parse_protocols(config.listener_security_protocol_map)
    return tuple(
        Endpoint(each.name, each.host, each.port, protocol_of(each.name, mapped).value)
        for each in listeners
    )


def inter_broker_listener(config: BrokerConfig) -> str:
    """Return the name of the listener that brokers use among themselves."""
    name, protocol = config.inter_broker_listener_name, config.security_inter_broker_protocol
    return inter_broker_name(name, protocol, advertised_listeners(config))


def names_of_listeners(config: BrokerConfig) -> tuple[str, ...]:
    """Return the names of the listeners that the broker opens."""
    return tuple(each.name for each in bound_listeners(config))


def protected_listener(config: BrokerConfig) -> str | None:
    """Return the name of the inter-broker listener, which has limits of its own.

    Return None if it is the only listener, because clients use it too.
    """
    return inter_broker_listener(config) if len(bound_listeners(config)) > 1 else None


def tls_listeners(config: BrokerConfig) -> tuple[str, ...]:
    """Return the names of the listeners with TLS."""
    return tuple(
        each.name
        for each in bound_listeners(config)
        if SecurityProtocol(each.security_protocol).has_tls
    )


def controller_addresses(config: BrokerConfig) -> tuple[tuple[str, int], ...]:
    """Return the host and port of each controller that the settings name.

    Raise ConfigError if one of them is not host:port.
    """
    key, texts = "controller.quorum.bootstrap.servers", config.controller_quorum_bootstrap_servers
    if not texts:
        key = "controller.quorum.voters"
        texts = tuple(voter.rpartition("@")[2] for voter in config.controller_quorum_voters)
    addresses: list[tuple[str, int]] = []
    for text in texts:
        host, colon, port = text.rpartition(":")
        if not (colon and host and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            raise ConfigError(key, text, "is not host:port")
        addresses.append((host.strip("[]"), int(port)))
    return tuple(addresses)
