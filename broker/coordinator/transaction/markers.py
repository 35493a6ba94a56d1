"""Markers of decided transactions on their way to the leaders of the partitions.

    resting --rest over--> fresh --route--> queued for a leader --take--> in flight --> written
       ^                     | no leader                                     | retriable error
       +---------------------+-----------------------------------------------+

A resting marker waits for a retry. Pure: knows the markers still to be written, and the leaders to
write them. A deleted partition needs no marker. Each leader has at most one request in flight,
which markers of many transactions share. A marker is retried without end, because its transaction
is complete only when every partition has its marker.
"""

from collections.abc import Callable, Iterator
from typing import Final

from ....protocol.errors import ErrorCode
from ....protocol.types import NO_LEADER, TopicPartition
from .transaction import Transaction

GONE: Final = -2
"""Stands for the leader of a partition that is deleted, alone or with its topic."""
PARTITIONS_MAX: Final = 10_000
"""The number of partitions from which on a request takes no further transactions."""

NOT_NEEDED: Final = (
    ErrorCode.NONE,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
)
"""Results after which a marker counts as written. INVALID_PRODUCER_EPOCH means that the partition
knows a later epoch of the producer, so that this transaction is not open there;
TOPIC_AUTHORIZATION_FAILED that it is of an internal topic, where no transaction writes."""

Partitions = dict[TopicPartition, None]


class Ending:
    """One transaction whose outcome is decided, and the partitions that lack its marker."""

    __slots__ = ("coordinator_epoch", "is_dropped", "missing", "shard", "transaction")

    def __init__(self, transaction: Transaction, shard: int, coordinator_epoch: int) -> None:
        self.transaction = transaction
        self.shard = shard
        self.coordinator_epoch = coordinator_epoch
        self.missing: Partitions = dict(transaction.partitions)
        """The partitions without a marker."""
        self.is_dropped = False

    def __repr__(self) -> str:
        transaction = self.transaction
        return f"{transaction.transactional_id} ({transaction.state.title})"


Batch = list[tuple[Ending, list[TopicPartition]]]


class Markers:
    """The transactions that this coordinator is ending, and the state of each of their markers."""

    def __init__(self) -> None:
        self._endings: dict[str, Ending] = {}
        self._fresh: dict[Ending, Partitions] = {}
        self._resting: dict[Ending, Partitions] = {}
        self._queued: dict[int, dict[Ending, Partitions]] = {}
        self._asked: dict[int, None] = {}
        self._finished: list[Ending] = []

    def __iter__(self) -> Iterator[Ending]:
        return iter(self._endings.values())

    def get(self, transactional_id: str) -> Ending | None:
        """Return the ending transaction of this id; None if none is being ended."""
        return self._endings.get(transactional_id)

    @property
    def is_resting(self) -> bool:
        """True if any marker waits before it is tried again."""
        return bool(self._resting)

    def add(self, ending: Ending) -> None:
        """Queue the markers of a committed outcome."""
        transactional_id = ending.transaction.transactional_id
        older = self._endings.get(transactional_id)
        if older is not None:
            self._drop(older)
        self._endings[transactional_id] = ending
        if ending.missing:
            self._fresh[ending] = dict(ending.missing)
        else:
            self._finish(ending)

    def drop_shard(self, shard: int) -> None:
        """Drop a shard's transactions, because another broker coordinates them now."""
        for ending in [each for each in self._endings.values() if each.shard == shard]:
            self._drop(ending)

    def wake(self) -> None:
        """Make all resting markers fresh, so that they are routed again."""
        resting, self._resting = self._resting, {}
        for ending, partitions in resting.items():
            self._fresh.setdefault(ending, {}).update(partitions)

    def route(self, leader_of: Callable[[TopicPartition], int]) -> None:
        """Queue fresh markers for their leaders; one rests if NO_LEADER, and is done if GONE."""
        fresh, self._fresh = self._fresh, {}
        for ending, partitions in fresh.items():
            for partition in partitions:
                leader = leader_of(partition)
                if leader == GONE:
                    self._written(ending, partition)
                elif leader == NO_LEADER:
                    self._resting.setdefault(ending, {})[partition] = None
                else:
                    queue = self._queued.setdefault(leader, {})
                    queue.setdefault(ending, {})[partition] = None

    def ready(self) -> list[int]:
        """Return the leaders that have markers queued and no request in flight."""
        return [leader for leader in self._queued if leader not in self._asked]

    def take(self, leader: int) -> Batch:
        """Return the markers of a leader's next request; `on_answered` or `on_failed` follows."""
        queue = self._queued.pop(leader)
        batch: Batch = []
        count = 0
        while queue and count < PARTITIONS_MAX:
            ending = next(iter(queue))
            partitions = queue.pop(ending)
            batch.append((ending, list(partitions)))
            count += len(partitions)
        if queue:
            self._queued[leader] = queue
        self._asked[leader] = None
        return batch

    def on_answered(
        self, leader: int, batch: Batch, error_of: Callable[[Ending, TopicPartition], ErrorCode]
    ) -> list[tuple[Ending, TopicPartition, ErrorCode]]:
        """Note the results in a leader's answer; return the refused markers, to be logged."""
        del self._asked[leader]
        refused: list[tuple[Ending, TopicPartition, ErrorCode]] = []
        for ending, partitions in batch:
            for partition in partitions:
                error = error_of(ending, partition)
                if error:
                    refused.append((ending, partition, error))
                self._on_result(ending, partition, error)
        return refused

    def on_failed(self, leader: int, batch: Batch) -> None:
        """Let all markers of a request rest, because it got no answer."""
        del self._asked[leader]
        self._rest(batch)

    def finished(self) -> list[Ending]:
        """Return the transactions whose markers have all been written since the last call."""
        finished, self._finished = self._finished, []
        return [each for each in finished if not each.is_dropped]

    def _on_result(self, ending: Ending, partition: TopicPartition, error: ErrorCode) -> None:
        if ending.is_dropped:
            return
        if error in NOT_NEEDED:
            self._written(ending, partition)
        elif error is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
            # A newer coordinator has written a marker there, and writes the others.
            self._drop(ending)
        else:
            self._resting.setdefault(ending, {})[partition] = None

    def _rest(self, batch: Batch) -> None:
        for ending, partitions in batch:
            if not ending.is_dropped:
                self._resting.setdefault(ending, {}).update(dict.fromkeys(partitions))

    def _written(self, ending: Ending, partition: TopicPartition) -> None:
        if ending.missing.pop(partition, 0) is None and not ending.missing:
            self._finish(ending)

    def _finish(self, ending: Ending) -> None:
        del self._endings[ending.transaction.transactional_id]
        self._finished.append(ending)

    def _drop(self, ending: Ending) -> None:
        ending.is_dropped = True
        if self._endings.get(ending.transaction.transactional_id) is ending:
            del self._endings[ending.transaction.transactional_id]
        for waiting in (self._fresh, self._resting, *self._queued.values()):
            waiting.pop(ending, None)
        for leader in [each for each, queue in self._queued.items() if not queue]:
            del self._queued[leader]

    def check_invariants(self) -> None:
        """Assert that each waiting marker waits in one place only, and is not written yet."""
        for ending in self._endings.values():
            places = [self._fresh, self._resting, *self._queued.values()]
            waiting = [each for place in places for each in place.get(ending, ())]
            assert len(waiting) == len(dict.fromkeys(waiting)), f"{ending!r}: twice on its way"
            assert all(each in ending.missing for each in waiting), f"{ending!r}: written and sent"
