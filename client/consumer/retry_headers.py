"""The headers of records that are tried again and of dead letters (KIP-1191, and our own).

Pure. What is said of the first failure stays as it is, because that tells most: where the record
was, and when it failed first. The attempt and the last error are replaced.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from ...protocol.delays import DELAY_MS, DELIVER_AT, DUE, HOPS, SOURCE
from ...protocol.records.record_batch import Headers

ATTEMPT: Final = "minikafka-attempt"
FIRST_FAILED_AT: Final = "minikafka-first-failed-at"
ORDER: Final = "minikafka-order"
"""The place of a record in the order of its key (`retry_order`)."""
REQUEUED: Final = "minikafka-requeued"
TRUNCATED: Final = "minikafka-truncated"
DLQ: Final = "__dlq.errors."
STACKTRACE_BYTES: Final = 4_096
MESSAGE_BYTES: Final = 1_024
_OF_LAST_FAILURE: Final = ("delivery.count", "message", "exception", "timestamp", "stacktrace")
OF_TRAVEL: Final = (DELIVER_AT, DELAY_MS, DUE, HOPS, SOURCE, ORDER)
"""The headers of one way through a delay topic, which the next way does not need."""


class Origin(NamedTuple):
    """The place where a record was read first, and the group that has read it."""

    topic: str
    partition: int
    offset: int
    group: str


class Failure(NamedTuple):
    """A record's failure: what failed, where, and when."""

    topic: str
    partition: int
    offset: int
    group: str
    at_ms: int
    """Wall time in ms."""
    error: BaseException
    stacktrace: str = ""

    @property
    def origin(self) -> Origin:
        """The record's place."""
        return Origin(*self[:4])


def attempt_of(headers: Headers) -> int:
    """Return how often a record was tried again; 0 if its header is missing or no number."""
    return _number(headers, ATTEMPT)


def due_of(headers: Headers) -> int:
    """Return when a record that has come back was due, in ms since the epoch; 0 if it says none."""
    return _number(headers, DUE)


def retry_headers(headers: Headers, failure: Failure, due_ms: int, order: str = "") -> Headers:
    """Return the headers with which a record waits for its next attempt."""
    said = {ATTEMPT: str(attempt_of(headers) + 1), DELIVER_AT: str(due_ms)}
    if order:
        said[ORDER] = order
    return _with(headers, _first_failure(failure), said)


def behind_headers(headers: Headers, origin: Origin, due_ms: int, order: str) -> Headers:
    """Return the headers with which a record waits for its turn: no attempt is used up."""
    return _with(headers, _origin(origin), {DELIVER_AT: str(due_ms), ORDER: order})


def dead_letter_headers(headers: Headers, failure: Failure) -> Headers:
    """Return the headers of a dead letter."""
    error = failure.error
    said = {
        ATTEMPT: str(attempt_of(headers)),
        DLQ + "delivery.count": str(attempt_of(headers) + 1),
        DLQ + "message": _cut(_text_of(error), MESSAGE_BYTES),
        DLQ + "exception": f"{type(error).__module__}.{type(error).__qualname__}",
        DLQ + "timestamp": str(failure.at_ms),
    }
    if failure.stacktrace:
        said[DLQ + "stacktrace"] = _cut(failure.stacktrace, STACKTRACE_BYTES, at_end=True)
    return _with(headers, _first_failure(failure), said)


def truncated(headers: Headers) -> Headers:
    """Return the headers of a dead letter whose value was too large to be kept."""
    return _with(headers, {}, {TRUNCATED: "true"})


def is_truncated(headers: Headers) -> bool:
    """Return whether a dead letter was too large, and lost its value."""
    return any(name == TRUNCATED for name, _ in headers)


def requeued_headers(headers: Headers) -> Headers:
    """Return the headers of a dead letter that is tried again from its first attempt.

    What is said of the first failure stays, what is said of the last one goes.
    """
    gone = (ATTEMPT, *(DLQ + each for each in _OF_LAST_FAILURE))
    kept = [each for each in headers if each[0] not in gone]
    return _with(kept, {}, {REQUEUED: str(_number(headers, REQUEUED) + 1)})


def _first_failure(failure: Failure) -> Mapping[str, str]:
    return {**_origin(failure.origin), FIRST_FAILED_AT: str(failure.at_ms)}


def _origin(origin: Origin) -> Mapping[str, str]:
    return {
        DLQ + "topic": origin.topic,
        DLQ + "partition": str(origin.partition),
        DLQ + "offset": str(origin.offset),
        DLQ + "group": origin.group,
    }


def _with(headers: Headers, once: Mapping[str, str], said: Mapping[str, str]) -> Headers:
    """Return the headers with those of `said`, and those of `once` that are not there."""
    present = dict.fromkeys(name for name, _ in headers)
    kept = [each for each in headers if each[0] not in said and each[0] not in OF_TRAVEL]
    new = {name: text for name, text in once.items() if name not in present} | dict(said)
    return [*kept, *((name, text.encode()) for name, text in new.items())]


def _number(headers: Headers, name: str) -> int:
    for each, value in headers:
        if each == name and value is not None and value.isdigit() and len(value) < 20:
            return int(value)
    return 0


def _text_of(error: BaseException) -> str:
    """Return what an exception says, or else its name: a program's own may fail to say it."""
    with suppress(Exception):
        return str(error) or type(error).__name__
    return type(error).__name__


def _cut(text: str, most: int, *, at_end: bool = False) -> str:
    """Return a text of at most so many bytes in UTF-8: its beginning, or its end."""
    # Half a surrogate pair, as JSON may have it, is in no UTF-8.
    data = text.encode(errors="replace")
    part = data[-most:] if at_end else data[:most]
    return part.decode(errors="ignore")


class Letter(NamedTuple):
    """The story that the headers of a dead letter tell; each field is empty if they do not."""

    topic: str
    partition: str
    offset: str
    group: str
    message: str
    exception: str
    attempts: str


_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "topic": (DLQ + "topic", "__connect.errors.topic", "__streams.errors.topic"),
    "partition": (DLQ + "partition", "__connect.errors.partition", "__streams.errors.partition"),
    "offset": (DLQ + "offset", "__connect.errors.offset", "__streams.errors.offset"),
    "group": (DLQ + "group", "kafka_dlt-original-consumer-group"),
    "message": (
        DLQ + "message",
        "__connect.errors.exception.message",
        "__streams.errors.message",
        "kafka_dlt-exception-message",
    ),
    "exception": (
        DLQ + "exception",
        "__connect.errors.exception.class.name",
        "__streams.errors.exception",
        "kafka_dlt-exception-fqcn",
    ),
    "attempts": (DLQ + "delivery.count",),
}
_SPRING: Final = {
    "topic": "kafka_dlt-original-topic",
    "partition": "kafka_dlt-original-partition",
    "offset": "kafka_dlt-original-offset",
}
"""Spring writes numbers as big-endian integers of 4 and 8 bytes."""
_OF_SPRING: Final = "kafka_dlt-"
_NUMBERS: Final = ("partition", "offset", "timestamp")


def letter_of(headers: Headers) -> Letter:
    """Read the headers of a dead letter: ours, KIP-1191's, Connect's, KIP-1034's or Spring's."""
    told = dict(headers)
    return Letter(*(_told(told, field) for field in Letter._fields))


def readable(name: str, value: bytes | None) -> str | None:
    """Return a header's value as text: Spring's numbers are read, bytes that are none escaped."""
    if value is None:
        return None
    if name.startswith(_OF_SPRING) and name.endswith(_NUMBERS) and len(value) in (4, 8):
        return str(int.from_bytes(value, signed=True))
    return value.decode(errors="backslashreplace")


def _told(told: Mapping[str, bytes | None], field: str) -> str:
    return next(_texts(told, field), "")


def _texts(told: Mapping[str, bytes | None], field: str) -> Iterator[str]:
    for name in _NAMES[field]:
        if (value := told.get(name)) is not None:
            yield value.decode(errors="replace")
    name = _SPRING.get(field, "")
    if (text := readable(name, told.get(name))) is not None:
        yield text
