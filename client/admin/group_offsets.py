"""Lists, alters and deletes the committed offsets of groups.

Requests are sent to the group's coordinator.
"""

from collections.abc import Iterable, Mapping

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
from ...protocol.messages.offset_fetch import OffsetFetchResponse
from ...protocol.types import TopicPartition
from ..committed import BY_NAME, errors_in, offsets_in, question
from ..errors import AdminError
from ..group_types import OffsetAndMetadata, with_metadata
from ..outcomes import raise_for
from ..partitions import by_topic, values_by_topic
from .asking import Asking


async def list_group_offsets(
    asking: Asking,
    group_id: str,
    partitions: Iterable[TopicPartition] | None = None,
    *,
    require_stable: bool = False,
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the committed offsets of a group, in these partitions or, if None, in all.

    With `require_stable`, wait until no open transaction has offsets pending for these partitions
    (KIP-447). Raise ApiError if the coordinator refuses.
    """
    request = question(group_id, partitions, is_stable=require_stable)
    coordinator = asking.coordinators.of(CoordinatorType.GROUP, group_id)
    response: OffsetFetchResponse = await asking.coordinated(
        coordinator, request, _fetch_error, at_most=BY_NAME
    )
    raise_for(_fetch_error(response), group_id)
    return offsets_in(response)


async def alter_group_offsets(
    asking: Asking, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata | int]
) -> None:
    """Commit offsets for a group without members; AdminError names the refused partitions."""
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
    """Delete a group's offsets in partitions of topics that no member is subscribed to.

    Raise ApiError if the group is refused, AdminError with partitions that are refused.
    """
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


def _fetch_error(response: OffsetFetchResponse) -> int:
    return next(iter(errors_in(response)), 0)


def _refused(response: OffsetCommitResponse | OffsetDeleteResponse) -> dict[str, int]:
    return {
        f"{topic.name}-{one.partition_index}": one.error_code
        for topic in response.topics
        for one in topic.partitions
        if one.error_code
    }


def _first_refused(response: OffsetCommitResponse | OffsetDeleteResponse) -> int:
    # An error of the whole group is repeated in every partition.
    return next(iter(_refused(response).values()), 0)


def _raise_refused(response: OffsetCommitResponse | OffsetDeleteResponse) -> None:
    if codes := _refused(response):
        raise AdminError({name: ApiError(ErrorCode(code)) for name, code in codes.items()})
