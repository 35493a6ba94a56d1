"""Offsets of groups: what they have committed, changed and forgotten from outside.

Knows the messages. A group is asked about at its coordinator.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ...protocol.errors import ApiError, ErrorCode
from ...protocol.messages.find_coordinator import CoordinatorType
from ...protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ...protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from ...protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from ...protocol.types import TopicPartition
from ..errors import AdminError
from ..group_types import OffsetAndMetadata, with_metadata
from .asking import Asking
from .outcomes import raise_for
from .partitions import by_topic, values_by_topic

BY_NAME: Final = 9
"""Up to this version offsets name topics, later ones their ids."""


async def list_group_offsets(
    asking: Asking,
    group_id: str,
    partitions: Iterable[TopicPartition] | None = None,
    *,
    require_stable: bool = False,
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Give what a group has committed, in these partitions or in all.

    With `require_stable` waits for transactions that are about to change it.
    """
    topics = None
    if partitions is not None:
        topics = [
            OffsetFetchRequestTopics(name=name, partition_indexes=indexes)
            for name, indexes in by_topic(partitions).items()
        ]
    # Up to version 7 the request is about one group, from then on it has a list of them.
    request = OffsetFetchRequest(
        group_id=group_id,
        topics=topics,
        groups=[OffsetFetchRequestGroup(group_id=group_id, topics=topics)],
        require_stable=require_stable,
    )
    coordinator = asking.coordinators.of(CoordinatorType.GROUP, group_id)
    response: OffsetFetchResponse = await asking.coordinated(
        coordinator, request, _fetch_error, at_most=BY_NAME
    )
    raise_for(_fetch_error(response), group_id)
    return {
        TopicPartition(topic.name, one.partition_index): OffsetAndMetadata(
            one.committed_offset, one.metadata or "", one.committed_leader_epoch
        )
        for part in _parts(response)
        for topic in part.topics
        for one in topic.partitions
        if one.committed_offset >= 0
    }


async def alter_group_offsets(
    asking: Asking, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata | int]
) -> None:
    """Commit offsets for a group without members; AdminError names partitions refused."""
    topics = [
        OffsetCommitRequestTopic(
            name=topic, partitions=[_commit(index, with_metadata(given)) for index, given in values]
        )
        for topic, values in values_by_topic(offsets).items()
    ]
    coordinator = asking.coordinators.of(CoordinatorType.GROUP, group_id)
    response: OffsetCommitResponse = await asking.coordinated(
        coordinator,
        OffsetCommitRequest(group_id=group_id, topics=topics),
        _first_refused,
        at_most=BY_NAME,
    )
    _raise_refused(response)


async def delete_group_offsets(
    asking: Asking, group_id: str, partitions: Iterable[TopicPartition]
) -> None:
    """Forget a group's offsets in partitions that it does not read any more."""
    topics = [
        OffsetDeleteRequestTopic(
            name=topic,
            partitions=[OffsetDeleteRequestPartition(partition_index=i) for i in indexes],
        )
        for topic, indexes in by_topic(partitions).items()
    ]
    coordinator = asking.coordinators.of(CoordinatorType.GROUP, group_id)
    response: OffsetDeleteResponse = await asking.coordinated(
        coordinator,
        OffsetDeleteRequest(group_id=group_id, topics=topics),
        lambda answer: answer.error_code or _first_refused(answer),
    )
    raise_for(response.error_code, group_id)
    _raise_refused(response)


def _commit(index: int, position: OffsetAndMetadata) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(
        partition_index=index,
        committed_offset=position.offset,
        committed_leader_epoch=position.leader_epoch,
        committed_metadata=position.metadata,
    )


def _parts(
    response: OffsetFetchResponse,
) -> Sequence[OffsetFetchResponse | OffsetFetchResponseGroup]:
    """Give the answer's groups: itself up to version 7, a list from then on."""
    return response.groups or [response]


def _fetch_error(response: OffsetFetchResponse) -> int:
    for part in _parts(response):
        if part.error_code:
            return int(part.error_code)
        for topic in part.topics:
            for one in topic.partitions:
                if one.error_code:
                    return int(one.error_code)
    return 0


def _refused(response: OffsetCommitResponse | OffsetDeleteResponse) -> dict[str, int]:
    return {
        f"{topic.name}-{one.partition_index}": one.error_code
        for topic in response.topics
        for one in topic.partitions
        if one.error_code
    }


def _first_refused(response: OffsetCommitResponse | OffsetDeleteResponse) -> int:
    # An error of the whole group stands in every partition.
    return next(iter(_refused(response).values()), 0)


def _raise_refused(response: OffsetCommitResponse | OffsetDeleteResponse) -> None:
    if codes := _refused(response):
        raise AdminError({name: ApiError(ErrorCode(code)) for name, code in codes.items()})
