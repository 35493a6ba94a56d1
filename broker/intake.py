"""What a leader checks of a producer's batch before it gets offsets, and how it is stamped.

Looks at the 61-byte header only, except for compacted topics, where every record needs a key.
Nothing here appends or remembers.
"""

import struct
from functools import lru_cache

from ..protocol.errors import ApiError, ErrorCode, RemoteProtocolError
from ..protocol.record_batch import (
    BatchHeader,
    records,
    rewrite_as_log_append_time,
    stamp,
    validate_for_append,
)
from ..storage.topic_config import TopicConfig

NO_LIMIT_MS = 2**63 - 1


class IntakeRules:
    """The settings of a topic that decide whether and how a batch is taken."""

    __slots__ = (
        "after_max_ms",
        "before_max_ms",
        "has_special_rules",
        "is_compacted",
        "is_log_append_time",
        "max_message_bytes",
    )

    def __init__(self, config: TopicConfig) -> None:
        self.max_message_bytes = config.max_message_bytes
        self.is_log_append_time = config.is_log_append_time
        self.is_compacted = config.is_compacted
        self.before_max_ms = config.message_timestamp_before_max_ms
        self.after_max_ms = config.message_timestamp_after_max_ms
        self.has_special_rules = (
            self.is_compacted
            or self.is_log_append_time
            or min(self.before_max_ms, self.after_max_ms) < NO_LIMIT_MS
        )


@lru_cache(maxsize=256)
def rules_of(config: TopicConfig) -> IntakeRules:
    """One object for all partitions of a configuration."""
    return IntakeRules(config)


def check(buffer: memoryview, rules: IntakeRules, wall_ms: int) -> BatchHeader:
    """Read and check the one batch of a partition in a produce request; ApiError if refused."""
    try:
        header = BatchHeader(buffer)
    except struct.error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{len(buffer)} bytes are no batch") from None
    validate_for_append(buffer, 0, header, rules.max_message_bytes)
    if header.size != len(buffer):
        raise ApiError(ErrorCode.INVALID_RECORD, "more than one batch for a partition")
    if rules.has_special_rules:
        _check_special(buffer, header, rules, wall_ms)
    return header


def place(
    buffer: memoryview,
    header: BatchHeader,
    offset: int,
    leader_epoch: int,
    log_append_time_ms: int | None,
) -> BatchHeader:
    """Stamp a checked batch in place; the header as it is then."""
    stamp(buffer, 0, offset, leader_epoch)
    if log_append_time_ms is not None:
        rewrite_as_log_append_time(buffer, 0, log_append_time_ms)
        return BatchHeader(buffer)
    header.base_offset = offset
    header.leader_epoch = leader_epoch
    return header


def _check_special(
    buffer: memoryview, header: BatchHeader, rules: IntakeRules, wall_ms: int
) -> None:
    if rules.is_compacted:
        try:
            has_all_keys = all(record.key is not None for record in records(buffer))
        except RemoteProtocolError as error:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
        if not has_all_keys:
            detail = "a compacted topic takes no record without key"
            raise ApiError(ErrorCode.INVALID_RECORD, detail)
    if rules.is_log_append_time:
        return
    if header.max_timestamp - wall_ms > rules.after_max_ms:
        detail = f"timestamp {header.max_timestamp} is too far ahead of {wall_ms}"
        raise ApiError(ErrorCode.INVALID_TIMESTAMP, detail)
    if 0 <= header.base_timestamp < wall_ms - rules.before_max_ms:
        detail = f"timestamp {header.base_timestamp} is too far behind {wall_ms}"
        raise ApiError(ErrorCode.INVALID_TIMESTAMP, detail)
