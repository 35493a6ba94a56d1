"""Decides requests to commit offsets: the checks, and the records to write.

Decisions only; `GroupsState.apply` applies the records once the log has them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ....protocol.coordinator_records import (
    OffsetCommitKey,
    OffsetCommitRecord,
    OffsetCommitValue,
)
from ....protocol.errors import ErrorCode
from ....protocol.types import NO_TIMESTAMP
from .phases import Now
from .state import GroupsState
from .values import Who


class NewOffset(NamedTuple):
    """The offset to commit for one partition."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A request to commit offsets of one group."""

    group_id: str
    who: Who
    generation: int
    offsets: Sequence[NewOffset]
    retention_ms: int = -1
    """The milliseconds to keep the offsets, as the client asks; -1 means the broker's setting."""
    if_unknown: ErrorCode = ErrorCode.ILLEGAL_GENERATION
    """The error for a member of a group that does not exist."""
    client_id: str | None = None
    """The id that the client gives itself, for trace points."""
    producer: tuple[int, int] | None = None
    """Producer id and epoch if the offsets belong to a transaction; None if they do not."""


class Committing(NamedTuple):
    """The records to write, and the result of each offset, in the request's order."""

    records: list[OffsetCommitRecord]
    errors: list[ErrorCode]


def commit(
    state: GroupsState, request: Commit, now: Now, metadata_max: int
) -> Committing | ErrorCode:
    """Check the group and the member, then each offset's metadata; return the records to write.

    A failed check of the group or the member is returned as one error for all offsets.
    """
    error = _check_group(state, request, now)
    if error:
        return error
    expire_ms = NO_TIMESTAMP
    if request.retention_ms >= 0:
        expire_ms = now.wall_ms + request.retention_ms
    records: list[OffsetCommitRecord] = []
    errors: list[ErrorCode] = []
    for topic, partition, offset, leader_epoch, metadata in request.offsets:
        if len(metadata) > metadata_max:
            errors.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
            continue
        errors.append(ErrorCode.NONE)
        key = OffsetCommitKey(group=request.group_id, topic=topic, partition=partition)
        value = OffsetCommitValue(
            offset=offset,
            leader_epoch=leader_epoch,
            metadata=metadata,
            commit_timestamp=now.wall_ms,
            expire_timestamp=expire_ms,
        )
        records.append(OffsetCommitRecord(key, value))
    return Committing(records, errors)


def _check_group(state: GroupsState, request: Commit, now: Now) -> ErrorCode:
    group = state.groups.get(request.group_id)
    if group is None:
        if request.generation >= 0:
            return request.if_unknown
        return ErrorCode.NONE
    is_transactional = request.producer is not None
    who, generation = request.who, request.generation
    error = group.check_commit(who, generation, is_transactional=is_transactional)
    if not error and not is_transactional:
        group.note_commit(who, now)
    return error
