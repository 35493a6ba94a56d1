"""Puts the parts of a broker together.

Owns nothing: it makes each part with what the part needs of the others. Starting and ending them
is for `server.py`.
"""

from dataclasses import dataclass, field

from ..client.net.refusals import Refusals
from ..runtime.config import from_mapping
from ..runtime.runtime import Runtime
from .admission.doors import Doors, share_descriptors
from .admission.limits import ConnectionLimits
from .admission.load import Caps, Load
from .api.fetch_sessions import FetchSessions
from .config import BrokerConfig
from .control.auto_creation import AutoCreation
from .control.controller_channel import ActiveController
from .coordinator.group.config import GroupConfig
from .coordinator.groups import Groups
from .coordinator.internal_topics import offsets_topic, transactions_topic
from .coordinator.producer_ids import ProducerIds
from .coordinator.transaction.config import TransactionConfig
from .coordinator.transactions import TransactionParts, Transactions
from .deadlines import Deadlines
from .edge import Edge
from .partitions import Partitions
from .peers import Peers
from .replica.lease import LeaderLease
from .replica.selector import ReplicaSelectorConfig
from .topic_defaults import TopicDefaults
from .whereabouts import Metadata, Whereabouts

NO_BOUND = 1 << 62
PEER_REQUEST_MS = 5_000
"""How long another broker is waited for: it may have stopped, and others lead by then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a broker's edge stands on."""

    runtime: Runtime
    config: BrokerConfig
    file_settings: dict[str, str]
    topic_defaults: TopicDefaults
    deadlines: Deadlines
    metadata: Metadata
    whereabouts: Whereabouts
    controller: ActiveController
    partitions: Partitions
    peers: Peers
    lease: LeaderLease = field(default_factory=LeaderLease)


def make_peers(runtime: Runtime, whereabouts: Whereabouts) -> Peers:
    """The other brokers, as this one asks them."""
    return Peers(runtime, whereabouts.node_id, whereabouts.peer, PEER_REQUEST_MS)


def make_sessions(runtime: Runtime, config: BrokerConfig) -> FetchSessions:
    """The fetch sessions of one broker, none of them open."""
    return FetchSessions(
        runtime.rng.randint,
        slots=config.max_incremental_fetch_session_cache_slots,
        partitions_max=config.max_fetch_session_partitions,
    )


def make_edge(around: Surroundings) -> Edge:
    """The coordinators, the bounds on connections, and the record of what handlers may use."""
    runtime, settings = around.runtime, around.file_settings
    limits = from_mapping(ConnectionLimits, settings)
    group_config = from_mapping(GroupConfig, settings)
    groups = Groups(runtime, around.partitions, around.deadlines, group_config)
    producer_ids = ProducerIds(runtime, around.controller)
    transactions = _make_transactions(around, producer_ids)
    internal = (offsets_topic(group_config), transactions_topic(transactions.config))
    auto_creation = AutoCreation(runtime, around.controller, settings)
    auto_creation.internal |= {topic.name: topic for topic in internal}
    return Edge(
        runtime=runtime,
        deadlines=around.deadlines,
        config=around.config,
        file_settings=settings,
        topic_defaults=around.topic_defaults,
        replica_selector=from_mapping(ReplicaSelectorConfig, settings),
        limits=limits,
        doors=_make_doors(around, limits),
        load=_make_load(around, limits),
        refusals=Refusals(),
        metadata=around.metadata,
        whereabouts=around.whereabouts,
        controller=around.controller,
        auto_creation=auto_creation,
        partitions=around.partitions,
        lease=around.lease,
        groups=groups,
        transactions=transactions,
        producer_ids=producer_ids,
    )


def _make_transactions(around: Surroundings, producer_ids: ProducerIds) -> Transactions:
    metadata = around.metadata
    return Transactions(
        TransactionParts(
            runtime=around.runtime,
            config=from_mapping(TransactionConfig, around.file_settings),
            partitions=around.partitions,
            deadlines=around.deadlines,
            producer_ids=producer_ids,
            peers=around.peers,
            image=lambda: metadata.image,
        )
    )


def _make_doors(around: Surroundings, limits: ConnectionLimits) -> Doors:
    directories = len(around.config.log_dirs)
    return Doors(
        share_descriptors(around.runtime.descriptor_limit(), directories).connections,
        connections_max=limits.max_connections,
        per_host_max=limits.max_connections_per_ip,
    )


def _make_load(around: Surroundings, limits: ConnectionLimits) -> Load:
    runtime, deadlines = around.runtime, around.deadlines
    bound = limits.queued_max_request_bytes
    return Load(
        caps=Caps(
            requests=bound if bound >= 0 else NO_BOUND,
            responses=limits.queued_max_response_bytes,
            frame=around.config.socket_request_max_bytes,
        ),
        stall_ms=limits.connections_max_stall_ms,
        now_ms=runtime.monotonic_ms,
        later=lambda delay_ms, call: deadlines.at(runtime.monotonic_ms() + delay_ms, call),
    )
