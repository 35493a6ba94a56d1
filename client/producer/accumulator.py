"""Collects records into one partition's batches, and batches into one broker's parcels.

Pure. A parcel holds the batches of one request. `Sender` sends the parcels and passes the answers
to the `PartitionQueue` of each batch. The accumulator enforces buffer_memory, and it parks records
whose topic has no metadata yet.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from ...protocol.partitioning import partition_for_key
from ...protocol.records.record_batch import BatchBuilder, Codec, Headers
from ...protocol.types import NO_LEADER, TopicPartition
from ..cluster import ClusterView, PartitionView
from ..config import ProducerConfig
from ..errors import ClientError, MessageTooLarge, UnknownTopic
from .batch import Batch, ProducerIdentity
from .partition_queue import PartitionQueue
from .partitioner import Dice, StickyChoice

Row = tuple[int, bytes | None, bytes | None, Headers]
"""A record to be sent: timestamp in ms, key, value, headers."""

MAX_TIMESTAMP_MS = (1 << 63) - 1
RECORD_OVERHEAD = 21
"""The most bytes that lengths and deltas add to a record without headers."""


class Claim(Protocol):
    """The part of a `Delivery` that the accumulator uses for a parked record."""

    def bind(self, batch: Batch, index: int) -> None:
        """Set the batch that holds the record, and the record's index in that batch, from 0."""

    def fail(self, error: ClientError) -> None:
        """Fail the record, which is in no batch yet."""

    def when_done(self, watcher: Callable[[], None]) -> None:
        """Call `watcher` once the record is acknowledged or has failed."""


class Parcel(NamedTuple):
    """The batches of one request to one broker; at most one batch per partition."""

    node_id: int
    batches: list[tuple[PartitionQueue, Batch]]


class Parked(NamedTuple):
    """A record that waits for the metadata of its topic."""

    record: Row
    partition: int | None
    size: int
    deadline_ms: int
    claim: Claim


class Loss(NamedTuple):
    """Records that were given up together, and the error."""

    record_count: int
    why: ClientError


@dataclass(slots=True)
class Drained:
    """The batches that may be sent now, and the partitions that need a leader first."""

    parcels: list[Parcel] = field(default_factory=list)
    unled: list[TopicPartition] = field(default_factory=list)
    """Partitions with batches to send and no known leader."""


@dataclass(slots=True, eq=False)
class TopicQueues:
    """The queues of one topic whose partitions are known."""

    name: str
    sticky: StickyChoice
    queues: dict[int, PartitionQueue] = field(default_factory=dict)
    partition_count: int = 0
    led: list[int] = field(default_factory=list)

    def on_partitions(self, partitions: Mapping[int, PartitionView]) -> None:
        """Set the number of partitions, and which of them have leaders."""
        self.partition_count = max(self.partition_count, len(partitions))
        led = sorted(i for i, view in partitions.items() if view.leader_id != NO_LEADER)
        if led != self.led:
            self.sticky.give_up()
        self.led = led


def check_target(topic: str, partition: int | None) -> None:
    """Raise TypeError or ValueError for a topic or partition that cannot exist."""
    if type(topic) is not str or not topic:
        raise TypeError(f"topic must be a name, not {topic!r}")
    if partition is not None and (not isinstance(partition, int) or partition < 0):
        raise ValueError(f"partition must be 0 or more, or None, not {partition!r}")


def checked_size(record: Row, limit: int) -> int:
    """Return an upper bound of the bytes of a record inside a batch.

    Raise MessageTooLarge above `limit`, TypeError or ValueError for a record that cannot be
    encoded, because such a record would make its whole batch fail.
    """
    timestamp_ms, key, value, headers = record
    if not isinstance(timestamp_ms, int) or not 0 <= timestamp_ms <= MAX_TIMESTAMP_MS:
        raise ValueError(f"timestamp_ms must be ms since 1970, not {timestamp_ms!r}")
    size = RECORD_OVERHEAD
    if value is not None:
        if not isinstance(value, bytes):
            raise TypeError(f"value must be bytes or None, not {type(value).__name__}")
        size += len(value)
    if key is not None:
        if not isinstance(key, bytes):
            raise TypeError(f"key must be bytes or None, not {type(key).__name__}")
        size += len(key)
    if headers:
        for name, content in headers:
            if not isinstance(name, str) or not isinstance(content, bytes | bytearray | None):
                raise TypeError(f"a header is (str, bytes or None), not {(name, content)!r:.80}")
            size += len(name.encode()) + 10 + (0 if content is None else len(content))
    if size > limit + RECORD_OVERHEAD:
        raise MessageTooLarge(size - RECORD_OVERHEAD, limit)
    return size


class Accumulator:
    """All unacknowledged records of one producer."""

    def __init__(self, config: ProducerConfig, dice: Dice, on_released: Callable[[], None]) -> None:
        """`on_released` is called after records were settled, which frees their memory."""
        self.batch_size = min(config.batch_size, config.max_request_size)
        self.buffer_memory = config.buffer_memory
        self._config = config
        self._codec = Codec[config.compression_type.upper()]
        self._is_transactional = config.transactional_id is not None
        self.used_bytes = 0
        self.busy: dict[TopicPartition, PartitionQueue] = {}
        self.topics: dict[str, TopicQueues] = {}
        self.parked: dict[str, list[Parked]] = {}
        self.identity: ProducerIdentity | None = None
        self.no_identity = "no producer id yet"
        """The reason why there is no producer id, in words for errors."""
        self.flush_count = 0
        """The number of flushes under way; while it is above zero, linger_ms does not apply."""
        self._on_released = on_released
        self.admit: Callable[[TopicPartition], bool] | None = None
        """Called before each batch of a transaction; True lets the batch be sent now."""
        self.is_implicit = False
        """True if a partition's first batch (sequence 0) adds it to the transaction (KIP-890)."""
        self.on_lost: Callable[[ClientError, bool], None] | None = None
        """Called with the error of lost records, and with True if they had been sent."""
        self.giving_up: ClientError | None = None
        """While it is set, batches that are not in flight fail with this error."""
        self._dice = dice
        self._check_deadlines_at_ms = 0

    def has_room(self) -> bool:
        """True while less than buffer_memory is used; the next record may then exceed it."""
        return self.used_bytes < self.buffer_memory

    @property
    def is_empty(self) -> bool:
        """True if every record that was appended or parked is settled."""
        return not self.busy and not self.parked

    # -- in

    def on_topic(
        self, name: str, partitions: Mapping[int, PartitionView], now_ms: int
    ) -> list[Loss]:
        """Set a topic's partitions, and append the topic's parked records to batches.

        A record fails if the topic lacks the partition that the record names. Return these losses.
        """
        topic = self.topics.get(name)
        if topic is None:
            sticky = StickyChoice(max(self.batch_size, 1))
            topic = self.topics[name] = TopicQueues(name, sticky)
        topic.on_partitions(partitions)
        errors: list[ClientError] = []
        for parked in self.parked.pop(name, ()):
            try:
                batch = self.append(topic, parked.partition, parked.record, parked.size, now_ms)
            except UnknownTopic as error:
                parked.claim.fail(error)
                errors.append(error)
                if self.on_lost is not None:
                    self.on_lost(error, False)
            else:
                parked.claim.bind(batch, batch.record_count - 1)
            # Only now: threads that look for room while a record moves must not find its bytes.
            self.used_bytes -= parked.size
        return [Loss(len(errors), errors[0])] if errors else []

    def park(self, topic: str, parked: Parked) -> None:
        """Keep a record until its topic is known or its deadline has passed."""
        self.used_bytes += parked.size
        self.parked.setdefault(topic, []).append(parked)

    def append(
        self,
        topic: TopicQueues,
        partition: int | None,
        record: Row,
        size: int,
        now_ms: int,
    ) -> Batch:
        """Append a record to the open batch of its partition, and return the batch."""
        if partition is None:
            partition = self.choose(topic, record[1], size)
        queue = topic.queues.get(partition)
        if queue is None:
            queue = self.new_queue(topic, partition)
        waiting = queue.waiting
        batch = waiting[-1] if waiting else None
        if batch is None or batch.is_closed or batch.size + size > self.batch_size:
            if batch is not None:
                batch.is_closed = True
            batch = self.new_batch(queue, now_ms)
        assert batch.builder is not None
        batch.builder.append(*record)
        batch.record_count += 1
        batch.size += size
        self.used_bytes += size
        return batch

    def choose(self, topic: TopicQueues, key: bytes | None, size: int) -> int:
        """Choose a record's partition: by the hash of its key, or without a key the sticky one."""
        if key is not None:
            return partition_for_key(key, topic.partition_count)
        choice = topic.sticky.choose(size)
        if choice >= 0:
            return choice
        candidates = topic.led or range(topic.partition_count)
        queued = [
            sum(batch.size for batch in queue.waiting) if (queue := topic.queues.get(i)) else 0
            for i in candidates
        ]
        return topic.sticky.turn(candidates, queued, self._dice)

    def new_queue(self, topic: TopicQueues, partition: int) -> PartitionQueue:
        """Make a partition's queue; raise UnknownTopic if the topic has no such partition."""
        if not 0 <= partition < topic.partition_count:
            has = f"it has {topic.partition_count} partitions"
            raise UnknownTopic(f"{topic.name}-{partition}", has)
        queue = topic.queues[partition] = PartitionQueue(
            TopicPartition(topic.name, partition),
            is_idempotent=self._config.is_idempotent,
            is_transactional=self._is_transactional,
            max_in_flight=self._config.max_in_flight_requests_per_connection,
        )
        return queue

    def new_batch(self, queue: PartitionQueue, now_ms: int) -> Batch:
        """Open a batch at the end of its partition's queue."""
        builder = BatchBuilder(self._codec, is_transactional=self._is_transactional)
        deadline_ms = now_ms + self._config.delivery_timeout_ms
        batch = Batch(queue.partition, builder, now_ms, deadline_ms)
        batch.when_done(self._on_done)
        queue.waiting.append(batch)
        self.busy[queue.partition] = queue
        return batch

    def _on_done(self, batch: Batch) -> None:
        self.used_bytes -= batch.size
        if self.on_lost is not None and isinstance(batch.outcome, ClientError):
            self.on_lost(batch.outcome, batch.order >= 0)
        self._on_released()

    # -- out

    def drain(self, now_ms: int, view: ClusterView, room: Callable[[int], int]) -> Drained:
        """Take the batches that may be sent now.

        `room` returns how many more requests may be sent to a broker.
        """
        drained = Drained()
        rooms: dict[int, int] = {}
        progress = True
        while progress:
            parcels: dict[int, Parcel] = {}
            sizes: dict[int, int] = {}
            for partition, queue in list(self.busy.items()):
                if queue.is_idle:
                    del self.busy[partition]
                    continue
                batch = queue.next_to_send(now_ms, begins_at_0=self.is_implicit)
                if batch is None or self._ready_at_ms(queue, batch) > now_ms:
                    continue
                if self.admit is not None and not self.admit(partition):
                    continue
                leader = view.leader_of(partition.topic, partition.partition)
                if leader is None:
                    if not drained.parcels:
                        drained.unled.append(partition)
                    continue
                node_id = leader.leader_id
                if node_id not in rooms:
                    rooms[node_id] = room(node_id)
                size = sizes.get(node_id, 0) + batch.size
                is_full = node_id in parcels and size > self._config.max_request_size
                if rooms[node_id] <= 0 or is_full or not queue.may_go_to(node_id):
                    continue
                queue.on_sent(batch, node_id)
                sizes[node_id] = size
                parcels.setdefault(node_id, Parcel(node_id, [])).batches.append((queue, batch))
                # A served queue comes last next time, so that full requests starve no partition.
                self.busy[partition] = self.busy.pop(partition)
            for node_id in parcels:
                rooms[node_id] -= 1
            drained.parcels.extend(parcels.values())
            progress = bool(parcels)
        return drained

    def _ready_at_ms(self, queue: PartitionQueue, batch: Batch) -> int:
        if (
            batch.is_closed
            or batch.size >= self.batch_size
            or self.flush_count
            or not self.has_room()
        ):
            return queue.not_before_ms
        return max(queue.not_before_ms, batch.created_ms + self._config.linger_ms)

    def next_wake_ms(self, now_ms: int) -> int | None:
        """Return when a batch is ready, or a batch or parked record expires; None if never."""
        wake: int | None = None
        over: int | None = None
        for queue in self.busy.values():
            if queue.waiting:
                ready_ms = self._ready_at_ms(queue, queue.waiting[0])
                # A batch that is ready already waits for an event, not for the clock.
                if ready_ms > now_ms and (wake is None or ready_ms < wake):
                    wake = ready_ms
                over = _earlier(over, queue.waiting[0].deadline_ms)
            if queue.in_flight:
                over = _earlier(over, min(batch.deadline_ms for batch in queue.in_flight))
        for parked in self.parked.values():
            over = _earlier(over, parked[0].deadline_ms)
        self._check_deadlines_at_ms = 0 if over is None else over
        return wake if over is None else _earlier(wake, over)

    def on_deadlines(self, now_ms: int) -> list[Loss]:
        """Fail the batches and parked records whose deadline has passed; return the losses."""
        if now_ms < self._check_deadlines_at_ms:
            return []
        losses: list[Loss] = []
        for queue in list(self.busy.values()):
            losses += losses_of(queue.on_deadlines(now_ms))
        for topic, parked in list(self.parked.items()):
            # Parked records stand in the order of their deadlines.
            gone_count = sum(one.deadline_ms <= now_ms for one in parked)
            losses += self._unpark(topic, gone_count, UnknownTopic(topic))
        return losses

    def on_topic_refused(self, topic: str, error: ClientError) -> list[Loss]:
        """Fail the parked records of a topic with `error`; return the losses."""
        return self._unpark(topic, len(self.parked.get(topic, ())), error)

    def _unpark(self, topic: str, gone_count: int, error: ClientError) -> list[Loss]:
        if not gone_count:
            return []
        parked = self.parked.pop(topic)
        gone, left = parked[:gone_count], parked[gone_count:]
        if left:
            self.parked[topic] = left
        for one in gone:
            self.used_bytes -= one.size
            one.claim.fail(error)
        if self.on_lost is not None:
            self.on_lost(error, False)
        self._on_released()
        return [Loss(gone_count, error)]

    def give_up_waiting(self) -> None:
        """If `giving_up` is set, fail with it all parked records and all batches not in flight."""
        if self.giving_up is None:
            return
        for topic in list(self.parked):
            self.on_topic_refused(topic, self.giving_up)
        for queue in list(self.busy.values()):
            queue.fail_waiting(self.giving_up)

    def fail_all(self, error: ClientError) -> list[Loss]:
        """Fail all batches and parked records; return the losses."""
        losses = [
            loss for topic in list(self.parked) for loss in self.on_topic_refused(topic, error)
        ]
        for queue in list(self.busy.values()):
            losses += losses_of(queue.fail_all(error))
        return losses

    # -- producer ids

    def change_identity(self, identity: ProducerIdentity) -> None:
        """Use a new producer id or epoch, and number all partitions' batches from 0 under it.

        Call this only while nothing is in flight.
        """
        self.identity = identity
        for topic in self.topics.values():
            for queue in topic.queues.values():
                queue.on_identity(identity)

    def wants_identity(self) -> bool:
        """Give the current identity to partitions without one; True if a new one must be allocated.

        A new identity is needed if there is none, or if a partition can no longer use its producer
        id.
        """
        wanted = False
        for queue in self.busy.values():
            if not queue.needs_identity:
                continue
            if self.identity is not None and queue.refused_id != self.identity.producer_id:
                queue.on_identity(self.identity)
            else:
                wanted = True
                queue.blocked = self.no_identity
        return wanted


def losses_of(batches: list[Batch]) -> list[Loss]:
    """Return the record count and the error of each failed batch among `batches`."""
    return [
        Loss(batch.record_count, batch.outcome)
        for batch in batches
        if isinstance(batch.outcome, ClientError)
    ]


def _earlier(one: int | None, other: int) -> int:
    return other if one is None or other < one else one
