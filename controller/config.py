"""The controller's configuration: a table of Kafka's keys and our own, and checks that span keys.

This module opens nothing. A file may be shared with brokers: their keys are known here too, and
have no effect on a controller.
"""

from collections.abc import Mapping
from typing import Final

from ..protocol.audit import AUDIT_ENABLE, AUDIT_REQUIRED
from ..protocol.control.messages import Endpoint
from ..protocol.control.quorum_messages import VoterKey
from ..protocol.types import uuid_from_text
from ..runtime.config import (
    INT32_MAX,
    PORT_MAX,
    MiB,
    check_keys,
    config_table,
    from_mapping,
    part,
    setting,
)
from ..runtime.errors import ConfigError
from ..runtime.kafka_keys import KNOWN_UNUSED
from ..runtime.metrics_config import metrics_address, metrics_listener
from ..security.audit_config import AuditConfig
from ..security.authorizer_config import AuthorizerConfig
from ..security.control_settings import (
    ControlSettings,
    ControlTlsConfig,
    control_psk_file,
    control_security,
)
from ..security.listener import OF_LISTENER
from ..security.tokens import TokenKey, TokenPolicy, token_secret_key
from .broker_keys import BROKER_KEYS
from .metadata.decision import MIN_ISR, UNCLEAN_ELECTION, Defaults
from .quorum.voters import QuorumSettings

DAY_MS: Final = 86_400_000


@config_table
class ControllerConfig:
    """The settings of one controller, and the cluster-wide defaults that it decides by."""

    node_id: int = setting(
        "node.id",
        at_least=0,
        at_most=INT32_MAX,
        doc="The controller's id in the quorum. It never changes: the data belong to one id.",
    )
    listeners: str = setting(
        "listeners",
        "CONTROLLER://:9093",
        doc="NAME://host:port to listen on, TCP and UDP; an empty host is every interface.",
    )
    controller_listener_names: tuple[str, ...] = setting(
        "controller.listener.names",
        ("CONTROLLER",),
        doc="Which of the listeners are the controller's.",
    )
    log_dirs: tuple[str, ...] = setting(
        "log.dirs",
        ("/tmp/minikafka-controller",),
        aliases=("log.dir",),
        doc="The first holds the metadata log unless metadata.log.dir is set.",
    )
    metadata_log_dir: str | None = setting(
        "metadata.log.dir", None, doc="Where the metadata log and its snapshots are kept."
    )
    cluster_id: str | None = setting(
        "cluster.id",
        None,
        doc="The id of a new cluster; random if unset. It never changes afterwards.",
    )
    controller_quorum_voters: tuple[str, ...] = setting(
        "controller.quorum.voters", (), doc="id@host:port,... of the controllers."
    )
    controller_quorum_election_timeout_ms: int = setting(
        "controller.quorum.election.timeout.ms",
        300,
        at_least=10,
        at_most=INT32_MAX,
        doc="How long a candidate waits for votes before it tries again; a random wait of "
        "up to as long is added.",
    )
    controller_quorum_fetch_timeout_ms: int = setting(
        "controller.quorum.fetch.timeout.ms",
        500,
        at_least=20,
        at_most=INT32_MAX,
        doc="A leader silent for this long is replaced; one from which no majority fetches for 1.5"
        " times as long resigns. A process that ends is noticed at once.",
    )
    controller_quorum_readmitted_voters: tuple[str, ...] = setting(
        "controller.quorum.readmitted.voters",
        (),
        doc="id:directory-id,... of voters whose disk was replaced and which may vote again from"
        " the new one: set it on every other controller and restart them one by one.",
    )
    controller_quorum_bootstrap_servers: tuple[str, ...] = setting(
        "controller.quorum.bootstrap.servers", (), doc="host:port,... of controllers."
    )
    broker_session_timeout_ms: int = setting(
        "broker.session.timeout.ms",
        1800,
        at_least=100,
        at_most=INT32_MAX,
        doc="A broker silent for this long is fenced. If shorter, failover is faster, but a slow"
        " broker may be fenced too.",
    )
    leader_lease_enable: bool = setting(
        "leader.lease.enable",
        False,
        doc="A leader that hears from no controller for broker.session.timeout.ms refuses reads and"
        " writes with acks 0 and 1.",
    )
    unclean_leader_election_enable: bool = setting(
        "unclean.leader.election.enable",
        False,
        dynamic=True,
        doc="If true, a replica that lacks acknowledged records may lead when no other can.",
    )
    default_replication_factor: int = setting(
        "default.replication.factor",
        3,
        at_least=1,
        at_most=32767,
        doc="Replicas of a topic created without a number; refused if above the live brokers.",
    )
    min_insync_replicas: int = setting(
        "min.insync.replicas",
        2,
        at_least=1,
        at_most=INT32_MAX,
        dynamic=True,
        doc="min.insync.replicas of topics that do not set it.",
    )
    num_partitions: int = setting(
        "num.partitions",
        1,
        at_least=1,
        at_most=10_000,
        doc="Partitions of a topic created without a number.",
    )
    delete_topic_enable: bool = setting(
        "delete.topic.enable", True, doc="If false, no client can delete a topic."
    )
    auto_leader_rebalance_enable: bool = setting(
        "auto.leader.rebalance.enable",
        True,
        doc="Elect preferred leaders again automatically once they are back in sync.",
    )
    leader_imbalance_check_interval_seconds: int = setting(
        "leader.imbalance.check.interval.seconds",
        300,
        at_least=1,
        at_most=INT32_MAX,
        doc="Seconds between the checks for auto.leader.rebalance.enable.",
    )
    leader_imbalance_per_broker_percentage: int = setting(
        "leader.imbalance.per.broker.percentage",
        10,
        at_least=0,
        at_most=100,
        doc="Leaders are moved back to a broker that lacks more than this percentage of the"
        " partitions that it is the preferred leader of.",
    )
    snapshot_interval_bytes: int = setting(
        "metadata.log.max.record.bytes.between.snapshots",
        20 * MiB,
        at_least=1,
        doc="A snapshot is written after so many bytes of log. With larger values "
        "snapshots cost less and starts are slower.",
    )
    metadata_log_cut_at: int = setting(
        "minikafka.metadata.log.cut.at",
        -1,
        at_least=-1,
        doc="Gives up the records of a sole controller's damaged metadata log from this offset on,"
        " which the controller names when it refuses to start. It has no effect on any other log.",
    )
    metrics_listener: str | None = metrics_listener()
    control_security: str | None = control_security()
    control_psk_file: str | None = control_psk_file()
    control_tls: ControlTlsConfig = part(ControlTlsConfig)
    authorizer: AuthorizerConfig = part(AuthorizerConfig)
    audit: AuditConfig = part(AuditConfig)
    delegation_token_secret_key: str | None = token_secret_key()
    delegation_token_max_lifetime_ms: int = setting(
        "delegation.token.max.lifetime.ms",
        7 * DAY_MS,
        at_least=1,
        at_most=36_500 * DAY_MS,
        doc="The longest life of a delegation token, beyond which it cannot be renewed.",
    )
    delegation_token_expiry_time_ms: int = setting(
        "delegation.token.expiry.time.ms",
        DAY_MS,
        at_least=1,
        at_most=36_500 * DAY_MS,
        doc="How long a delegation token is good before it must be renewed.",
    )
    delegation_token_expiry_check_interval_ms: int = setting(
        "delegation.token.expiry.check.interval.ms",
        3_600_000,
        at_least=1,
        at_most=36_500 * DAY_MS,
        doc="How often expired delegation tokens are removed. Nobody can log in by them before.",
    )

    def check(self) -> None:
        """Raise ConfigError if the settings contradict each other or are malformed."""
        listener_of(self)
        metrics_address(self.metrics_listener)
        voters = [voter.partition("@")[0] for voter in self.controller_quorum_voters]
        if voters and str(self.node_id) not in voters:
            why = f"this controller's node.id={self.node_id} is not among them"
            raise ConfigError(
                "controller.quorum.voters", ",".join(self.controller_quorum_voters), why
            )
        quorum_of(self, bytes(16))

    @property
    def control(self) -> ControlSettings:
        """The settings of the control plane's security."""
        return ControlSettings(self.control_security, self.control_psk_file, self.control_tls)

    @property
    def directory(self) -> str:
        """The directory that holds all of the controller's files."""
        return (self.metadata_log_dir or self.log_dirs[0]).rstrip("/") or "/"

    @property
    def leader_lease_ms(self) -> int:
        """Milliseconds that a broker may act as a leader without an answer from a controller.

        It is 0 if there is no limit.
        """
        return self.broker_session_timeout_ms if self.leader_lease_enable else 0

    @property
    def token_policy(self) -> TokenPolicy | None:
        """The rules by which delegation tokens are made; None if tokens are off."""
        key = TokenKey.of(self.delegation_token_secret_key)
        if key is None:
            return None
        lifetime_max_ms = self.delegation_token_max_lifetime_ms
        return TokenPolicy(key, lifetime_max_ms, self.delegation_token_expiry_time_ms)

    @property
    def defaults(self) -> Defaults:
        """The values that decisions use if the metadata sets none."""
        return Defaults(
            partition_count=self.num_partitions,
            replication_factor=self.default_replication_factor,
            topic_deletion=self.delete_topic_enable,
            topic_settings={
                UNCLEAN_ELECTION: "true" if self.unclean_leader_election_enable else "false",
                MIN_ISR: str(self.min_insync_replicas),
            },
            switches={AUDIT_ENABLE: self.audit.enable, AUDIT_REQUIRED: self.audit.required},
        )


def listener_of(config: ControllerConfig) -> Endpoint:
    """Return the controller's listener; an empty host stands for all interfaces.

    Raise ConfigError if the configuration names none that is valid.
    """
    for text in config.listeners.split(","):
        name, separator, address = text.strip().partition("://")
        if separator and name not in config.controller_listener_names:
            continue
        host, colon, port = address.rpartition(":")
        if not (separator and colon and port.isdecimal() and int(port) <= PORT_MAX):
            raise ConfigError("listeners", text, "must be NAME://host:port")
        return Endpoint(name, host.strip("[]"), int(port))
    names = ",".join(config.controller_listener_names)
    why = f"none of controller.listener.names={names} is among them"
    raise ConfigError("listeners", config.listeners, why)


def quorum_of(
    config: ControllerConfig, directory_id: bytes
) -> tuple[QuorumSettings, dict[int, Endpoint]]:
    """Return the quorum's members and their addresses; raise ConfigError if they are malformed."""
    key, texts = "controller.quorum.voters", config.controller_quorum_voters
    name = listener_of(config).name
    endpoints: dict[int, Endpoint] = {}
    for text in texts:
        node_id, at, address = text.partition("@")
        host, colon, port = address.rpartition(":")
        if not (node_id.isdecimal() and at and host and colon and port.isdecimal()):
            raise ConfigError(key, text, "must be id@host:port")
        if int(node_id) in endpoints:
            raise ConfigError(key, text, f"voter {node_id} is named twice")
        endpoints[int(node_id)] = Endpoint(name, host.strip("[]"), int(port))
    settings = QuorumSettings(
        me=VoterKey(config.node_id, directory_id),
        voters=tuple(sorted(endpoints)) or (config.node_id,),
        readmitted=_readmitted(config, endpoints),
        election_timeout_ms=config.controller_quorum_election_timeout_ms,
        fetch_timeout_ms=config.controller_quorum_fetch_timeout_ms,
    )
    return settings, endpoints


def _readmitted(config: ControllerConfig, voters: Mapping[int, Endpoint]) -> tuple[VoterKey, ...]:
    key, keys = "controller.quorum.readmitted.voters", list[VoterKey]()
    for text in config.controller_quorum_readmitted_voters:
        node_id, colon, directory = text.partition(":")
        if not (colon and node_id.isdecimal() and int(node_id) in voters):
            raise ConfigError(key, text, "must be id:directory-id of a voter")
        try:
            keys.append(VoterKey(int(node_id), uuid_from_text(directory)))
        except ValueError as error:
            raise ConfigError(key, text, str(error)) from error
    return tuple(keys)


def read_config(properties: Mapping[str, str]) -> tuple[ControllerConfig, list[str]]:
    """Parse the configuration; return it with warnings about keys that have no effect."""
    known = {
        key: value
        for key, value in properties.items()
        if key not in BROKER_KEYS and not key.startswith(OF_LISTENER)
    }
    warnings = check_keys(known, ControllerConfig, known_unused=KNOWN_UNUSED)
    return from_mapping(ControllerConfig, properties), warnings
