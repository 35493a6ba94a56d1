"""The record that each handler gets with its call: the parts of the broker that it may use.

Owns and decides nothing. `assembly.py` fills it in; `server.py` starts and ends what is in it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ..client.net.refusals import Refusals
from ..protocol.control.image import MetadataImage
from ..runtime.runtime import Runtime
from .admission.doors import Doors
from .admission.limits import ConnectionLimits
from .admission.load import Load
from .config import BrokerConfig
from .control.auto_creation import AutoCreation
from .control.controller_channel import ActiveController
from .coordinator.groups import Groups
from .coordinator.producer_ids import ProducerIds
from .coordinator.transactions import Transactions
from .deadlines import Deadlines
from .partitions import Partitions
from .replica.lease import LeaderLease
from .replica.selector import ReplicaSelectorConfig
from .topic_defaults import TopicDefaults
from .whereabouts import Metadata, Whereabouts


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Edge:
    """A broker as its APIs see it."""

    runtime: Runtime
    deadlines: Deadlines

    config: BrokerConfig
    file_settings: Mapping[str, str]
    """The settings in the properties file and the overrides, for DescribeConfigs."""
    topic_defaults: TopicDefaults
    replica_selector: ReplicaSelectorConfig
    limits: ConnectionLimits

    doors: Doors
    """The open connections."""
    load: Load
    """The memory that they hold."""
    refusals: Refusals
    """Refused requests and closed connections, so that each is logged once in a while."""

    metadata: Metadata
    whereabouts: Whereabouts
    controller: ActiveController
    auto_creation: AutoCreation

    partitions: Partitions
    lease: LeaderLease
    """While it is held, answers may go out that rest on this broker's being a leader."""

    groups: Groups
    transactions: Transactions
    producer_ids: ProducerIds

    @property
    def image(self) -> MetadataImage:
        """The newest metadata; ask again after every await."""
        return self.metadata.image
