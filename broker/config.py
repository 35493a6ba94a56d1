"""The broker's configuration: a table of settings under Kafka's keys, and checks across keys.

These are values only; nothing is opened here. Defaults of topics are in storage's `TopicConfig`.
"""

from ..protocol.control.messages import Endpoint
from ..runtime.config import INT32_MAX, INT64_MAX, MiB, config_table, setting
from ..runtime.errors import ConfigError
from ..runtime.metrics_config import metrics_address, metrics_listener

SECURITY_PROTOCOLS = ("PLAINTEXT",)
ANY_ADDRESS = ("0.0.0.0", "::")


@config_table
class BrokerConfig:
    """The settings of one broker, without the defaults of topics and the coordinators' settings."""

    node_id: int = setting(
        "node.id",
        at_least=0,
        at_most=INT32_MAX,
        aliases=("broker.id",),
        doc="Names the broker in the cluster for ever; a data directory belongs to one id.",
    )
    listeners: str = setting(
        "listeners",
        "PLAINTEXT://:9092",
        doc="NAME://host:port,... to listen on; an empty host is every interface, port 0 any.",
    )
    advertised_listeners: str | None = setting(
        "advertised.listeners",
        None,
        doc="NAME://host:port,... told to clients and brokers; where unset, listeners is told.",
    )
    inter_broker_listener_name: str | None = setting(
        "inter.broker.listener.name",
        None,
        doc="The listener brokers use among themselves; where unset, the first one.",
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
        doc="Where partitions are stored; a new one goes to the directory with the fewest.",
    )
    cluster_id: str | None = setting(
        "cluster.id",
        None,
        doc="The cluster to belong to; where unset, the one the data or the controller names.",
    )
    broker_rack: str | None = setting(
        "broker.rack", None, doc="Replicas of a partition are spread over racks."
    )
    controller_quorum_bootstrap_servers: tuple[str, ...] = setting(
        "controller.quorum.bootstrap.servers",
        (),
        doc="host:port,... of controllers to begin with.",
    )
    controller_quorum_voters: tuple[str, ...] = setting(
        "controller.quorum.voters",
        (),
        doc="id@host:port,... of controllers; used where bootstrap.servers is unset.",
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
        doc="How often the controller hears of this broker; longer is cheaper and fences later.",
    )
    broker_session_timeout_ms: int = setting(
        "broker.session.timeout.ms",
        1800,
        at_least=100,
        at_most=INT32_MAX,
        doc="The controller's patience; a controller silent for as long is given up.",
    )
    controlled_shutdown_enable: bool = setting(
        "controlled.shutdown.enable",
        True,
        doc="Hand over leadership before stopping; off, clients notice the stop by failing.",
    )

    auto_create_topics_enable: bool = setting(
        "auto.create.topics.enable",
        True,
        doc="Create a topic that a client asks for; off, a misspelt name is an error.",
    )
    delete_topic_enable: bool = setting(
        "delete.topic.enable", True, doc="Off, no client can delete a topic."
    )
    num_partitions: int = setting(
        "num.partitions",
        1,
        at_least=1,
        at_most=10_000,
        doc="Partitions of a topic created without a number.",
    )
    default_replication_factor: int = setting(
        "default.replication.factor",
        3,
        at_least=1,
        at_most=32767,
        doc="Replicas of a topic created without a number; more than live brokers is refused.",
    )

    replica_lag_time_max_ms: int = setting(
        "replica.lag.time.max.ms",
        30_000,
        at_least=1,
        doc="A follower this long behind leaves the ISR; until then acks=all waits for it.",
    )
    replica_fetch_max_bytes: int = setting(
        "replica.fetch.max.bytes",
        1 * MiB,
        at_least=0,
        at_most=INT32_MAX,
        doc="Bytes of one partition per replica fetch; a larger batch still goes whole.",
    )
    replica_fetch_response_max_bytes: int = setting(
        "replica.fetch.response.max.bytes",
        10 * MiB,
        at_least=0,
        at_most=INT32_MAX,
        doc="Bytes per replica fetch in all; bounds a follower's memory per leader.",
    )
    replica_fetch_min_bytes: int = setting(
        "replica.fetch.min.bytes",
        1,
        at_least=0,
        at_most=INT32_MAX,
        doc="Bytes a replica fetch waits for; more than 1 delays acks=all.",
    )
    replica_fetch_wait_max_ms: int = setting(
        "replica.fetch.wait.max.ms",
        500,
        at_least=0,
        at_most=INT32_MAX,
        doc="How long a replica fetch waits; must not exceed replica.lag.time.max.ms.",
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
        doc="Connections to fetch over per leader; more share out many busy partitions.",
    )
    leader_replication_throttled_rate: int = setting(
        "leader.replication.throttled.rate",
        INT64_MAX,
        at_least=0,
        dynamic=True,
        doc="Bytes a second to followers that are not in sync, of replicas marked as throttled.",
    )
    follower_replication_throttled_rate: int = setting(
        "follower.replication.throttled.rate",
        INT64_MAX,
        at_least=0,
        dynamic=True,
        doc="Bytes a second fetched while not in sync, by replicas marked as throttled.",
    )
    log_dir_failure_timeout_ms: int = setting(
        "log.dir.failure.timeout.ms",
        30_000,
        at_least=1,
        doc="A broker that cannot tell of its failed directory for so long stops.",
    )
    replica_high_watermark_checkpoint_interval_ms: int = setting(
        "replica.high.watermark.checkpoint.interval.ms",
        5000,
        at_least=1,
        doc="How often high watermarks reach the disk; older ones cost a restart some fetching.",
    )

    log_retention_check_interval_ms: int = setting(
        "log.retention.check.interval.ms",
        300_000,
        at_least=1,
        doc="How often old segments are looked for.",
    )
    log_flush_scheduler_interval_ms: int = setting(
        "log.flush.scheduler.interval.ms",
        INT64_MAX,
        at_least=1,
        doc="How often logs are looked through for what flush.ms wants flushed.",
    )
    log_scrub_interval_ms: int = setting(
        "log.scrub.interval.ms",
        7 * 24 * 60 * 60 * 1000,
        at_least=0,
        doc="How often all complete segments are read from disk and checked for rot; 0: never.",
    )
    log_scrub_bytes_per_second: int = setting(
        "log.scrub.bytes.per.second",
        8 * MiB,
        at_least=1024,
        doc="How fast the scrub reads; faster finds rot sooner and leaves others less of the disk.",
    )

    socket_request_max_bytes: int = setting(
        "socket.request.max.bytes",
        100 * MiB,
        at_least=1,
        at_most=INT32_MAX,
        doc="A larger request closes its connection, before any memory is spent on it.",
    )
    socket_listen_backlog_size: int = setting(
        "socket.listen.backlog.size",
        1024,
        at_least=1,
        at_most=INT32_MAX,
        doc="Connections the system accepts ahead of us; a burst beyond it waits a second.",
    )
    fetch_max_bytes: int = setting(
        "fetch.max.bytes",
        55 * MiB,
        at_least=1024,
        at_most=INT32_MAX,
        doc="Most bytes one fetch gets, whatever it asked for; one batch always goes whole.",
    )
    max_incremental_fetch_session_cache_slots: int = setting(
        "max.incremental.fetch.session.cache.slots",
        1000,
        at_least=0,
        at_most=INT32_MAX,
        doc="Fetch sessions remembered; others send every partition in every fetch.",
    )
    max_fetch_session_partitions: int = setting(
        "minikafka.max.fetch.session.partitions",
        200_000,
        at_least=0,
        at_most=INT32_MAX,
        doc="Partitions remembered in all fetch sessions together, some 300 bytes each.",
    )
    request_timeout_ms: int = setting(
        "request.timeout.ms",
        30_000,
        at_least=1,
        at_most=INT32_MAX,
        doc="How long a request to the controller may take.",
    )
    metrics_listener: str | None = metrics_listener()

    def check(self) -> None:
        """Raise ConfigError if settings contradict each other, or one of them cannot be parsed."""
        bound = bound_listeners(self)
        told = advertised_listeners(self)
        names = {listener.name: None for listener in bound}
        for listener in told:
            if listener.name not in names:
                why = f"listener {listener.name} is advertised but not in listeners"
                raise ConfigError("advertised.listeners", self.advertised_listeners, why)
        inter = self.inter_broker_listener_name
        if inter is not None and inter not in {listener.name: None for listener in told}:
            raise ConfigError("inter.broker.listener.name", inter, "is not an advertised listener")
        for listener in bound:
            security_protocol_of(self, listener.name)
        if self.replica_fetch_wait_max_ms > self.replica_lag_time_max_ms:
            why = "must not exceed replica.lag.time.max.ms: an idle follower would leave the ISR"
            raise ConfigError("replica.fetch.wait.max.ms", self.replica_fetch_wait_max_ms, why)
        metrics_address(self.metrics_listener)
        if not controller_addresses(self):
            why = "is required: where is the controller?"
            raise ConfigError("controller.quorum.bootstrap.servers", None, why)


def parse_listeners(key: str, text: str) -> tuple[Endpoint, ...]:
    """Parse NAME://host:port,... ; an empty host means every interface, and names must differ."""
    listeners: list[Endpoint] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, separator, address = part.partition("://")
        host, colon, port = address.rpartition(":")
        if not (separator and colon and name and port.isascii() and port.isdigit()):
            raise ConfigError(key, text, f"{part!r} is not NAME://host:port")
        if int(port) > 65535:
            raise ConfigError(key, text, f"there is no port {port}")
        if any(name.upper() == other.name for other in listeners):
            raise ConfigError(key, text, f"listener {name.upper()} is named twice")
        listeners.append(Endpoint(name.upper(), host.strip("[]"), int(port)))
    if not listeners:
        raise ConfigError(key, text, "names no listener")
    return tuple(listeners)


def bound_listeners(config: BrokerConfig) -> tuple[Endpoint, ...]:
    """Return the listeners that the broker opens, without those of controllers."""
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
    return listeners


def advertised_listeners(config: BrokerConfig) -> tuple[Endpoint, ...]:
    """Return the addresses that clients and brokers get; port 0 stands for the bound port."""
    key = "advertised.listeners"
    if config.advertised_listeners is None:
        bound = bound_listeners(config)
        for listener in bound:
            if listener.host in ANY_ADDRESS:
                why = f"is required: nobody can reach {listener.name} at {listener.host}"
                raise ConfigError(key, None, why)
        return bound
    listeners = parse_listeners(key, config.advertised_listeners)
    for listener in listeners:
        if listener.host in ("", *ANY_ADDRESS):
            why = f"{listener.name} needs a host that others can reach"
            raise ConfigError(key, config.advertised_listeners, why)
    return listeners


def inter_broker_listener(config: BrokerConfig) -> str:
    """Return the name of the listener that brokers use among themselves."""
    return config.inter_broker_listener_name or advertised_listeners(config)[0].name


def security_protocol_of(config: BrokerConfig, name: str) -> str:
    """Return the security protocol of a listener; ConfigError if it is not supported."""
    key = "listener.security.protocol.map"
    mapped: dict[str, str] = {}
    for pair in config.listener_security_protocol_map:
        listener, colon, protocol = pair.partition(":")
        if not colon:
            raise ConfigError(key, pair, "is not NAME:PROTOCOL")
        mapped[listener.strip().upper()] = protocol.strip().upper()
    protocol = mapped.get(name, name)
    if protocol not in SECURITY_PROTOCOLS:
        raise ConfigError(key, protocol, f"listener {name}: only PLAINTEXT is spoken")
    return protocol


def controller_addresses(config: BrokerConfig) -> tuple[tuple[str, int], ...]:
    """Return the host and port of each controller that the settings name."""
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
