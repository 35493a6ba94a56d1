"""Hands each step of the metadata to the parts of a broker, in their order.

Partitions act first: everything else may ask them, and finds them as the metadata has them.
"""

from dataclasses import dataclass

from ..protocol.control.image import Delta, MetadataImage
from .edge import Edge
from .partitions import Partitions
from .peers import Peers
from .upkeep.compaction import Compaction


@dataclass(frozen=True, slots=True)
class Publishing:
    """Tells the parts of one broker about new metadata."""

    partitions: Partitions
    edge: Edge
    peers: Peers
    compaction: Compaction

    async def publish(self, delta: Delta, image: MetadataImage) -> None:
        """Have every part follow the metadata from one image to the next."""
        await self.partitions.apply_delta(delta, image)
        gone = [topic.name for topic in delta.deleted_topics.values()]
        self.edge.groups.upkeep.forget_topics(gone)
        if delta.changed_partitions or delta.is_snapshot:
            self.edge.transactions.sender.retry_now()
        if delta.changed_brokers or delta.is_snapshot:
            self.peers.on_brokers_changed(sorted(image.brokers))
        if delta.touches_broker_settings:
            bound_connections(self.edge, image)
            self.compaction.on_settings()


def bound_connections(edge: Edge, image: MetadataImage) -> None:
    """Hold to the bounds on connections that the metadata has for this broker now."""
    value_of = edge.topic_defaults.broker_value
    edge.doors.bound(
        connections_max=value_of(image, "max.connections"),
        per_host_max=value_of(image, "max.connections.per.ip"),
    )
