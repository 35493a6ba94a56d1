"""Checks the records of a batch, or finds one by timestamp, without making record objects.

Brokers use it where a batch's header does not suffice. A compressed batch is decompressed up to as
many bytes as the caller allows. The sender of a batch chooses how far it expands, so the caller
allows few bytes on its event loop and leaves larger batches to a worker process.
"""

from typing import Final, NamedTuple

from ..compression import MAX_DECOMPRESSED_BYTES, ExpandsTooFar
from ..delays import BY_HEADER, SAID, DelayRule
from ..errors import ApiError, ErrorCode, RemoteProtocolError
from ..expiry import TtlRule, read_expiry
from ..types import Buffer
from .batch_header import BatchHeader, TimestampType
from .record_backend import BadRecord, decode_named, examine, first_at
from .record_python import MOST_NAMED
from .records import Record, record_view

INT64_MIN: Final = -(1 << 63)
INT64_MAX: Final = (1 << 63) - 1


class RecordRules(NamedTuple):
    """The rules that the records of a well-formed batch must keep."""

    needs_keys: bool = False
    earliest_ms: int = INT64_MIN
    """The earliest timestamp allowed; records without a timestamp (-1) are never too early."""
    latest_ms: int = INT64_MAX
    delay: DelayRule | None = None
    """How records of a delay topic say when they are due; None for other topics."""
    now_ms: int = 0
    """The time at which `delay` is checked."""
    ttl: TtlRule | None = None
    """When records expire, if they may say so; None for other topics."""
    max_bytes: int = MAX_DECOMPRESSED_BYTES
    """The most bytes of the records after decompression."""


class RecordError(NamedTuple):
    """One record that breaks a rule, as a produce response names it (KIP-467)."""

    batch_index: int
    """The index of the record in the batch, from 0."""
    message: str


class RefusedRecords(ApiError):
    """A batch is refused because of its records; `record_errors` names up to 100 of them."""

    def __init__(
        self, code: ErrorCode, detail: str, record_errors: tuple[RecordError, ...] = ()
    ) -> None:
        super().__init__(code, detail)
        self.record_errors = record_errors


class Verdict(NamedTuple):
    """The result of checking a batch, a plain value that a worker process can return."""

    max_timestamp: int = -1
    """The greatest timestamp of the records in ms, whatever the header says; -1 if refused."""
    byte_count: int = 0
    """The size of the records after decompression; 0 if the batch could not be opened."""
    error: ErrorCode = ErrorCode.NONE
    detail: str = ""
    record_errors: tuple[RecordError, ...] = ()
    targets: tuple[tuple[str, int], ...] = ()
    """The topics that records name as their targets, each with the index of the first that does."""

    def raise_if_refused(self) -> None:
        """Raise RefusedRecords if the check found an error."""
        if self.error:
            raise RefusedRecords(self.error, self.detail, self.record_errors)


def judge(
    buf: Buffer,
    header: BatchHeader,
    rules: RecordRules,
    max_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> Verdict:
    """Check all records of a client's batch whose header has been checked already.

    The verdict is INVALID_RECORD if a record is malformed or lacks a required key, and
    INVALID_TIMESTAMP if a timestamp is out of bounds, as in Kafka. Raise ExpandsTooFar if the batch
    is larger than `max_bytes` after decompression.
    """
    base = header.base_timestamp
    earliest = INT64_MIN if base < 0 else _within(rules.earliest_ms - base)
    latest = _within(rules.latest_ms - base)
    try:
        body = record_view(buf, 0, header, max_bytes)
        _, highest, keyless, untimely = examine(
            body, header.record_count, rules.needs_keys, earliest, latest
        )
    except ExpandsTooFar:
        raise
    except RemoteProtocolError as error:
        return Verdict(error=ErrorCode.INVALID_RECORD, detail=str(error))
    except BadRecord as error:
        detail = f"{header!r}: {error}"
        named = () if error.index < 0 else (RecordError(error.index, str(error)),)
        return Verdict(-1, len(body), ErrorCode.INVALID_RECORD, detail, named)
    if untimely:
        why = f"the timestamp is not within [{rules.earliest_ms}, {rules.latest_ms}]"
        return _refusal(len(body), ErrorCode.INVALID_TIMESTAMP, untimely, why)
    if keyless:
        why = "a compacted topic takes no record without key"
        return _refusal(len(body), ErrorCode.INVALID_RECORD, keyless, why)
    if base + highest > INT64_MAX:
        return Verdict(-1, len(body), ErrorCode.INVALID_TIMESTAMP, "a timestamp beyond 64 bits")
    verdict = Verdict(base + highest, len(body))
    if rules.delay is None and rules.ttl is None:
        return verdict
    return _judge_headers(body, header, rules, verdict)


def _judge_headers(
    body: Buffer, header: BatchHeader, rules: RecordRules, verdict: Verdict
) -> Verdict:
    """Return the verdict, or a refusal if records say wrongly when and where they go, or expire."""
    delay = rules.delay
    may_be_silent = delay is None or (delay.by == BY_HEADER and not delay.targets)
    if may_be_silent and not says_anything(body):
        return verdict
    place = (0, header.base_timestamp, TimestampType.CREATE_TIME)
    code = ErrorCode.NONE
    named: list[RecordError] = []
    targets: dict[str, int] = {}
    found: list[Record] = decode_named(body, header.record_count, place, Record, SAID)
    for index, record in enumerate(found):
        try:
            if delay is not None:
                target = delay.check(record.timestamp, record.headers, rules.now_ms)
                if target:
                    targets.setdefault(target, index)
            else:
                read_expiry(record.timestamp, record.headers)
        except ApiError as error:
            code = code or error.code
            named.append(RecordError(index, error.detail))
            if len(named) == MOST_NAMED:
                break
    if not named:
        return verdict._replace(targets=tuple(targets.items())) if targets else verdict
    detail = f"record {named[0].batch_index} of the batch: {named[0].message}"
    return Verdict(-1, len(body), code, detail, tuple(named))


def says_anything(body: Buffer) -> bool:
    """Return False if no header can say when a record is due or expires, or where it goes.

    This is a quick search.
    """
    data = body if isinstance(body, bytes) else bytes(body)
    return any(name.encode() in data for name in SAID)


def _refusal(size: int, code: ErrorCode, indexes: tuple[int, ...], why: str) -> Verdict:
    named = tuple(RecordError(index, why) for index in indexes)
    return Verdict(-1, size, code, f"record {indexes[0]} of the batch: {why}", named)


def judge_in_full(batch: bytes, rules: RecordRules) -> Verdict:
    """Check a whole batch as `judge` does, up to the limit of the rules.

    A worker process runs this function. The verdict is MESSAGE_TOO_LARGE if the batch expands
    beyond the limit.
    """
    try:
        return judge(batch, BatchHeader(batch), rules, rules.max_bytes)
    except ExpandsTooFar as error:
        return too_large(error)


def too_large(error: ExpandsTooFar) -> Verdict:
    """Return the verdict on a batch that expands beyond the limit of its topic."""
    return Verdict(error=ErrorCode.MESSAGE_TOO_LARGE, detail=f"decompressed: {error}")


def find(
    batch: Buffer,
    timestamp: int,
    first_offset: int,
    max_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> tuple[int, int] | None:
    """Return (timestamp, offset) of the first record that has at least the given ones.

    Return None if there is no such record. Raise RemoteProtocolError if the batch cannot be read,
    ExpandsTooFar if it is larger than `max_bytes` after decompression.
    """
    header = BatchHeader(batch)
    if header.max_timestamp < timestamp or header.last_offset < first_offset:
        return None
    is_by_broker = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    delta = INT64_MIN if is_by_broker else _within(timestamp - header.base_timestamp)
    place = _within(first_offset - header.base_offset)
    body = record_view(batch, 0, header, max_bytes)
    try:
        found = first_at(body, header.record_count, delta, place)
    except BadRecord as error:
        raise RemoteProtocolError(f"{header!r}: {error}") from error
    if found is None:
        return None
    delta, place = found
    when = header.max_timestamp if is_by_broker else header.base_timestamp + delta
    return when, header.base_offset + place


def _within(number: int) -> int:
    return max(INT64_MIN, min(INT64_MAX, number))
