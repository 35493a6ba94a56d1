"""Checks a producer's batch at the topic's validation level before it gets offsets, and stamps it.

The 61-byte header and the checksum are checked at every level of `minikafka.records.validation`. To
walk records means to check each one. The levels are:

    batch        no further check
    structure    records of uncompressed batches are walked, in C and without a copy
    full         records of compressed batches are decompressed and walked, too
    auto         structure if the compiled codec is installed, else batch

In a compacted topic all records are walked at every level, because each needs a key. So are the
records of a batch whose header lacks the greatest timestamp. A batch that expands too far for the
event loop raises NeedsOpening, and a worker process judges it. Nothing here appends a batch.
"""

import struct
from functools import lru_cache

from ...protocol.compression import MAX_DECOMPRESSED_BYTES, ExpandsTooFar
from ...protocol.errors import ApiError, ErrorCode
from ...protocol.records import record_backend
from ...protocol.records.batch_header import CODEC_MASK, rewrite_max_timestamp
from ...protocol.records.record_backend import highest_delta
from ...protocol.records.record_batch import (
    HEADER_SIZE,
    BatchHeader,
    rewrite_as_log_append_time,
    stamp,
    validate_for_append,
)
from ...protocol.records.record_checks import (
    INT64_MAX,
    INT64_MIN,
    RecordRules,
    Verdict,
    judge,
    says_anything,
    too_large,
)
from ...storage.topic_config import TopicConfig

NO_LIMIT_MS = 2**63 - 1
OPENED_AT_ONCE = 2 << 20
"""The most bytes that a batch may expand to on the event loop, which takes some milliseconds."""
FORWARDED_RECORDS = 10_000
"""The most records of a batch in a topic that forwards, where every replica reads each of them."""
READ_RECORDS = 5_000
"""The most records of a batch whose headers are read on the event loop."""
OPENED_PER_EVENT = 8 << 20
"""The most bytes that all batches of one read event may expand to on the event loop."""


class NeedsOpening(Exception):
    """Raised for a batch that expands too far for the event loop; a worker applies `rules`."""

    def __init__(self, rules: RecordRules) -> None:
        super().__init__()
        self.rules = rules


class NamesTargets(Exception):
    """Raised for a batch whose records name topics to which its sender must be allowed to write.

    The next call passes the `verdict` without targets, or a refusal.
    """

    def __init__(self, verdict: Verdict) -> None:
        super().__init__()
        self.verdict = verdict


class Openings:
    """The bytes that the event loop may still decompress in the present read event."""

    __slots__ = ("_event_ms", "_left")

    def __init__(self) -> None:
        self._event_ms = -1
        self._left = 0

    def judge(
        self, buffer: memoryview, header: BatchHeader, rules: RecordRules, wall_ms: int
    ) -> Verdict:
        """Decompress and check a batch; raise NeedsOpening if it expands too far for the loop.

        `wall_ms` identifies the read event.
        """
        if wall_ms != self._event_ms:
            self._event_ms, self._left = wall_ms, OPENED_PER_EVENT
        most = min(self._left, OPENED_AT_ONCE)
        if header.size > most:
            raise NeedsOpening(rules)
        try:
            verdict = judge(buffer, header, rules, most)
        except ExpandsTooFar as error:
            self._left -= most
            if most >= rules.max_bytes:
                return too_large(error)
            raise NeedsOpening(rules) from None
        self._left -= verdict.byte_count or most
        return verdict


class IntakeRules:
    """The settings of a topic that decide whether and how a batch is accepted."""

    __slots__ = (
        "after_max_ms",
        "before_max_ms",
        "delay",
        "forwards",
        "has_special_rules",
        "has_time_limits",
        "is_compacted",
        "is_log_append_time",
        "max_expanded_bytes",
        "max_message_bytes",
        "opens",
        "ttl",
        "walks",
        "walks_only",
    )

    def __init__(self, config: TopicConfig) -> None:
        self.max_message_bytes = config.max_message_bytes
        self.is_log_append_time = config.is_log_append_time
        self.is_compacted = config.is_compacted
        self.before_max_ms = config.message_timestamp_before_max_ms
        self.after_max_ms = config.message_timestamp_after_max_ms
        self.has_time_limits = (
            not self.is_log_append_time and min(self.before_max_ms, self.after_max_ms) < NO_LIMIT_MS
        )
        self.delay = config.delay.rule
        """How records say when they are due, if this is a delay topic."""
        self.ttl = config.ttl.rule
        """When records expire, if they do."""
        self.forwards = config.forwarding_rule is not None
        """True if each replica reads each record, to forward it."""
        self.max_expanded_bytes = MAX_DECOMPRESSED_BYTES
        if self.forwards:
            self.max_expanded_bytes = max(OPENED_AT_ONCE, config.max_message_bytes)
        has_said_times = self.delay is not None or (self.ttl is not None and self.ttl.by_header)
        level = config.records_validation
        if level == "auto":
            level = "structure" if record_backend.compiled is not None else "batch"
        self.opens = self.is_compacted or level == "full" or has_said_times or self.forwards
        """True if the records of compressed batches are checked one by one."""
        self.walks = self.opens or level == "structure"
        """True if the records of uncompressed batches are checked one by one."""
        self.walks_only = self.walks and not self.has_time_limits and not has_said_times
        self.has_special_rules = self.walks or self.has_time_limits


@lru_cache(maxsize=256)
def rules_of(config: TopicConfig) -> IntakeRules:
    """Return the rules of a configuration: one object for all partitions that share it."""
    return IntakeRules(config)


def looks_inside(rules: IntakeRules, header: BatchHeader) -> bool:
    """True if the records of this batch are checked one by one.

    If the header lacks the greatest timestamp, they are checked at every level, because retention
    and lookups use that timestamp. Sarama's producer, for one, did not set it before 2025.
    """
    if header.max_timestamp < header.base_timestamp and not rules.is_log_append_time:
        return True
    return rules.opens if header.attributes & CODEC_MASK else rules.walks


def may_need_opening(rules: IntakeRules, header: BatchHeader) -> bool:
    """True if a later append of this batch may raise NeedsOpening."""
    if rules.ttl is not None and rules.ttl.by_header and header.record_count > READ_RECORDS:
        return True
    return bool(header.attributes & CODEC_MASK) and looks_inside(rules, header)


def check(
    buffer: memoryview,
    rules: IntakeRules,
    wall_ms: int,
    openings: Openings,
    verdict: Verdict | None = None,
) -> BatchHeader:
    """Check the one batch of a partition in a produce request; return its header.

    Raise ApiError if it is refused; the subclass RefusedRecords names the records. Raise
    NeedsOpening if a worker must judge it first; the next call passes the worker's `verdict`. Raise
    NamesTargets if records name topics that the caller has to judge.
    """
    try:
        header = BatchHeader(buffer)
    except struct.error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{len(buffer)} bytes are no batch") from None
    validate_for_append(buffer, header, rules.max_message_bytes)
    if rules.forwards and header.record_count > FORWARDED_RECORDS:
        detail = f"{header.record_count} records in a batch, {FORWARDED_RECORDS} in this topic"
        raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, detail)
    if rules.walks_only and _is_usual(buffer, header, rules):
        return header
    if rules.has_special_rules or header.max_timestamp < header.base_timestamp:
        if verdict is None:
            verdict = _look_inside(buffer, header, rules, wall_ms, openings)
        if verdict is not None:
            verdict.raise_if_refused()
            if verdict.targets:
                raise NamesTargets(verdict)
            if verdict.max_timestamp != header.max_timestamp and not rules.is_log_append_time:
                # As in Kafka: lookups use this timestamp, so the producer's value is corrected.
                rewrite_max_timestamp(buffer, 0, header, verdict.max_timestamp)
    return header


def place(
    buffer: memoryview,
    header: BatchHeader,
    offset: int,
    leader_epoch: int,
    log_append_time_ms: int,
) -> BatchHeader:
    """Stamp a checked batch in place and return its new header.

    `log_append_time_ms` replaces the timestamps of the batch's records, unless it is -1.
    """
    stamp(buffer, header, offset, leader_epoch)
    if log_append_time_ms >= 0:
        rewrite_as_log_append_time(buffer, 0, log_append_time_ms)
        return BatchHeader(buffer)
    return header


def _takes_long(buffer: memoryview, header: BatchHeader) -> bool:
    """True if reading the headers of so many records would hold up the event loop."""
    if header.record_count <= READ_RECORDS:
        return False
    return bool(header.attributes & CODEC_MASK) or says_anything(buffer)


def _is_usual(buffer: memoryview, header: BatchHeader, rules: IntakeRules) -> bool:
    """True for an uncompressed batch whose records have no fault: the usual case, in one walk.

    For other batches `_look_inside` finds the fault.
    """
    if header.attributes & CODEC_MASK:
        return False
    highest = highest_delta(buffer, HEADER_SIZE, header.record_count, rules.is_compacted)
    if highest is None:
        return False
    return rules.is_log_append_time or header.base_timestamp + highest == header.max_timestamp


def _look_inside(
    buffer: memoryview, header: BatchHeader, rules: IntakeRules, wall_ms: int, openings: Openings
) -> Verdict | None:
    """Check the records if the rules ask for it; otherwise check only the header's timestamps.

    Return the verdict on the records, or None if they were not checked. Raise ApiError
    INVALID_TIMESTAMP if a timestamp is out of range, or NeedsOpening for a worker.
    """
    earliest, latest = INT64_MIN, INT64_MAX
    if rules.has_time_limits:
        earliest = max(INT64_MIN, wall_ms - rules.before_max_ms)
        latest = min(INT64_MAX, wall_ms + rules.after_max_ms)
    if looks_inside(rules, header):
        wanted = RecordRules(rules.is_compacted, earliest, latest)
        if rules.delay is not None:
            wanted = wanted._replace(delay=rules.delay, now_ms=wall_ms)
        elif rules.ttl is not None and rules.ttl.by_header:
            wanted = wanted._replace(ttl=rules.ttl)
            if _takes_long(buffer, header):
                raise NeedsOpening(wanted)
        if rules.forwards:
            wanted = wanted._replace(max_bytes=rules.max_expanded_bytes)
        if header.attributes & CODEC_MASK:
            return openings.judge(buffer, header, wanted, wall_ms)
        return judge(buffer, header, wanted)
    if header.max_timestamp > latest:
        detail = f"timestamp {header.max_timestamp} is too far ahead of {wall_ms}"
        raise ApiError(ErrorCode.INVALID_TIMESTAMP, detail)
    if 0 <= header.base_timestamp < earliest:
        detail = f"timestamp {header.base_timestamp} is too far behind {wall_ms}"
        raise ApiError(ErrorCode.INVALID_TIMESTAMP, detail)
    return None
