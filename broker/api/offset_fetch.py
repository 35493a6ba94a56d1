"""OffsetFetch: the committed offsets of groups, without any that a failover could undo."""

from collections.abc import Callable, Sequence

from ...protocol.errors import ErrorCode
from ...protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from ..coordinator.group.offsets import Committed, Place
from ..coordinator.group.state import GroupsState
from ..net.answer import Answer, Call
from .parked import Parked, Several

SEVERAL_FROM = 8
TOPIC_IDS_FROM = 10


def handle(call: Call, request: OffsetFetchRequest) -> Answer:
    """Look up every group; a group that this broker does not coordinate gets an error."""
    answer = Parked(call, rests_on_lease=True)
    asked = request.groups if call.version >= SEVERAL_FROM else [_single(request)]
    found = [OffsetFetchResponseGroup(group_id=group.group_id) for group in asked]
    several = Several(answer, len(asked), lambda: _response(call, found))
    for group, told in zip(asked, found, strict=True):
        call.edge.groups.read(group.group_id, _look_up(call, request, group, told, several))
    return answer


def _single(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    """Return the only group of a request up to version 7 in the form of later versions."""
    return OffsetFetchRequestGroup(group_id=request.group_id, topics=request.topics)


def _look_up(
    call: Call,
    request: OffsetFetchRequest,
    asked: OffsetFetchRequestGroup,
    told: OffsetFetchResponseGroup,
    several: Several,
) -> Callable[[ErrorCode, GroupsState | None], None]:
    def ready(error: ErrorCode, state: GroupsState | None) -> None:
        if state is None:
            if error is ErrorCode.COORDINATOR_NOT_AVAILABLE:
                # Java consumers before 3.9 fail on that error (KAFKA-17267, 17279).
                error = ErrorCode.NOT_COORDINATOR
            told.error_code = error
            if call.version < SEVERAL_FROM:
                told.topics = _refused(asked.topics or (), error)
        else:
            lookup = _Lookup(call, state, asked.group_id, request.require_stable)
            told.topics = (
                lookup.all() if asked.topics is None else [lookup.of(t) for t in asked.topics]
            )
        several.one_is_there()

    return ready


class _Lookup:
    """Looks up the offsets of one group for one request."""

    def __init__(self, call: Call, state: GroupsState, group_id: str, stable: bool) -> None:
        self._call = call
        self._state = state
        self._group_id = group_id
        self._stable = stable

    def all(self) -> list[OffsetFetchResponseTopics]:
        """Return all committed offsets; with `require_stable`, an error for each pending one."""
        offsets = self._state.offsets
        places: dict[Place, None] = dict.fromkeys(offsets.of(self._group_id))
        if self._stable:
            places |= dict.fromkeys(offsets.pending(self._group_id))
        topics: dict[str, OffsetFetchResponseTopics] = {}
        for place in places:
            name = place[0]
            if name not in topics:
                topics[name] = OffsetFetchResponseTopics(name=name, partitions=[])
                if not self._name_by_id(topics[name]):
                    del topics[name]
                    continue
            topics[name].partitions.append(self._partition(place))
        return list(topics.values())

    def of(self, asked: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
        """Return the offsets of the requested partitions of one topic."""
        name: str | None = asked.name
        if self._call.version >= TOPIC_IDS_FROM:
            topic = self._call.edge.image.topics.get(asked.topic_id)
            name = None if topic is None else topic.name
        partitions = [
            _nothing(index, ErrorCode.UNKNOWN_TOPIC_ID)
            if name is None
            else self._partition((name, index))
            for index in asked.partition_indexes
        ]
        return OffsetFetchResponseTopics(
            name=asked.name, topic_id=asked.topic_id, partitions=partitions
        )

    def _name_by_id(self, topic: OffsetFetchResponseTopics) -> bool:
        """Give the topic its id if the version uses ids; False if the topic has none."""
        if self._call.version < TOPIC_IDS_FROM:
            return True
        topic_id = self._call.edge.image.topic_ids.get(topic.name)
        if topic_id is not None:
            topic.topic_id = topic_id
        return topic_id is not None

    def _partition(self, place: Place) -> OffsetFetchResponsePartitions:
        if self._stable and self._state.offsets.is_pending(self._group_id, place):
            return _nothing(place[1], ErrorCode.UNSTABLE_OFFSET_COMMIT)
        committed = self._state.offsets.of(self._group_id).get(place)
        return _nothing(place[1]) if committed is None else _something(place[1], committed)


def _something(index: int, committed: Committed) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )


def _nothing(index: int, error: ErrorCode = ErrorCode.NONE) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(partition_index=index, error_code=error)


def _refused(
    topics: Sequence[OffsetFetchRequestTopics], error: ErrorCode
) -> list[OffsetFetchResponseTopics]:
    """Return the group's error for each partition, because versions below 2 have no group error."""
    return [
        OffsetFetchResponseTopics(
            name=topic.name,
            partitions=[_nothing(index, error) for index in topic.partition_indexes],
        )
        for topic in topics
    ]


def _response(call: Call, found: list[OffsetFetchResponseGroup]) -> OffsetFetchResponse:
    if call.version >= SEVERAL_FROM:
        return OffsetFetchResponse(groups=found)
    group = found[0]
    return OffsetFetchResponse(error_code=group.error_code, topics=group.topics)
