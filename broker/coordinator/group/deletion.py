"""Decides which groups and offsets are deleted, on request or after long disuse.

Each function returns the tombstones to write. Offsets of a group that is being rebalanced count as
used, however long that takes (KAFKA-13636). So does an offset that is pending in a transaction.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ....protocol.coordinator_records import (
    GroupMetadataKey,
    GroupMetadataRecord,
    OffsetCommitRecord,
)
from ....protocol.errors import ErrorCode
from .classic import CONSUMER, ClassicGroup
from .offsets import Place, is_expired, tombstone
from .phases import Phase
from .state import GroupsState

Tombstones = list[OffsetCommitRecord | GroupMetadataRecord]


class Deleting(NamedTuple):
    """The records to write, and the result of each partition, in the request's order."""

    records: Tombstones
    errors: list[ErrorCode]


def delete_group(state: GroupsState, group_id: str) -> Tombstones | ErrorCode:
    """Return the tombstones of an empty group and all its offsets, or the error."""
    group = state.groups.get(group_id)
    if group is None or group.phase is Phase.DEAD:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if group.phase is not Phase.EMPTY:
        return ErrorCode.NON_EMPTY_GROUP
    places = dict.fromkeys([*state.offsets.of(group_id), *state.offsets.pending(group_id)])
    return [*(tombstone(group_id, place) for place in places), _end_of(group_id)]


def delete_offsets(
    state: GroupsState, group_id: str, places: Sequence[Place]
) -> Deleting | ErrorCode:
    """Return the tombstones of the given offsets, except in topics that members read.

    Return one error for all of them if the group does not exist, or if it has members of another
    protocol type than `consumer`.
    """
    group = state.groups.get(group_id)
    if group is None or group.phase is Phase.DEAD:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if group.phase is not Phase.EMPTY and group.roster.protocol_type != CONSUMER:
        return ErrorCode.NON_EMPTY_GROUP
    known = state.offsets.of(group_id)
    subscribed = group.subscribed()
    records: Tombstones = []
    errors: list[ErrorCode] = []
    for place in places:
        if subscribed is None or place[0] in subscribed:
            errors.append(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
            continue
        errors.append(ErrorCode.NONE)
        if place in known or state.offsets.is_pending(group_id, place):
            records.append(tombstone(group_id, place))
    return Deleting(records, errors)


def delete_topics(state: GroupsState, topics: Mapping[str, None]) -> Tombstones:
    """Return the tombstones of all groups' offsets in topics that were deleted."""
    return [
        tombstone(group_id, place)
        for group_id in state.groups
        for place in dict.fromkeys([*state.offsets.of(group_id), *state.offsets.pending(group_id)])
        if place[0] in topics
    ]


def expire(state: GroupsState, group_id: str, *, wall_ms: int, retention_ms: int) -> Tombstones:
    """Return tombstones of offsets unused for `retention_ms`, and of a group left empty by that."""
    group = state.groups[group_id]
    offsets = state.offsets.of(group_id)
    if not _may_expire(group):
        return []
    expired: list[Place] = []
    for place, committed in offsets.items():
        unused_since_ms = committed.commit_wall_ms
        if (
            group.phase is Phase.EMPTY
            and group.roster.protocol_type
            and group.phases.since_wall_ms >= 0
        ):
            unused_since_ms = group.phases.since_wall_ms  # The group had members until then.
        if is_expired(
            committed, unused_since_ms, wall_ms, retention_ms
        ) and not state.offsets.is_pending(group_id, place):
            expired.append(place)
    if expired and group.phase is not Phase.EMPTY:
        read = group.subscribed()
        expired = [] if read is None else [place for place in expired if place[0] not in read]
    records: Tombstones = [tombstone(group_id, place) for place in expired]
    is_all = len(expired) == len(offsets) and not state.offsets.has_pending(group_id)
    if is_all and group.phase is Phase.EMPTY and not group.roster.pending:
        records.append(_end_of(group_id))
    return records


def _may_expire(group: ClassicGroup) -> bool:
    if group.phase is Phase.EMPTY:
        return True
    return group.phase is Phase.STABLE and group.roster.protocol_type == CONSUMER


def _end_of(group_id: str) -> GroupMetadataRecord:
    return GroupMetadataRecord(GroupMetadataKey(group=group_id), None)
