"""One batch on its way to one partition, and its outcome.

Pure. A batch is built once, when it is first sent; it is numbered again only in a copy, because
an earlier attempt's bytes may still wait in a socket's buffer.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from ...protocol.records.record_batch import BatchBuilder, Codec, rewrite_producer
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


class Batch:
    """Records for one partition that travel, are retried and are answered together."""

    __slots__ = (
        "attempt",
        "base_sequence",
        "builder",
        "created_ms",
        "deadline_ms",
        "encoded",
        "identity",
        "is_closed",
        "last_error",
        "order",
        "outcome",
        "partition",
        "record_count",
        "size",
        "watchers",
    )

    def __init__(
        self,
        partition: TopicPartition,
        codec: Codec,
        created_ms: int,
        deadline_ms: int,
        *,
        is_transactional: bool = False,
    ) -> None:
        self.partition = partition
        self.created_ms = created_ms
        self.deadline_ms = deadline_ms
        self.builder: BatchBuilder | None = BatchBuilder(codec, is_transactional=is_transactional)
        self.size = 0
        self.record_count = 0
        self.is_closed = False
        self.encoded: bytearray | None = None
        self.identity = UNNUMBERED
        self.base_sequence = NO_SEQUENCE
        self.order = -1
        """Place among the partition's batches under one identity, from the first sending on."""
        self.attempt = 0
        """Grows with each sending: an answer to an earlier sending does not count."""
        self.last_error = "not sent yet"
        self.outcome: Outcome | None = None
        self.watchers: list[Callable[[Batch], None]] = []

    def encode(self) -> bytearray:
        """Give the bytes to send, numbered as last decided."""
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
        """Give the batch its place in the producer's sequence, or another one."""
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
        """Settle the batch's outcome, once, and tell its watchers."""
        if self.outcome is not None:
            return
        self.outcome = outcome
        self.encoded = None
        self.builder = None
        watchers, self.watchers = self.watchers, []
        for watcher in watchers:
            watcher(self)

    def when_done(self, watcher: Callable[["Batch"], None]) -> None:
        """Call `watcher` once there is an outcome; at once if there is one."""
        if self.outcome is None:
            self.watchers.append(watcher)
        else:
            watcher(self)
