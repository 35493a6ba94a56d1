"""A client's view of the cluster: brokers, topics, leaders; and when that is stale.

Pure. A leader epoch never goes back for the same topic (KIP-320): a broker that lags behind may
answer Metadata with a deposed leader. Every method takes what happened and returns what changed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ..protocol.errors import ErrorCode
from ..protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ..protocol.types import NO_EPOCH, NO_LEADER, ZERO_UUID, TopicPartition
from .net.address import Address
from .net.backoff import Backoff, Dice


class Broker(NamedTuple):
    """A live broker as the cluster advertises it."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> Address:
        """The address that the broker listens at."""
        return Address(self.host, self.port)


@dataclass(slots=True)
class PartitionView:
    """One partition as the newest metadata describes it."""

    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    error: ErrorCode


@dataclass(slots=True)
class TopicView:
    """One topic as the newest metadata describes it."""

    name: str
    topic_id: bytes
    is_internal: bool
    partitions: dict[int, PartitionView] = field(default_factory=dict)


class Changes(NamedTuple):
    """The changes of one metadata answer: leaders that moved or came, topics seen or gone."""

    leaders: list[TopicPartition]
    topics: list[str]
    """Every topic of the answer that exists."""
    errors: dict[str, ErrorCode]
    """The errors of the other topics of the answer."""


class ClusterView:
    """The newest of what brokers have said."""

    def __init__(self) -> None:
        self.brokers: dict[int, Broker] = {}
        self.topics: dict[str, TopicView] = {}
        self.names: dict[bytes, str] = {}
        self.cluster_id: str | None = None
        self.controller_id = -1

    def on_metadata(self, response: MetadataResponse) -> Changes:
        """Take over an answer; topics that it does not mention stay as they are."""
        self.brokers = {
            b.node_id: Broker(b.node_id, b.host, b.port, b.rack) for b in response.brokers
        }
        self.cluster_id = response.cluster_id or self.cluster_id
        self.controller_id = response.controller_id
        changes = Changes([], [], {})
        for topic in response.topics:
            if topic.name is None:
                continue
            code = ErrorCode(topic.error_code)
            if code is not ErrorCode.NONE:
                changes.errors[topic.name] = code
                if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    self._forget(topic.name)
            else:
                changes.topics.append(topic.name)
                changes.leaders.extend(self._on_topic(topic.name, topic))
        return changes

    def on_leader(self, partition: TopicPartition, leader_id: int, leader_epoch: int) -> bool:
        """Take over a leader that another answer named (KIP-951); True if its epoch is newer."""
        topic = self.topics.get(partition.topic)
        view = topic.partitions.get(partition.partition) if topic else None
        if view is None or leader_epoch <= view.leader_epoch or leader_id not in self.brokers:
            return False
        view.leader_id, view.leader_epoch = leader_id, leader_epoch
        return True

    def on_brokers(self, brokers: Iterable[Broker]) -> None:
        """Take over addresses that another answer named (KIP-951)."""
        for broker in brokers:
            self.brokers[broker.node_id] = broker

    def leader_of(self, topic: str, partition: int) -> PartitionView | None:
        """Find a partition whose leader is known and has an address, else None."""
        known = self.topics.get(topic)
        view = known.partitions.get(partition) if known is not None else None
        if view is None or view.leader_id not in self.brokers:
            return None
        return view

    def partitions_of(self, topic: str) -> Mapping[int, PartitionView] | None:
        """All partitions of a topic, None where the topic is not known."""
        known = self.topics.get(topic)
        return None if known is None else known.partitions

    def topic_id(self, topic: str) -> bytes:
        """The topic's id; zeros where the cluster has none or the topic is not known."""
        known = self.topics.get(topic)
        return ZERO_UUID if known is None else known.topic_id

    def _forget(self, name: str) -> None:
        gone = self.topics.pop(name, None)
        if gone is not None:
            self.names.pop(gone.topic_id, None)

    def _on_topic(self, name: str, topic: MetadataResponseTopic) -> list[TopicPartition]:
        known = self.topics.get(name)
        if known is None or known.topic_id != topic.topic_id:
            # This is another topic of the same name: its epochs have nothing to do with the old
            # one's.
            self._forget(name)
            known = self.topics[name] = TopicView(name, topic.topic_id, topic.is_internal)
            if topic.topic_id != ZERO_UUID:
                self.names[topic.topic_id] = name
        moved: list[TopicPartition] = []
        for answer in topic.partitions:
            if self._on_partition(known, answer):
                moved.append(TopicPartition(name, answer.partition_index))
        return moved

    @staticmethod
    def _on_partition(topic: TopicView, answer: MetadataResponsePartition) -> bool:
        known = topic.partitions.get(answer.partition_index)
        if (
            known is not None
            and answer.leader_epoch != NO_EPOCH
            and answer.leader_epoch < known.leader_epoch
        ):
            return False
        topic.partitions[answer.partition_index] = PartitionView(
            answer.leader_id,
            answer.leader_epoch,
            tuple(answer.replica_nodes),
            tuple(answer.isr_nodes),
            tuple(answer.offline_replicas),
            ErrorCode(answer.error_code),
        )
        if known is None:
            return answer.leader_id != NO_LEADER
        return (known.leader_id, known.leader_epoch) != (answer.leader_id, answer.leader_epoch)


class Staleness:
    """Decides when metadata is asked for next: at an age, or soon after it was found wrong."""

    def __init__(self, max_age_ms: int, backoff: Backoff) -> None:
        self._max_age_ms = max_age_ms
        self._backoff = backoff
        self._refreshed_at_ms: int | None = None
        self._asked_at_ms: int | None = None
        self._wait_ms = backoff.first_ms
        self._asked_in_a_row = 0
        self.is_stale = True

    def on_found_stale(self) -> None:
        """The metadata was found wrong, or a topic is needed that it does not know."""
        self.is_stale = True

    def on_new_question(self) -> None:
        """A topic is asked for that no answer so far was about: no reason to wait."""
        self.is_stale = True
        self._asked_at_ms = None

    def on_asked(self, now_ms: int, dice: Dice) -> None:
        """A request for metadata goes out."""
        # Metadata is asked for again soon: the cluster has not settled yet. Slow down.
        last = self._asked_at_ms
        if last is None or now_ms - last > 4 * self._wait_ms:
            self._asked_in_a_row = 0
        self._asked_in_a_row += 1
        self._asked_at_ms = now_ms
        self._wait_ms = self._backoff.after(self._asked_in_a_row, dice)
        self.is_stale = False

    def on_refreshed(self, now_ms: int) -> None:
        """An answer was taken over."""
        self._refreshed_at_ms = now_ms

    def next_ask_ms(self) -> int:
        """The time of the next request, unless something is found stale before."""
        not_before = 0 if self._asked_at_ms is None else self._asked_at_ms + self._wait_ms
        if self.is_stale or self._refreshed_at_ms is None:
            return not_before
        return max(not_before, self._refreshed_at_ms + self._max_age_ms)
