"""Builds the response to one Fetch, with hints about new leaders and by the rules of its session.

Record bytes are passed on as they were read, as views.
"""

from ...protocol.errors import ErrorCode
from ...protocol.messages.fetch import (
    READ_COMMITTED,
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from ...protocol.messages.leader_hint import LeaderIdAndEpoch
from ...protocol.types import NO_LEADER, ZERO_UUID
from ..net.answer import Call
from ..partition.partition import Partition
from ..partition.requests import FetchAnswer
from .common import STALE_LEADER, node_endpoints
from .fetch_reading import Reading
from .fetch_sessions import FetchContext, FetchPartition, Key

CURRENT_LEADER_FROM = 12
NODE_ENDPOINTS_FROM = 16
LED_ELSEWHERE = (*STALE_LEADER, ErrorCode.UNKNOWN_LEADER_EPOCH)
"""Errors that are normal at each change of leader, and so are not counted as failed fetches."""


def respond(
    call: Call, context: FetchContext, reading: Reading, isolation: int = 0
) -> FetchResponse:
    """Build the response from the answers; in a session, only from answers new to the client."""
    if error := context.verify():
        return FetchResponse(error_code=error, responses=[])
    is_for_follower = reading.is_for_follower
    if not (is_for_follower or all(answer.error for answer in reading.answers)):
        call.rest_on_lease()
    topics: dict[bytes | str, FetchableTopicResponse] = {}
    leaders: list[int] = []
    every = zip(reading.partitions, reading.sources, reading.answers, strict=True)
    for asked, source, answer in every:
        if answer.error:
            _count_error(call, source, answer.error)
        elif isinstance(source, Partition) and (traffic := source.traffic) is not None:
            traffic.fetch_requests += 1
            if is_for_follower:
                traffic.replication_bytes_out += len(answer.records)
            else:
                traffic.bytes_out += len(answer.records)
        if not context.tells(asked, answer):
            continue
        data = _data(asked.key[1], answer, isolation)
        if answer.error in STALE_LEADER and call.version >= CURRENT_LEADER_FROM:
            data.current_leader = _leader(call, asked, answer)
            if data.current_leader is not None:
                leaders.append(data.current_leader.leader_id)
        topic = topics.get(asked.key[0])
        if topic is None:
            topic = topics[asked.key[0]] = _topic(asked.key)
        topic.partitions.append(data)
    response = FetchResponse(session_id=context.session_id, responses=list(topics.values()))
    if leaders and call.version >= NODE_ENDPOINTS_FROM:
        response.node_endpoints = node_endpoints(call, leaders)
    return response


def _count_error(call: Call, source: Partition | ErrorCode, error: ErrorCode) -> None:
    """Count one partition of a fetch that could not be read, if metrics are served."""
    times = call.connection.times
    if times is not None:
        times.note_error("Fetch", error)
    if isinstance(source, Partition) and source.traffic is not None:
        source.traffic.fetch_requests += 1
        source.traffic.failed_fetch_requests += error not in LED_ELSEWHERE


def _topic(key: Key) -> FetchableTopicResponse:
    name_or_id = key[0]
    if isinstance(name_or_id, bytes):
        return FetchableTopicResponse(topic_id=name_or_id, partitions=[])
    return FetchableTopicResponse(topic=name_or_id, topic_id=ZERO_UUID, partitions=[])


def _data(index: int, answer: FetchAnswer, isolation: int) -> PartitionData:
    data = PartitionData(
        partition_index=index,
        error_code=answer.error,
        high_watermark=answer.high_watermark,
        last_stable_offset=answer.last_stable_offset,
        log_start_offset=answer.log_start_offset,
        aborted_transactions=None,
        records=b"" if answer.error else answer.records,
        preferred_read_replica=answer.preferred_read_replica,
    )
    if isolation == READ_COMMITTED:
        aborted = answer.aborted if len(answer.records) else ()
        data.aborted_transactions = [
            AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
            for each in aborted
        ]
    if answer.diverging is not None:
        data.diverging_epoch = EpochEndOffset(
            epoch=answer.diverging.epoch, end_offset=answer.diverging.offset
        )
    return data


def _leader(call: Call, asked: FetchPartition, answer: FetchAnswer) -> LeaderIdAndEpoch | None:
    leader_id, epoch = answer.leader_id, answer.leader_epoch
    name_or_id, index = asked.key
    if leader_id == NO_LEADER:
        image = call.edge.image
        if isinstance(name_or_id, str):
            name_or_id = image.topic_ids.get(name_or_id, b"")
        leader_id, epoch = call.edge.whereabouts.leader_of(name_or_id, index)
    if leader_id == NO_LEADER:
        return None
    return LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=epoch)


def refused(error: ErrorCode) -> FetchResponse:
    """Return a response with this error and no partitions."""
    return FetchResponse(error_code=error, responses=[])
