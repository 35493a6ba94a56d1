"""What the APIs of a broker may touch: the one argument that every handler gets through its call.

Owns the list of open connections and the small questions that many APIs ask (where is a broker
reached, who leads a partition, what does the image say). Opens no socket, decides no role.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..client.net.refusals import Refusals
from ..protocol.control.image import BrokerRegistration, Delta, MetadataImage
from ..protocol.control.messages import Endpoint
from ..runtime.config import from_mapping
from ..runtime.runtime import Runtime
from .config import BrokerConfig, inter_broker_listener
from .control.auto_creation import AutoCreation
from .control.controller_channel import ActiveController
from .coordinator.group.config import GroupConfig
from .coordinator.groups import Groups
from .coordinator.internal_topics import offsets_topic, transactions_topic
from .coordinator.producer_ids import ProducerIds
from .coordinator.transaction.config import TransactionConfig
from .coordinator.transactions import TransactionParts, Transactions
from .deadlines import Deadlines
from .fetch_sessions import FetchSessions
from .net.doors import Doors, share_descriptors
from .net.limits import ConnectionLimits
from .net.load import Caps, Load
from .partitions import Partitions
from .peers import Peers
from .replica.lease import LeaderLease
from .replica.selector import ReplicaSelectorConfig
from .topic_defaults import TopicDefaults

if TYPE_CHECKING:
    from .net.connection import Connection

NO_BOUND = 1 << 62
PEER_REQUEST_MS = 5_000
"""How long another broker is waited for: it may have stopped, and others lead by then."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The parts that a broker is put together from, as far as its edge needs them."""

    runtime: Runtime
    config: BrokerConfig
    partitions: Partitions
    deadlines: Deadlines
    controller: ActiveController
    image: Callable[[], MetadataImage]
    """The newest metadata; ask again after every await."""
    topic_defaults: TopicDefaults
    file_settings: dict[str, str]
    """What the properties file and the overrides said, for DescribeConfigs."""
    lease: LeaderLease = field(default_factory=LeaderLease)


class Edge:
    """A broker as its APIs see it."""

    def __init__(self, parts: Surroundings) -> None:
        config = parts.config
        self.runtime = parts.runtime
        self.config = config
        self.partitions = parts.partitions
        self.deadlines = parts.deadlines
        self.controller = parts.controller
        self.file_settings = parts.file_settings
        self.node_id = config.node_id
        self.inter_broker_listener = inter_broker_listener(config)
        self.lease = parts.lease
        self.sessions = FetchSessions(
            parts.runtime.rng.randint,
            slots=config.max_incremental_fetch_session_cache_slots,
            partitions_max=config.max_fetch_session_partitions,
        )
        self.refusals = Refusals()
        self.auto_creation = AutoCreation(parts.runtime, parts.controller, parts.file_settings)
        group_config = from_mapping(GroupConfig, parts.file_settings)
        self.groups = Groups(parts.runtime, parts.partitions, parts.deadlines, group_config)
        self.producer_ids = ProducerIds(parts.runtime, parts.controller)
        self.peers = Peers(parts.runtime, config.node_id, self._dial, PEER_REQUEST_MS)
        self.transactions = self._make_transactions(parts)
        for topic in (offsets_topic(group_config), transactions_topic(self.transactions.config)):
            self.auto_creation.internal[topic.name] = topic
        self.topic_defaults = parts.topic_defaults
        self.replica_selector = from_mapping(ReplicaSelectorConfig, parts.file_settings)
        self.limits = limits = from_mapping(ConnectionLimits, parts.file_settings)
        bound = limits.queued_max_request_bytes
        self.load = Load(
            caps=Caps(
                requests=bound if bound >= 0 else NO_BOUND,
                responses=limits.queued_max_response_bytes,
                frame=config.socket_request_max_bytes,
            ),
            stall_ms=limits.connections_max_stall_ms,
            now_ms=parts.runtime.monotonic_ms,
            later=self._later,
        )
        budget = share_descriptors(parts.runtime.descriptor_limit(), len(config.log_dirs))
        self._places = budget.connections
        self.doors: Doors[Connection] = Doors(
            connections_max=min(limits.max_connections, self._places),
            per_host_max=limits.max_connections_per_ip,
        )
        self._is_stopping = False
        self._image = parts.image

    def _make_transactions(self, parts: Surroundings) -> Transactions:
        return Transactions(
            TransactionParts(
                runtime=parts.runtime,
                config=from_mapping(TransactionConfig, parts.file_settings),
                partitions=parts.partitions,
                deadlines=parts.deadlines,
                producer_ids=self.producer_ids,
                peers=self.peers,
                image=parts.image,
            )
        )

    @property
    def image(self) -> MetadataImage:
        """The newest metadata."""
        return self._image()

    def on_metadata(self, delta: Delta) -> None:
        """The partitions here know of it already."""
        if delta.changed_partitions or delta.is_snapshot:
            self.transactions.sender.retry_now()
        if delta.changed_brokers or delta.is_snapshot:
            self.peers.on_brokers_changed(sorted(self.image.brokers))
        if delta.touches_broker_settings:
            value_of = self.topic_defaults.broker_value
            places = value_of(self.image, "max.connections")
            self.doors.connections_max = min(places, self._places)
            self.doors.per_host_max = value_of(self.image, "max.connections.per.ip")

    @property
    def connections(self) -> "dict[Connection, None]":
        """Those that are open."""
        return self.doors.connections

    def _later(self, delay_ms: int, call: Callable[[], None]) -> None:
        self.deadlines.at(self.runtime.monotonic_ms() + delay_ms, call)

    # Connections.

    def admit(self, connection: "Connection") -> str | None:
        """Take a new connection in, or say why not."""
        if self._is_stopping:
            return "the broker stops"
        return self.doors.admit(connection)

    def release(self, connection: "Connection") -> None:
        """The connection is closed."""
        self.doors.release(connection)

    def say_closed(self, peer: str, why: str) -> None:
        """Log it, unless the log is full of the like."""
        self.refusals.close(peer, why, self.runtime.monotonic_ms())

    def close_connections(self) -> None:
        """The broker stops. One that was accepted and is not yet made will not be admitted."""
        self._is_stopping = True
        for connection in list(self.connections):
            connection.close()

    def holds_lease(self) -> bool:
        """May answers go out that rest on our being the leader?"""
        return self.lease.is_held(self.runtime.monotonic_ms())

    # Who is where.

    def live_brokers(self) -> list[BrokerRegistration]:
        """Brokers that clients may be sent to, by id."""
        brokers = self.image.brokers
        return [brokers[each] for each in sorted(brokers) if not brokers[each].fenced]

    def endpoint(self, broker_id: int, listener: str) -> tuple[Endpoint, str | None] | None:
        """Where a live broker is reached by clients of `listener`, and its rack."""
        broker = self.image.brokers.get(broker_id)
        if broker is None or broker.fenced:
            return None
        endpoint = broker.endpoint(listener)
        return None if endpoint is None else (endpoint, broker.rack)

    def _dial(self, broker_id: int) -> Endpoint | None:
        """Where this broker dials another one, fenced or not."""
        broker = self.image.brokers.get(broker_id)
        return None if broker is None else broker.endpoint(self.inter_broker_listener)

    def leader_of(self, topic_id: bytes, index: int) -> tuple[int, int]:
        """Leader id and epoch of a partition as the metadata has it; -1, -1 if unknown."""
        state = self.image.partition(topic_id, index)
        return (-1, -1) if state is None else (state.leader, state.leader_epoch)

    def controller_id(self) -> int:
        """The broker that clients send admin requests to: any live one will do, so this one."""
        brokers = self.live_brokers()
        if any(broker.broker_id == self.node_id for broker in brokers):
            return self.node_id
        return brokers[0].broker_id if brokers else -1


def replicas_offline(image: MetadataImage, replicas: Sequence[int]) -> list[int]:
    """Those of `replicas` whose broker is fenced or unknown."""
    return [
        broker_id
        for broker_id in replicas
        if (broker := image.brokers.get(broker_id)) is None or broker.fenced
    ]
