"""Looks up the addresses of brokers and the leaders of partitions in the newest metadata.

Each look-up reads the present metadata image.
"""

from collections.abc import Sequence
from typing import Protocol

from ..protocol.control.image import BrokerRegistration, MetadataImage
from ..protocol.control.messages import Endpoint


class Metadata(Protocol):
    """The part of the broker that keeps the newest metadata image."""

    @property
    def image(self) -> MetadataImage:
        """The newest metadata image; read it again after every await, as it may be replaced."""


class Whereabouts:
    """Looks up brokers and leaders of the cluster on behalf of one broker."""

    __slots__ = ("_metadata", "inter_broker_listener", "node_id")

    def __init__(self, metadata: Metadata, node_id: int, inter_broker_listener: str) -> None:
        """`inter_broker_listener` names the listener that brokers use among themselves."""
        self._metadata = metadata
        self.node_id = node_id
        self.inter_broker_listener = inter_broker_listener

    def live_brokers(self) -> list[BrokerRegistration]:
        """Return the brokers that are not fenced, ordered by id."""
        brokers = self._metadata.image.brokers
        return [brokers[each] for each in sorted(brokers) if not brokers[each].fenced]

    def endpoint(self, broker_id: int, listener: str) -> tuple[Endpoint, str | None] | None:
        """Return a live broker's address on `listener` and its rack.

        Return None if the broker is not live or has no such listener; the rack may be None.
        """
        broker = self._metadata.image.brokers.get(broker_id)
        if broker is None or broker.fenced:
            return None
        endpoint = broker.endpoint(listener)
        return None if endpoint is None else (endpoint, broker.rack)

    def peer(self, broker_id: int) -> Endpoint | None:
        """Return the inter-broker address of a broker, fenced or not; None if it is unknown."""
        broker = self._metadata.image.brokers.get(broker_id)
        return None if broker is None else broker.endpoint(self.inter_broker_listener)

    def is_used_by(self, broker_id: int, listener: str) -> bool:
        """True if the broker `broker_id` connects to this one over the listener named `listener`.

        That is the inter-broker listener of this broker or of the other one, which is the first
        that it registered. The two differ while the configuration is changed broker by broker.
        """
        if listener == self.inter_broker_listener:
            return True
        broker = self._metadata.image.brokers.get(broker_id)
        return broker is not None and broker.endpoints[0].name == listener

    def leader_of(self, topic_id: bytes, index: int) -> tuple[int, int]:
        """Return a partition's leader id and leader epoch; (-1, -1) if the partition is unknown."""
        state = self._metadata.image.partition(topic_id, index)
        return (-1, -1) if state is None else (state.leader, state.leader_epoch)

    def controller_id(self) -> int:
        """Return the broker that clients get as the controller: this one, or else any live one.

        Clients send their admin requests to it, and every broker forwards such requests to the
        active controller. Return -1 if no broker is live.
        """
        brokers = self.live_brokers()
        if any(broker.broker_id == self.node_id for broker in brokers):
            return self.node_id
        return brokers[0].broker_id if brokers else -1


def replicas_offline(image: MetadataImage, replicas: Sequence[int]) -> list[int]:
    """Return the replicas whose broker is fenced or unknown."""
    return [
        broker_id
        for broker_id in replicas
        if (broker := image.brokers.get(broker_id)) is None or broker.fenced
    ]
