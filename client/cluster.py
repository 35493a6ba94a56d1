"""A client's view of the cluster (brokers, topics, leaders), and when it must be refreshed.

Pure. An answer with an older leader epoch of the same topic is ignored, because a broker that lags
behind may name a former leader (KIP-320).
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
    """A live broker and the address that the cluster advertises for it."""

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
    """The changes that one metadata answer made or reported."""

    leaders: list[TopicPartition]
    topics: list[str]
    """Every topic in the answer that has no error."""
    errors: dict[str, ErrorCode]
    """The error codes of all other topics in the answer."""


class ClusterView:
    """The brokers, topics and leaders named in the newest answers of brokers."""

    def __init__(self) -> None:
        self.brokers: dict[int, Broker] = {}
        self.topics: dict[str, TopicView] = {}
        self.names: dict[bytes, str] = {}
        self.cluster_id: str | None = None
        self.controller_id = -1

    def on_metadata(self, response: MetadataResponse) -> Changes:
        """Update the view by a metadata answer; topics that it does not name stay as they are."""
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
        """Set the leader that another response names (KIP-951); True if its epoch is newer."""
        topic = self.topics.get(partition.topic)
        view = topic.partitions.get(partition.partition) if topic else None
        if view is None or leader_epoch <= view.leader_epoch or leader_id not in self.brokers:
            return False
        view.leader_id, view.leader_epoch = leader_id, leader_epoch
        return True

    def on_brokers(self, brokers: Iterable[Broker]) -> None:
        """Set the brokers' addresses that another response names (KIP-951)."""
        for broker in brokers:
            self.brokers[broker.node_id] = broker

    def leader_of(self, topic: str, partition: int) -> PartitionView | None:
        """Return a partition's view if its leader is known and has an address, else None."""
        known = self.topics.get(topic)
        view = known.partitions.get(partition) if known is not None else None
        if view is None or view.leader_id not in self.brokers:
            return None
        return view

    def partitions_of(self, topic: str) -> Mapping[int, PartitionView] | None:
        """Return all partitions of a topic, or None if the topic is not known."""
        known = self.topics.get(topic)
        return None if known is None else known.partitions

    def topic_id(self, topic: str) -> bytes:
        """Return the topic's id, or zeros if it has none or the topic is not known."""
        known = self.topics.get(topic)
        return ZERO_UUID if known is None else known.topic_id

    def _forget(self, name: str) -> None:
        gone = self.topics.pop(name, None)
        if gone is not None:
            self.names.pop(gone.topic_id, None)

    def _on_topic(self, name: str, topic: MetadataResponseTopic) -> list[TopicPartition]:
        known = self.topics.get(name)
        if known is None or known.topic_id != topic.topic_id:
            # This is a new topic of the same name, whose epochs cannot be compared with the old
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
    """Decides when to refresh metadata next: at a maximum age, or soon after it proves wrong."""

    def __init__(self, max_age_ms: int, backoff: Backoff) -> None:
        self._max_age_ms = max_age_ms
        self._backoff = backoff
        self.refreshed_at_ms: int | None = None
        """The monotonic ms of the newest refresh; None before the first one."""
        self._asked_at_ms: int | None = None
        self._wait_ms = backoff.first_ms
        self._asked_in_a_row = 0
        self.is_stale = True

    def on_found_stale(self) -> None:
        """Request a refresh after the backoff, because the metadata proved wrong or incomplete."""
        self.is_stale = True

    def on_new_question(self) -> None:
        """Request a refresh without a backoff, because a topic is wanted for the first time."""
        self.is_stale = True
        self._asked_at_ms = None

    def on_asked(self, now_ms: int, dice: Dice) -> None:
        """Note that a metadata request is sent, and compute the wait before the next one."""
        # Requests in quick succession mean that the cluster is still changing: wait longer.
        last = self._asked_at_ms
        if last is None or now_ms - last > 4 * self._wait_ms:
            self._asked_in_a_row = 0
        self._asked_in_a_row += 1
        self._asked_at_ms = now_ms
        self._wait_ms = self._backoff.after(self._asked_in_a_row, dice)
        self.is_stale = False

    def on_refreshed(self, now_ms: int) -> None:
        """Note that the view was refreshed; the maximum age counts from now."""
        self.refreshed_at_ms = now_ms

    def next_ask_ms(self) -> int:
        """Return when to send the next request, as monotonic ms; 0 means immediately."""
        not_before = 0 if self._asked_at_ms is None else self._asked_at_ms + self._wait_ms
        if self.is_stale or self.refreshed_at_ms is None:
            return not_before
        return max(not_before, self.refreshed_at_ms + self._max_age_ms)
