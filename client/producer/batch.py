"""A batch of records for one partition, and its outcome.

Pure. A batch is encoded once, when it is first sent. If it gets another sequence, a copy of the
bytes is changed, because an earlier attempt's bytes may still wait in a socket's buffer.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ...protocol.records.record_batch import BatchBuilder, rewrite_producer
from ...protocol.types import NO_EPOCH, NO_OFFSET, NO_PRODUCER_ID, NO_TIMESTAMP, TopicPartition
from ..errors import ClientError

NO_SEQUENCE: Final = -1
SEQUENCE_MASK: Final = 0x7FFFFFFF
"""Sequences run to 2147483647 and start again at 0."""


class ProducerIdentity(NamedTuple):
    """The producer id and epoch under which a partition's batches are sequenced."""

    producer_id: int
    epoch: int


UNNUMBERED: Final = ProducerIdentity(NO_PRODUCER_ID, NO_EPOCH)


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The batch is in the log (with acks=0: it was sent)."""

    base_offset: int = NO_OFFSET
    log_append_time_ms: int = NO_TIMESTAMP


Outcome = Acknowledged | ClientError


@dataclass(slots=True, eq=False, repr=False)
class Batch:
    """Records for one partition that are sent, retried and acknowledged together."""

    partition: TopicPartition
    builder: BatchBuilder | None
    """The builder that records are appended to; None once the batch is encoded or completed."""
    created_ms: int
    deadline_ms: int
    size: int = 0
    record_count: int = 0
    is_closed: bool = False
    encoded: bytearray | None = None
    identity: ProducerIdentity = UNNUMBERED
    base_sequence: int = NO_SEQUENCE
    order: int = -1
    """The batch's number within its partition and identity, from 0; -1 before it is sent."""
    attempt: int = 0
    """The number of times the batch was sent; answers to earlier sendings are ignored."""
    last_error: str = "not sent yet"
    outcome: Outcome | None = None
    watchers: list[Callable[["Batch"], None]] = field(default_factory=list)

    def encode(self) -> bytearray:
        """Return the bytes to send, with the producer id, epoch and sequence that `number` set."""
        if self.encoded is None:
            assert self.builder is not None
            self.encoded = self.builder.build(
                producer_id=self.identity.producer_id,
                producer_epoch=self.identity.epoch,
                base_sequence=self.base_sequence,
            )
            self.builder = None
        return self.encoded

    def number(self, identity: ProducerIdentity, base_sequence: int, order: int) -> None:
        """Set the producer id, epoch, base sequence and order; change encoded bytes to match."""
        self.identity = identity
        self.base_sequence = base_sequence
        self.order = order
        if self.encoded is not None:
            again = bytearray(self.encoded)
            rewrite_producer(
                again,
                0,
                producer_id=identity.producer_id,
                epoch=identity.epoch,
                base_sequence=base_sequence,
            )
            self.encoded = again

    def complete(self, outcome: Outcome) -> None:
        """Set the batch's outcome and call its watchers; a second call does nothing."""
        if self.outcome is not None:
            return
        self.outcome = outcome
        self.encoded = None
        self.builder = None
        watchers, self.watchers = self.watchers, []
        for watcher in watchers:
            watcher(self)

    def when_done(self, watcher: Callable[["Batch"], None]) -> None:
        """Call `watcher` when the batch has an outcome, or now if it has one already."""
        if self.outcome is None:
            self.watchers.append(watcher)
        else:
            watcher(self)
