"""Tells where brokers are reached and who leads what, as the newest metadata has it.

Owns nothing: every answer is read off the metadata when it is asked for.
"""

from collections.abc import Sequence
from typing import Protocol

from ..protocol.control.image import BrokerRegistration, MetadataImage
from ..protocol.control.messages import Endpoint


class Metadata(Protocol):
    """The follower of the metadata."""

    @property
    def image(self) -> MetadataImage:
        """The newest metadata; ask again after every await."""


class Whereabouts:
    """The brokers and leaders of the cluster as one broker sees them."""

    __slots__ = ("_metadata", "inter_broker_listener", "node_id")

    def __init__(self, metadata: Metadata, node_id: int, inter_broker_listener: str) -> None:
        """`inter_broker_listener` names the listener that brokers use among themselves."""
        self._metadata = metadata
        self.node_id = node_id
        self.inter_broker_listener = inter_broker_listener

    def live_brokers(self) -> list[BrokerRegistration]:
        """Brokers that clients may be sent to, by id."""
        brokers = self._metadata.image.brokers
        return [brokers[each] for each in sorted(brokers) if not brokers[each].fenced]

    def endpoint(self, broker_id: int, listener: str) -> tuple[Endpoint, str | None] | None:
        """Return the address of a live broker for clients of `listener`, and its rack."""
        broker = self._metadata.image.brokers.get(broker_id)
        if broker is None or broker.fenced:
            return None
        endpoint = broker.endpoint(listener)
        return None if endpoint is None else (endpoint, broker.rack)

    def peer(self, broker_id: int) -> Endpoint | None:
        """Return the address at which this broker dials another one, fenced or not."""
        broker = self._metadata.image.brokers.get(broker_id)
        return None if broker is None else broker.endpoint(self.inter_broker_listener)

    def leader_of(self, topic_id: bytes, index: int) -> tuple[int, int]:
        """Leader id and epoch of a partition as the metadata has it; -1, -1 if unknown."""
        state = self._metadata.image.partition(topic_id, index)
        return (-1, -1) if state is None else (state.leader, state.leader_epoch)

    def controller_id(self) -> int:
        """The broker that clients send admin requests to: any live one will do, so this one."""
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
