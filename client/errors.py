"""The errors of clients, all below ClientError; each says what failed and what would help.

An error code in a broker's answer is an `ApiError`. Most errors here are found by the client
itself: no broker can be reached, a timeout has passed, the buffer is full.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..protocol.errors import ApiError
from ..protocol.types import TopicPartition
from .net.errors import HANDSHAKE, LOG_IN
from .net.errors import Attempt as Attempt
from .net.errors import ClientClosed as ClientClosed
from .net.errors import ClientError as ClientError
from .net.errors import ConnectError as ConnectError
from .net.errors import ConnectionLost as ConnectionLost
from .net.errors import RequestTimedOut as RequestTimedOut
from .net.errors import UnsupportedVersion as UnsupportedVersion
from .partitions import name_of


class BootstrapError(ClientError):
    """No bootstrap server could be used; the text gives each address, the failed phase and why."""

    def __init__(self, attempts: Sequence[Attempt]) -> None:
        super().__init__(attempts)
        self.attempts = tuple(attempts)

    @property
    def is_final(self) -> bool:
        """True if every address refused the login or TLS, so that trying again will not help."""
        refused = (LOG_IN, HANDSHAKE)
        return bool(self.attempts) and all(each.phase in refused for each in self.attempts)

    def __str__(self) -> str:
        tried = "; ".join(f"{a.address}: {a.phase}: {a.cause}" for a in self.attempts)
        return f"no bootstrap server answered ({tried or 'none configured'})"


class ForkedClient(ClientError):
    """A client was used in a forked child process, which must open a client of its own."""


@dataclass(eq=False, repr=False)
class DeliveryTimeout(ClientError):
    """A record was not acknowledged within delivery_timeout_ms; `last_error` says why.

    If the record was sent, it may nevertheless be in the log.
    """

    partition: TopicPartition
    waited_ms: int
    last_error: str

    def __str__(self) -> str:
        where = self.partition.topic if self.partition.partition < 0 else name_of(self.partition)
        return f"{where}: not acknowledged within {self.waited_ms} ms ({self.last_error})"


@dataclass(eq=False, repr=False)
class DeliveryFailed(ClientError):
    """A broker refused a record for good; `error` is its answer."""

    partition: TopicPartition | None
    error: ApiError

    def __str__(self) -> str:
        if self.partition is None:
            return str(self.error)
        return f"{name_of(self.partition)}: {self.error}"


class ProducerFenced(DeliveryFailed):
    """A newer producer, of the same transactional id if it has one, took this producer's place.

    `partition` is None if the transaction coordinator refused. If this producer is the one that
    should run, open it again.
    """


class TransactionError(ClientError):
    """The base class of errors about transactions."""


class TransactionMisuse(TransactionError):
    """The transaction's state does not allow the call, which changed nothing."""


class TransactionAborted(TransactionError):
    """A record was not sent, because its transaction was aborted or can only be aborted."""


@dataclass(eq=False, repr=False)
class TransactionAbortable(TransactionError):
    """The transaction can only be aborted; afterwards the application can do its work again.

    `cause` is the first error in the transaction.
    """

    cause: Exception

    def __str__(self) -> str:
        return f"the transaction can only be aborted: {self.cause}"


@dataclass(eq=False, repr=False)
class TransactionFailed(TransactionError):
    """This producer can do no more transactions: close it and open another; `cause` says why."""

    cause: Exception

    def __str__(self) -> str:
        return f"this producer can do no more transactions: {self.cause}"


@dataclass(eq=False, repr=False)
class MessageTooLarge(ClientError):
    """A record exceeds max_request_size, and was not sent."""

    size: int
    limit: int

    def __str__(self) -> str:
        return (
            f"a record of {self.size} bytes exceeds max.request.size={self.limit}: raise that of "
            "the producer (of a tool: --producer-property max.request.size=BYTES), and the topic's "
            "max.message.bytes where it is less"
        )


class BufferFull(ClientError):
    """The producer holds buffer_memory bytes of records; waiting for max_block_ms did not help."""


@dataclass(eq=False, repr=False)
class UnknownTopic(ClientError):
    """The cluster has no such topic or partition, even after a wait for its creation."""

    name: str
    detail: str = "the cluster does not have it"

    def __str__(self) -> str:
        return f"{self.name}: {self.detail}"


@dataclass(eq=False, repr=False)
class NoOffsetForPartition(ClientError):
    """A partition has no position and auto_offset_reset is none."""

    partition: TopicPartition

    def __str__(self) -> str:
        return f"{name_of(self.partition)}: no position, and auto_offset_reset=none"


@dataclass(eq=False, repr=False)
class OffsetOutOfRange(ClientError):
    """The position is outside the log and auto_offset_reset is none."""

    partition: TopicPartition
    offset: int

    def __str__(self) -> str:
        return f"{name_of(self.partition)}: the log does not hold offset {self.offset}"


@dataclass(eq=False, repr=False)
class LogTruncated(ClientError):
    """Records already read are no longer in the log (KIP-320) and auto_offset_reset is none.

    `diverging_offset` is the first offset at which the log is known to differ from the records
    read, or None if that is unknown.
    """

    partition: TopicPartition
    position: int
    diverging_offset: int | None

    def __str__(self) -> str:
        since = "" if self.diverging_offset is None else f" from offset {self.diverging_offset} on"
        where = f"{name_of(self.partition)}: the log was truncated"
        return f"{where} below position {self.position}{since}"


@dataclass(eq=False, repr=False)
class CorruptRecord(ClientError):
    """A fetched batch failed its checksum or cannot be decoded; the position stays before it.

    `next_offset` is the offset behind the batch: `seek(error.partition, error.next_offset)` skips
    the batch. It is None if the checksum failed, because then the batch's header cannot be trusted
    either; another poll may get the batch intact.
    """

    partition: TopicPartition
    offset: int
    why: str
    next_offset: int | None = None

    def __str__(self) -> str:
        on = "" if self.next_offset is None else f"; seek to {self.next_offset} to go on without it"
        return f"{name_of(self.partition)} at offset {self.offset}: {self.why}{on}"


@dataclass(eq=False, repr=False)
class BadRecord(ClientError):
    """A deserializer raised `cause` for a record; `seek` past the record to skip it."""

    partition: TopicPartition
    offset: int
    cause: BaseException

    def __str__(self) -> str:
        return f"{name_of(self.partition)} at offset {self.offset}: {self.cause!r}"


class ConcurrentPoll(ClientError):
    """Two tasks polled the same consumer at the same time; each task needs its own consumer."""


class NothingToRead(ClientError):
    """A consumer without subscription or assignment was polled."""

    def __str__(self) -> str:
        return "the consumer has nothing to read: subscribe to topics or assign partitions first"


class AdminError(ClientError):
    """Some of the operations of one call were refused; the others were carried out.

    `errors` maps each refused name to the broker's answer.
    """

    def __init__(self, errors: Mapping[str, ApiError]) -> None:
        super().__init__(errors)
        self.errors = dict(errors)

    def __str__(self) -> str:
        return "; ".join(f"{name}: {error}" for name, error in self.errors.items())
