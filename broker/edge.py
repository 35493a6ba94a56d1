"""The parts of a broker that its request handlers may use.

Each handler gets the `Edge` with its call. `assembly.py` makes it; `server.py` starts and ends its
parts.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ..client.net.refusals import Refusals
from ..protocol.control.image import MetadataImage
from ..runtime.runtime import Runtime
from ..security.audit import Audit
from ..security.authorizer import Authorizer
from ..security.quotas import Quotas
from ..security.tokens import TokenKey
from .admission.doors import Doors
from .admission.entrance import Entrance
from .admission.limits import ConnectionLimits
from .admission.load import Load
from .admission.logins import Logins
from .audit.feed import AuditFeed
from .audit.writer import AuditWriter
from .config import BrokerConfig
from .control.auto_creation import AutoCreation
from .control.controller_channel import ActiveController
from .coordinator.groups import Groups
from .coordinator.producer_ids import ProducerIds
from .coordinator.transactions import Transactions
from .deadlines import Deadlines
from .forward.forwarder import Forwarder
from .partitions import Partitions
from .replica.lease import LeaderLease
from .replica.selector import ReplicaSelectorConfig
from .telemetry.clients import ClientTelemetry
from .topic_defaults import TopicDefaults
from .tracing.tracing import Tracing
from .upkeep.moves import Moves
from .whereabouts import Metadata, Whereabouts


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Edge:
    """The parts of a broker that its request handlers and collectors may use."""

    runtime: Runtime
    deadlines: Deadlines

    config: BrokerConfig
    file_settings: Mapping[str, str]
    """The settings in the properties file and the overrides, for DescribeConfigs."""
    topic_defaults: TopicDefaults
    replica_selector: ReplicaSelectorConfig
    limits: ConnectionLimits

    doors: Doors
    """The open connections, and the limits of their number."""
    entrance: Entrance
    """The new connections that wait because they came too fast."""
    load: Load
    """The accounts and limits of the memory that the connections hold."""
    refusals: Refusals
    """Logs refused requests and closed connections, and limits how often the same message is
    repeated."""

    authorizer: Authorizer | None
    """The rules of who may do what. None if everybody may do everything."""
    logins: Logins | None
    """The logins by SASL. None if no listener requires one."""

    quotas: Quotas
    """The quotas of clients, and what each client has used of its quotas."""

    token_key: TokenKey | None
    """The key of delegation tokens. None if there are no tokens."""

    audit: Audit
    """Logs the operations that clients are denied."""

    metadata: Metadata
    whereabouts: Whereabouts
    controller: ActiveController
    auto_creation: AutoCreation

    partitions: Partitions
    moves: Moves
    lease: LeaderLease
    """The leader's lease. While it is held, answers may be sent that are valid only if this broker
    still leads."""

    groups: Groups
    transactions: Transactions
    producer_ids: ProducerIds
    forwarder: Forwarder
    audit_writer: AuditWriter
    audit_feed: AuditFeed
    tracing: Tracing
    telemetry: ClientTelemetry | None
    """The metrics that clients push. None if no metrics are served."""

    @property
    def image(self) -> MetadataImage:
        """The newest metadata image; read it again after every await, as it may be replaced."""
        return self.metadata.image
