"""Makes the parts of a broker and connects them.

Each part gets the other parts that it needs when it is made. A callback may use a part that is made
a few lines later, because no part works before all are made. `server.py` starts and ends the parts.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ..client.net.refusals import Refusals
from ..protocol.control.messages import ROLE_BROKER, Endpoint, RegisterBroker, VersionRange
from ..protocol.control.records import REPLICA_PROOF, SUPPORTED_FEATURES
from ..protocol.errors import ApiError
from ..protocol.types import AUDIT_TOPIC, TRACE_TOPIC
from ..runtime.config import from_mapping
from ..runtime.metrics_config import metrics_address
from ..runtime.metrics_listener import MetricsListener
from ..runtime.runtime import Runtime
from ..security.audit import Audit
from ..security.audit_config import AuditConfig
from ..security.authorizer import Authorizer
from ..security.authorizer_config import AuthorizerConfig
from ..security.client_security import ClientSecurity
from ..security.control_identity import name_of_node
from ..security.control_proof import ControlProof, open_proofs
from ..security.listener import listener_properties
from ..security.quotas import FETCH, PRODUCE, REQUEST, Quotas
from ..security.sasl.settings import SaslConfig
from ..security.tls import ClientTls
from ..security.tls_config import TlsConfig
from ..security.tokens import TokenKey
from ..storage.directory import LogDirectory
from .admission.doors import Doors, share_descriptors
from .admission.entrance import Entrance
from .admission.issuers import Issuers
from .admission.limits import Bounds, ConnectionLimits, bounds_of
from .admission.load import Caps, Load
from .admission.logins import Known, Logins
from .admission.rates import Rates
from .api.fetch_sessions import FetchSessions
from .api.table import make_apis
from .audit.entries import audit_topic
from .audit.feed import AuditFeed, FeedRoom
from .audit.happenings import denied
from .audit.writer import AuditWriter
from .audit.writer import Room as AuditRoom
from .config import (
    BrokerConfig,
    inter_broker_listener,
    names_of_listeners,
    protected_listener,
    tls_listeners,
)
from .control.auto_creation import AutoCreation
from .control.clock_ahead import ClockAhead
from .control.controller_channel import (
    ActiveController,
    ControllerChannel,
    Identity,
    Reports,
)
from .control.metadata_follower import MetadataFollower
from .control.metadata_position import MetadataConfig, MetadataLost, MetadataPosition
from .coordinator.group.config import GroupConfig
from .coordinator.groups import Groups
from .coordinator.internal_topics import offsets_topic, transactions_topic
from .coordinator.keys import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from .coordinator.producer_ids import ProducerIds
from .coordinator.transaction.config import TransactionConfig
from .coordinator.transactions import TransactionParts, Transactions
from .deadlines import Deadlines
from .edge import Edge
from .forward.forwarder import Forwarder
from .forward.permission import writer_of
from .forward.source import Room
from .metrics.collectors import ToldOf, collectors_of
from .metrics.group_lag import GroupLag
from .net.answer import Api
from .net.timing import RequestTimes
from .partition.log_store import LogStore
from .partition.traffic import Traffic
from .partitions import Links, Partitions
from .peers import Peers, Reach
from .publishing import Publishing
from .replica.lease import LeaderLease
from .replica.selector import ReplicaSelectorConfig
from .replication.fetchers import ReplicaFetchers
from .replication.isr_proposals import IsrProposals
from .replication.log_end_reports import LogEndReports
from .replication.lost_replicas import LostReplicas
from .replication.repair import Repairs
from .settings import Settings, sasl_of
from .telemetry.clients import ClientTelemetry
from .telemetry.config import TelemetryConfig
from .topic_defaults import TopicDefaults
from .tracing.config import TraceConfig
from .tracing.tracer import Ground as TraceGround
from .tracing.tracer import Tracer
from .tracing.tracing import Tracing, trace_topic
from .upkeep.compaction import Compaction, CompactionConfig
from .upkeep.moves import Moves
from .upkeep.scrub import Scrub
from .upkeep.upkeep import Upkeep
from .whereabouts import Metadata, Whereabouts

NO_BOUND = 1 << 62
PEER_REQUEST_MS = 5_000
"""Milliseconds to wait for another broker's answer; after so long, another broker may lead."""


@dataclass(frozen=True, slots=True)
class Ground:
    """The parts of a broker that are made first and that all other parts use."""

    runtime: Runtime
    settings: Settings
    defaults: TopicDefaults
    deadlines: Deadlines
    clock: ClockAhead
    keys: ControlProof | None = None
    """The proof of this broker to controllers; None if the control plane is not sealed."""

    @classmethod
    def of(cls, runtime: Runtime, settings: Settings) -> "Ground":
        """Make these parts for one broker.

        Raise ConfigError if a default of topics is not valid, or if the file of a key cannot
        be used.
        """
        config = settings.config
        own = name_of_node(ROLE_BROKER, config.node_id)
        keys = open_proofs(runtime, settings.control, own).shown
        defaults = TopicDefaults(config.node_id, settings.properties)
        return cls(runtime, settings, defaults, Deadlines(runtime), ClockAhead(runtime), keys)


@dataclass(frozen=True, slots=True)
class Alarms:
    """Callbacks for errors that end the process."""

    on_refused: Callable[[ApiError], None]
    """Called if the controller refuses this broker for good, as it is configured."""
    on_metadata_lost: Callable[[MetadataLost], None]
    crash: Callable[[str], None]
    """Called with the reason why the broker cannot continue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Everything that one broker runs."""

    deadlines: Deadlines
    channel: ControllerChannel
    position: MetadataPosition
    follower: MetadataFollower
    partitions: Partitions
    fetchers: ReplicaFetchers
    proposals: IsrProposals
    log_ends: LogEndReports
    lost: LostReplicas
    repairs: Repairs
    upkeep: Upkeep
    scrub: Scrub
    compaction: Compaction
    forwarder: Forwarder
    peers: Peers
    edge: Edge
    apis: Mapping[int, Api]
    told_of: ToldOf
    """The parts that metrics are read from and that are not in `edge`."""
    metrics: MetricsListener | None
    """The listener for scrapes; None if no metrics are served."""


def assemble(
    ground: Ground,
    directories: Sequence[LogDirectory],
    endpoints: tuple[Endpoint, ...],
    alarms: Alarms,
) -> Parts:
    """Make every part of a broker, which clients reach at `endpoints`; start none of them."""
    runtime, config = ground.runtime, ground.settings.config
    store = LogStore(runtime, directories)
    reports = Reports(
        metadata_offset=lambda: follower.image.offset,
        offline_directory_ids=lambda: store.offline_directory_ids,
        on_refused=alarms.on_refused,
    )
    channel = _make_channel(ground, directories, endpoints, reports)
    position = _make_position(ground, store)
    follower = MetadataFollower(
        runtime,
        channel,
        lambda delta, image: publishing.publish(delta, image),
        position,
        alarms.on_metadata_lost,
    )
    whereabouts, reach = _make_reach(ground, follower)
    fetchers = ReplicaFetchers(runtime, config, channel, reach)
    proposals = IsrProposals(runtime, channel, config.node_id)
    log_ends = LogEndReports(runtime, channel, lambda partition: partitions.is_electing(partition))
    lost = LostReplicas(runtime, channel, config.log_dir_failure_timeout_ms, alarms.crash)
    links = Links(
        fetchers=fetchers,
        lease=channel.lease,
        config_of=ground.defaults.config_of,
        broker_value=ground.defaults.broker_value,
        propose=proposals.propose,
        on_electing=log_ends.ask,
        on_directory_failed=lambda directory: _crash_without_any(store, directory, alarms.crash),
        on_replicas_lost=lost.lose,
        traffic=None if config.metrics_listener is None else Traffic(),
    )
    partitions = Partitions(runtime, config, store, ground.deadlines, links)
    repairs = _make_repairs(ground, directories, partitions, reach)
    peers = make_peers(runtime, config.node_id, reach)
    edge = make_edge(
        Surroundings(ground, follower, whereabouts, channel, partitions, peers, channel.lease)
    )
    compaction = _make_compaction(ground, follower, partitions)
    told_of = _make_told_of(edge, proposals, peers)
    publishing = Publishing(partitions, edge, peers, compaction, edge.forwarder)
    return Parts(
        deadlines=ground.deadlines,
        channel=channel,
        position=position,
        follower=follower,
        partitions=partitions,
        fetchers=fetchers,
        proposals=proposals,
        log_ends=log_ends,
        lost=lost,
        repairs=repairs,
        upkeep=_make_upkeep(ground, follower, partitions, position),
        scrub=Scrub(runtime, config, partitions),
        compaction=compaction,
        forwarder=edge.forwarder,
        peers=peers,
        edge=edge,
        apis=make_apis(edge, make_sessions(runtime, config)),
        told_of=told_of,
        metrics=_make_metrics(edge, channel, told_of),
    )


def _make_reach(ground: Ground, metadata: Metadata) -> tuple[Whereabouts, Reach]:
    config = ground.settings.config
    listener = inter_broker_listener(config)
    whereabouts = Whereabouts(metadata, config.node_id, listener)
    return whereabouts, Reach(whereabouts.peer, _make_security(ground, listener))


def _make_security(ground: Ground, listener: str) -> ClientSecurity | None:
    """Return the security of connections to other brokers' `listener`; None for plain text.

    Raise ConfigError if one of its settings is wrong.
    """
    config, properties = ground.settings.config, ground.settings.properties
    sasl = sasl_of(config, properties).get(listener)
    tls = None
    if listener in tls_listeners(config):
        own = from_mapping(TlsConfig, listener_properties(properties, listener))
        tls = ClientTls(ground.runtime, own)
    if sasl is None and tls is None:
        return None
    return ClientSecurity(None if sasl is None else sasl.own, tls)


def _make_channel(
    ground: Ground,
    directories: Sequence[LogDirectory],
    endpoints: tuple[Endpoint, ...],
    reports: Reports,
) -> ControllerChannel:
    config = ground.settings.config
    epochs = {each.clean_broker_epoch for each in directories}
    # A stop was clean only if all directories have the same broker epoch of a clean stop.
    clean = directories[0].clean_broker_epoch if len(epochs) == 1 else None
    registration = RegisterBroker(
        broker_id=config.node_id,
        incarnation_id=ground.runtime.rng.randbytes(16),
        directory_ids=tuple(each.directory_id for each in directories),
        endpoints=endpoints,
        rack=config.broker_rack,
        features={**SUPPORTED_FEATURES, REPLICA_PROOF: VersionRange(1, 1)},
        previous_broker_epoch=-1 if clean is None else clean,
    )
    cluster_id = config.cluster_id or directories[0].cluster_id
    identity = Identity(registration, cluster_id, ground.keys)
    return ControllerChannel(ground.runtime, config, identity, reports, ground.clock)


def _make_position(ground: Ground, store: LogStore) -> MetadataPosition:
    given_up_at = from_mapping(MetadataConfig, ground.settings.properties).given_up_at
    return MetadataPosition(lambda: store.online, given_up_at=given_up_at)


def _crash_without_any(store: LogStore, failed: LogDirectory, crash: Callable[[str], None]) -> None:
    if not store.online:
        crash(f"no log directory is left: {failed.path} failed too")


def _make_upkeep(
    ground: Ground, metadata: Metadata, partitions: Partitions, position: MetadataPosition
) -> Upkeep:
    value_of = ground.defaults.broker_value
    return Upkeep(
        ground.runtime,
        ground.settings.config,
        partitions,
        lambda: value_of(metadata.image, "producer.id.expiration.ms"),
        position.save,
    )


def _make_compaction(ground: Ground, metadata: Metadata, partitions: Partitions) -> Compaction:
    table_of = ground.defaults.table_of
    return Compaction(
        ground.runtime, lambda: table_of(metadata.image, CompactionConfig), partitions
    )


def _make_repairs(
    ground: Ground, directories: Sequence[LogDirectory], partitions: Partitions, reach: Reach
) -> Repairs:
    repairs = Repairs(ground.runtime, ground.settings.config.node_id, partitions.find, reach)
    for directory in directories:
        directory.on_damaged = repairs.on_damaged
    return repairs


def _make_told_of(edge: Edge, proposals: IsrProposals, peers: Peers) -> ToldOf:
    is_served = edge.config.metrics_listener is not None
    times = RequestTimes(edge.runtime.monotonic_us) if is_served else None
    return ToldOf(proposals, GroupLag(edge, peers), times)


def _make_metrics(edge: Edge, channel: ControllerChannel, others: ToldOf) -> MetricsListener | None:
    address = metrics_address(edge.config.metrics_listener)
    if address is None:
        return None
    return MetricsListener(
        edge.runtime,
        address,
        collectors_of(edge, others),
        lambda: channel.lifecycle.why_not_in_service,
    )


# The edge, which is the parts that serve clients.


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The parts that a broker's edge uses."""

    ground: Ground
    metadata: Metadata
    whereabouts: Whereabouts
    controller: ActiveController
    partitions: Partitions
    peers: Peers
    lease: LeaderLease


def make_peers(runtime: Runtime, broker_id: int, reach: Reach) -> Peers:
    """Make the connections over which this broker sends requests to the others."""
    return Peers(runtime, broker_id, reach, PEER_REQUEST_MS)


def make_sessions(runtime: Runtime, config: BrokerConfig) -> FetchSessions:
    """Make the fetch sessions of one broker, of which none is open yet."""
    return FetchSessions(
        runtime.rng.randint,
        slots=config.max_incremental_fetch_session_cache_slots,
        partitions_max=config.max_fetch_session_partitions,
    )


def make_edge(around: Surroundings) -> Edge:
    """Make the coordinators and the limits of connections, and put them into an `Edge`."""
    ground = around.ground
    runtime, deadlines = ground.runtime, ground.deadlines
    config, settings = ground.settings.config, ground.settings.properties
    limits = from_mapping(ConnectionLimits, settings)
    bounds = bounds_of(settings, names_of_listeners(config))
    token_key = TokenKey.of(config.delegation_token_secret_key)
    known = Known(lambda: around.metadata.image, token_key, runtime.wall_ms)
    group_config = from_mapping(GroupConfig, settings)
    groups = Groups(runtime, around.partitions, deadlines, group_config)
    producer_ids = ProducerIds(runtime, around.controller)
    authorizer = _make_authorizer(ground)
    transactions = _make_transactions(around, producer_ids)
    internal = {
        GROUPS_TOPIC: lambda: offsets_topic(group_config),
        TRANSACTIONS_TOPIC: lambda: transactions_topic(transactions.config),
        TRACE_TOPIC: lambda: trace_topic(len(around.whereabouts.live_brokers())),
        AUDIT_TOPIC: lambda: audit_topic(len(around.whereabouts.live_brokers())),
    }
    auto_creation = AutoCreation(runtime, around.controller, settings, internal)
    audit_writer = _make_audit_writer(around, auto_creation)
    audit_feed = _make_audit_feed(around, audit_writer)
    return Edge(
        runtime=runtime,
        deadlines=deadlines,
        config=config,
        file_settings=settings,
        topic_defaults=ground.defaults,
        replica_selector=from_mapping(ReplicaSelectorConfig, settings),
        limits=limits,
        doors=_make_doors(ground, bounds),
        entrance=_make_entrance(ground, bounds),
        load=_make_load(ground, limits),
        refusals=Refusals(),
        authorizer=authorizer,
        logins=_make_logins(ground, known),
        token_key=token_key,
        quotas=Quotas((PRODUCE, FETCH, REQUEST)),
        audit=Audit(
            runtime.monotonic_ms,
            lambda *what: audit_feed.note(denied(*what)),
            lambda: audit_feed.is_on,
        ),
        metadata=around.metadata,
        whereabouts=around.whereabouts,
        controller=around.controller,
        auto_creation=auto_creation,
        partitions=around.partitions,
        moves=Moves(runtime, around.partitions),
        lease=around.lease,
        groups=groups,
        transactions=transactions,
        producer_ids=producer_ids,
        forwarder=_make_forwarder(around, producer_ids, authorizer),
        audit_writer=audit_writer,
        audit_feed=audit_feed,
        tracing=_make_tracing(around, auto_creation),
        telemetry=_make_telemetry(ground),
    )


def _make_authorizer(ground: Ground) -> Authorizer | None:
    config = from_mapping(AuthorizerConfig, ground.settings.properties)
    return None if config.class_name is None else Authorizer(config)


def _make_logins(ground: Ground, known: Known) -> Logins | None:
    config, properties = ground.settings.config, ground.settings.properties
    listeners = sasl_of(config, properties)
    if not listeners:
        return None
    common, runtime = from_mapping(SaslConfig, properties), ground.runtime
    offered = [each for one in listeners.values() for each in one.mechanisms.values()]
    issuers = Issuers(runtime, [each.tokens for each in offered if each.tokens is not None])
    return Logins(common, listeners, known, runtime.rng.randbytes, issuers)


def _make_telemetry(ground: Ground) -> ClientTelemetry | None:
    config, properties = ground.settings.config, ground.settings.properties
    if config.metrics_listener is None:
        return None
    return ClientTelemetry(from_mapping(TelemetryConfig, properties).max_bytes)


def _make_transactions(around: Surroundings, producer_ids: ProducerIds) -> Transactions:
    metadata = around.metadata
    return Transactions(
        TransactionParts(
            runtime=around.ground.runtime,
            config=from_mapping(TransactionConfig, around.ground.settings.properties),
            partitions=around.partitions,
            deadlines=around.ground.deadlines,
            producer_ids=producer_ids,
            peers=around.peers,
            image=lambda: metadata.image,
        )
    )


def _make_forwarder(
    around: Surroundings, producer_ids: ProducerIds, authorizer: Authorizer | None
) -> Forwarder:
    metadata, clock = around.metadata, around.ground.clock
    room = Room(
        runtime=around.ground.runtime,
        deadlines=around.ground.deadlines,
        image=lambda: metadata.image,
        producer_ids=producer_ids,
        write_staged=around.partitions.write_staged,
        is_clock_ahead_by=clock.is_ahead_by,
        may_write_as=partial(writer_of, authorizer),
        send=lambda source: forwarder.send(source),
    )
    forwarder = Forwarder(room, around.partitions, around.peers)
    clock.on_noted = forwarder.on_clock_noted
    return forwarder


def _make_audit_writer(around: Surroundings, auto_creation: AutoCreation) -> AuditWriter:
    ground, metadata = around.ground, around.metadata
    room = AuditRoom(
        runtime=ground.runtime,
        deadlines=ground.deadlines,
        broker_id=ground.settings.config.node_id,
        image=lambda: metadata.image,
        write_staged=around.partitions.write_staged,
        create=lambda: auto_creation.create([AUDIT_TOPIC]),
    )
    return AuditWriter(room, around.partitions)


def _make_audit_feed(around: Surroundings, writer: AuditWriter) -> AuditFeed:
    ground, metadata = around.ground, around.metadata
    is_on = from_mapping(AuditConfig, ground.settings.properties).enable
    broker_id = ground.settings.config.node_id
    room = FeedRoom(ground.runtime, broker_id, lambda: metadata.image)
    return AuditFeed(room, writer, around.peers, is_on=is_on)


def _make_tracing(around: Surroundings, auto_creation: AutoCreation) -> Tracing:
    metadata, peers, partitions = around.metadata, around.peers, around.partitions
    ground, settings = around.ground, around.ground.settings
    tracing = Tracing(
        TraceGround(
            ground.runtime, ground.deadlines, settings.config.node_id, lambda: metadata.image
        ),
        lambda broker_id, request: peers.ask(broker_id, request, lane="trace"),
    )

    def install(tracer: Tracer | None) -> None:
        partitions.host.tracer = tracer

    tracing.install = install
    tracing.create = lambda: auto_creation.create([TRACE_TOPIC])
    partitions.on_role_changed.append(tracing.on_role_changed)
    tracing.on_config(from_mapping(TraceConfig, settings.properties))
    return tracing


def _make_doors(ground: Ground, bounds: Bounds) -> Doors:
    config = ground.settings.config
    budget = share_descriptors(ground.runtime.descriptor_limit(), len(config.log_dirs))
    return Doors(budget.connections, bounds, protected_listener(config))


def _make_entrance(ground: Ground, bounds: Bounds) -> Entrance:
    rates = Rates(protected_listener(ground.settings.config))
    entrance = Entrance(rates, ground.runtime.monotonic_ms, ground.deadlines.after)
    entrance.bound(bounds)
    return entrance


def _make_load(ground: Ground, limits: ConnectionLimits) -> Load:
    bound = limits.queued_max_request_bytes
    return Load(
        caps=Caps(
            requests=bound if bound >= 0 else NO_BOUND,
            responses=limits.queued_max_response_bytes,
            frame=ground.settings.config.socket_request_max_bytes,
        ),
        stall_ms=limits.connections_max_stall_ms,
        now_ms=ground.runtime.monotonic_ms,
        later=ground.deadlines.after,
    )
