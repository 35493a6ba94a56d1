"""Builds OffsetFetch requests and reads their answers, in all versions of the API."""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from ..protocol.errors import ErrorCode
from ..protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from ..protocol.types import ZERO_UUID, TopicPartition
from .group_types import OffsetAndMetadata
from .partitions import by_topic

BY_NAME: Final = 9
"""Up to this version requests and answers name topics; later versions give topic ids."""
NO_NAMES: Final[Mapping[bytes, str]] = MappingProxyType({})


def question(
    group_id: str,
    partitions: Iterable[TopicPartition] | None,
    *,
    is_stable: bool,
    id_of: Callable[[str], bytes] = lambda topic: ZERO_UUID,
) -> OffsetFetchRequest:
    """Build the request for the committed offsets of `partitions`, or of all if that is None.

    With `is_stable`, the broker refuses while an open transaction has offsets pending (KIP-447).
    `id_of` returns a topic's id.
    """
    topics = None
    if partitions is not None:
        topics = [
            OffsetFetchRequestTopics(name=name, topic_id=id_of(name), partition_indexes=indexes)
            for name, indexes in by_topic(partitions).items()
        ]
    # Up to version 7 the request is about one group; later versions have a list of groups.
    return OffsetFetchRequest(
        group_id=group_id,
        topics=topics,
        groups=[OffsetFetchRequestGroup(group_id=group_id, topics=topics)],
        require_stable=is_stable,
    )


def errors_in(answer: OffsetFetchResponse) -> list[ErrorCode]:
    """List the error codes in an answer, those of groups before those of partitions."""
    parts = _parts(answer)
    codes = [part.error_code for part in parts]
    codes += [one.error_code for part in parts for topic in part.topics for one in topic.partitions]
    return [ErrorCode(code) for code in codes if code]


def offsets_in(
    answer: OffsetFetchResponse, names: Mapping[bytes, str] = NO_NAMES
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Read the committed offsets in an answer; `names` maps topic ids to names."""
    return {
        TopicPartition(
            topic.name or names.get(topic.topic_id, ""), one.partition_index
        ): OffsetAndMetadata(one.committed_offset, one.metadata or "", one.committed_leader_epoch)
        for part in _parts(answer)
        for topic in part.topics
        for one in topic.partitions
        if one.committed_offset >= 0
    }


def _parts(
    answer: OffsetFetchResponse,
) -> list[OffsetFetchResponse | OffsetFetchResponseGroup]:
    """Return the list of groups in the answer, or up to version 7 the answer itself."""
    return [answer, *answer.groups]
