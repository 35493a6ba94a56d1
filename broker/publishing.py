"""Passes each change of the metadata to the parts of a broker, in a fixed order.

The authorizer and the quotas come first, because they must not wait for parts that await the disk.
Partitions come next, so that the other parts find the partitions of the new metadata.
"""

import logging
from dataclasses import dataclass

from ..protocol.control.image import Delta, MetadataImage
from ..security.audit_config import AuditConfig
from .admission.limits import bounds_of
from .admission.rates import rates_of_hosts
from .config import names_of_listeners
from .edge import Edge
from .forward.forwarder import Forwarder
from .partitions import Partitions
from .peers import Peers
from .tracing.config import TraceConfig
from .upkeep.compaction import Compaction

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Publishing:
    """The parts of one broker that follow changes of the metadata."""

    partitions: Partitions
    edge: Edge
    peers: Peers
    compaction: Compaction
    forwarder: Forwarder

    async def publish(self, delta: Delta, image: MetadataImage) -> None:
        """Have every part apply `delta`, whose result is `image`."""
        if self.edge.authorizer is not None:
            self.edge.authorizer.on_metadata(delta, image)
        self.edge.quotas.on_metadata(delta, image)
        await self.partitions.apply_delta(delta, image)
        await self.forwarder.on_metadata(delta)
        await self.edge.audit_writer.on_metadata()
        gone = [topic.name for topic in delta.deleted_topics.values()]
        self.edge.groups.upkeep.forget_topics(gone)
        if delta.changed_partitions or delta.is_snapshot:
            self.edge.transactions.sender.retry_now()
        if delta.changed_brokers or delta.is_snapshot:
            self.peers.on_brokers_changed(sorted(image.brokers))
        if delta.touches_broker_settings:
            bound_connections(self.edge, image)
            self.compaction.on_settings()
            config = self.edge.topic_defaults.table_of(image, AuditConfig)
            self.edge.audit_feed.is_on = config.enable
            self.edge.tracing.on_config(self.edge.topic_defaults.table_of(image, TraceConfig))
        if delta.touches_quotas:
            self.edge.entrance.bound_hosts(*rates_of_hosts(image.quotas))
        if delta.touches_subscriptions and self.edge.telemetry is not None:
            for why in self.edge.telemetry.on_configs(image.configs):
                log.warning("a subscription to clients' metrics is left out: %s", why)


def bound_connections(edge: Edge, image: MetadataImage) -> None:
    """Apply the connection limits that the metadata sets for this broker."""
    properties = edge.topic_defaults.properties_of(image)
    bounds = bounds_of(properties, names_of_listeners(edge.config))
    edge.doors.bound(bounds)
    edge.entrance.bound(bounds)
