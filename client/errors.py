"""The errors of clients: one tree under ClientError, each says what failed and what would help.

A broker's own answer stays an `ApiError` (its code decides whether to retry); these are for what
no broker said: nobody reachable, time over, buffer full. Nothing here decides to retry.
"""

from collections.abc import Mapping, Sequence

from ..protocol.errors import ApiError
from ..protocol.types import TopicPartition
from .net.errors import Attempt as Attempt
from .net.errors import ClientClosed as ClientClosed
from .net.errors import ClientError as ClientError
from .net.errors import ConnectError as ConnectError
from .net.errors import ConnectionLost as ConnectionLost
from .net.errors import RequestTimedOut as RequestTimedOut
from .net.errors import UnsupportedVersion as UnsupportedVersion


class BootstrapError(ClientError):
    """No bootstrap server could be used: names each address, the phase it failed in, and why."""

    def __init__(self, attempts: Sequence[Attempt]) -> None:
        super().__init__(attempts)
        self.attempts = tuple(attempts)

    def __str__(self) -> str:
        tried = "; ".join(f"{a.address}: {a.phase}: {a.cause}" for a in self.attempts)
        return f"no bootstrap server answered ({tried or 'none configured'})"


class ForkedClient(ClientError):
    """Used in a forked child: threads and connections belong to the parent. Open another one."""


class DeliveryTimeout(ClientError):
    """A record was not acknowledged within delivery_timeout_ms; `last_error` says why.

    If the record had been sent, it may still be in the log.
    """

    def __init__(self, partition: TopicPartition, waited_ms: int, last_error: str) -> None:
        super().__init__(partition, waited_ms, last_error)
        self.partition = partition
        self.waited_ms = waited_ms
        self.last_error = last_error

    def __str__(self) -> str:
        topic, index = self.partition
        where = topic if index < 0 else f"{topic}-{index}"
        return f"{where}: not acknowledged within {self.waited_ms} ms ({self.last_error})"


class DeliveryFailed(ClientError):
    """A broker refused a record for good; `error` is its answer."""

    def __init__(self, partition: TopicPartition | None, error: ApiError) -> None:
        super().__init__(partition, error)
        self.partition = partition
        self.error = error

    def __str__(self) -> str:
        if self.partition is None:
            return str(self.error)
        return f"{self.partition.topic}-{self.partition.partition}: {self.error}"


class ProducerFenced(DeliveryFailed):
    """A newer producer, of the same transactional id if it has one, took this producer's place.

    `partition` is None where the transaction coordinator said so. If this is the producer that
    should live, open it again.
    """


class TransactionError(ClientError):
    """Anything wrong with a transaction."""


class TransactionMisuse(TransactionError):
    """A call that the transaction's present state does not allow; nothing has changed."""


class TransactionAborted(TransactionError):
    """A record that was not sent, because its transaction was aborted or can only be aborted."""


class TransactionAbortable(TransactionError):
    """The transaction can only be aborted; after that its work can be done again.

    `cause` is what went wrong first.
    """

    def __init__(self, cause: Exception) -> None:
        super().__init__(cause)
        self.cause = cause

    def __str__(self) -> str:
        return f"the transaction can only be aborted: {self.cause}"


class TransactionFailed(TransactionError):
    """This producer can do no more transactions: close it and open another; `cause` says why."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(cause)
        self.cause = cause

    def __str__(self) -> str:
        return f"this producer can do no more transactions: {self.cause}"


class MessageTooLarge(ClientError):
    """A record exceeds max_request_size: nothing of it was sent."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(size, limit)
        self.size = size
        self.limit = limit

    def __str__(self) -> str:
        return (
            f"a record of {self.size} bytes exceeds max.request.size={self.limit}: raise that of "
            "the producer (of a tool: --producer-property max.request.size=BYTES), and the topic's "
            "max.message.bytes where it is less"
        )


class BufferFull(ClientError):
    """The producer holds buffer_memory bytes and no room came within max_block_ms."""


class UnknownTopic(ClientError):
    """The cluster has no such topic or partition, and did not create it in the time allowed."""

    def __init__(self, name: str, detail: str = "the cluster does not have it") -> None:
        super().__init__(name, detail)
        self.name = name
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.name}: {self.detail}"


class NoOffsetForPartition(ClientError):
    """A partition has no position and auto_offset_reset is none."""

    def __init__(self, partition: TopicPartition) -> None:
        super().__init__(partition)
        self.partition = partition

    def __str__(self) -> str:
        topic, index = self.partition
        return f"{topic}-{index}: no position, and auto_offset_reset=none"


class OffsetOutOfRange(ClientError):
    """The position is outside the log and auto_offset_reset is none."""

    def __init__(self, partition: TopicPartition, offset: int) -> None:
        super().__init__(partition, offset)
        self.partition = partition
        self.offset = offset

    def __str__(self) -> str:
        topic, index = self.partition
        return f"{topic}-{index}: the log does not hold offset {self.offset}"


class LogTruncated(ClientError):
    """Records already read are no longer in the log (KIP-320) and auto_offset_reset is none.

    `diverging_offset` is the first offset known to differ, or None when that is unknown.
    """

    def __init__(
        self, partition: TopicPartition, position: int, diverging_offset: int | None
    ) -> None:
        super().__init__(partition, position, diverging_offset)
        self.partition = partition
        self.position = position
        self.diverging_offset = diverging_offset

    def __str__(self) -> str:
        topic, index = self.partition
        since = "" if self.diverging_offset is None else f" from offset {self.diverging_offset} on"
        return f"{topic}-{index}: the log was truncated below position {self.position}{since}"


class CorruptRecord(ClientError):
    """A fetched batch failed its checksum or cannot be decoded; the position stays at it.

    `next_offset` is where the log goes on behind it: `seek(error.partition, error.next_offset)`
    gives its records up. None where the checksum failed, so that nothing in it can be believed:
    another poll may get it whole.
    """

    def __init__(
        self, partition: TopicPartition, offset: int, why: str, next_offset: int | None = None
    ) -> None:
        super().__init__(partition, offset, why, next_offset)
        self.partition = partition
        self.offset = offset
        self.why = why
        self.next_offset = next_offset

    def __str__(self) -> str:
        topic, index = self.partition
        on = "" if self.next_offset is None else f"; seek to {self.next_offset} to go on without it"
        return f"{topic}-{index} at offset {self.offset}: {self.why}{on}"


class BadRecord(ClientError):
    """A deserializer raised `cause` for a record; `seek` past it to go on."""

    def __init__(self, partition: TopicPartition, offset: int, cause: BaseException) -> None:
        super().__init__(partition, offset, cause)
        self.partition = partition
        self.offset = offset
        self.cause = cause

    def __str__(self) -> str:
        topic, index = self.partition
        return f"{topic}-{index} at offset {self.offset}: {self.cause!r}"


class ConcurrentPoll(ClientError):
    """Two tasks polled one consumer at a time: give each a consumer of its own."""


class NothingToRead(ClientError):
    """A poll of a consumer without subscription or assignment: it would wait in vain."""

    def __str__(self) -> str:
        return "the consumer has nothing to read: subscribe to topics or assign partitions first"


class AdminError(ClientError):
    """Some of the things asked for in one call were refused; the others were done.

    `errors` maps each refused name to the broker's answer.
    """

    def __init__(self, errors: Mapping[str, ApiError]) -> None:
        super().__init__(errors)
        self.errors = dict(errors)

    def __str__(self) -> str:
        return "; ".join(f"{name}: {error}" for name, error in self.errors.items())
