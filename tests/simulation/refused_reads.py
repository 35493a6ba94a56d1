"""Bad reads: of unknown fetch sessions, in wrong epochs, at offsets that do not exist."""

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from minikafka.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from minikafka.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from minikafka.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

from .refusals import TOPIC, Refused, Story

NAMES_VERSION = 12
"""The last version in which a fetch names topics; later ones have their ids."""
IDS_VERSION = 13
FAR = 1 << 40
NOT_THERE = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
SPECIAL_TIMES = (-1, -2, -3, -4, -5, 0, 1 << 50)


async def sessions(refused: Refused) -> None:
    """Open a fetch session, misuse it, empty it, and use it once more."""
    broker, _, topic_id = await refused.leader()
    fine = ErrorCode.NONE

    def fetch(session: int, epoch: int, *, asks: bool, forgets: bool = False) -> FetchRequest:
        return FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            session_id=session,
            session_epoch=epoch,
            topics=[_wanted(topic_id)] if asks else [],
            forgotten_topics_data=(
                [ForgottenTopic(topic_id=topic_id, partitions=[0])] if forgets else []
            ),
        )

    await refused.due(broker, fetch(12_345, 7, asks=False), NOT_THERE)
    opened = await refused.due(broker, fetch(0, 0, asks=True), fine)
    session = opened.session_id
    if not session:
        return  # There is no room for another: everything is asked in full.
    wrong = ErrorCode.INVALID_FETCH_SESSION_EPOCH
    await refused.due(broker, fetch(session, 7, asks=False), (wrong, NOT_THERE))
    named = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        session_id=session,
        session_epoch=1,
        topics=[FetchTopic(topic=TOPIC, partitions=_wanted(topic_id).partitions)],
    )
    mixed = (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, NOT_THERE)
    await refused.due(broker, named, mixed, version=NAMES_VERSION)
    await refused.due(broker, fetch(session, 1, asks=False), (fine, NOT_THERE))
    await refused.due(broker, fetch(session, 2, asks=False, forgets=True), (fine, NOT_THERE))
    await refused.due(broker, fetch(session, 3, asks=False), NOT_THERE)
    await refused.due(broker, fetch(session, -1, asks=True), fine)


def _wanted(topic_id: bytes, epoch: int = -1, offset: int = 0, fetched: int = -1) -> FetchTopic:
    partition = FetchPartition(
        partition=0,
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=fetched,
        partition_max_bytes=10_000,
    )
    return FetchTopic(topic_id=topic_id, partitions=[partition])


async def reads(refused: Refused) -> None:
    """Send Fetch, ListOffsets, OffsetForLeaderEpoch and DeleteRecords.

    Their offsets or epochs do not exist.
    """
    broker, epoch, topic_id = await refused.leader()
    stale = ErrorCode.FENCED_LEADER_EPOCH
    newer = ErrorCode.UNKNOWN_LEADER_EPOCH
    for wanted, due in (
        (_wanted(topic_id, offset=FAR), (ErrorCode.OFFSET_OUT_OF_RANGE,)),
        (_wanted(topic_id, epoch=epoch + 1000), (newer,)),
        (
            _wanted(topic_id, epoch=epoch, fetched=epoch + 1000),
            (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.NONE),
        ),
        (_wanted(bytes(15) + b"\7"), (ErrorCode.UNKNOWN_TOPIC_ID,)),
        *(((_wanted(topic_id, epoch=epoch - 1), (stale,)),) if epoch else ()),
    ):
        request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=[wanted])
        await refused.due(broker, request, due, version=IDS_VERSION)
    for time in SPECIAL_TIMES:
        await refused.due(broker, _offsets(time), ErrorCode.NONE)
    await refused.due(broker, _offsets(-1, epoch + 1000), newer)
    asked = OffsetForLeaderPartition(
        partition=0, current_leader_epoch=epoch + 1000, leader_epoch=epoch
    )
    topics = [OffsetForLeaderTopic(topic=TOPIC, partitions=[asked])]
    await refused.due(broker, OffsetForLeaderEpochRequest(topics=topics), newer)
    for offset, due in ((FAR, ErrorCode.OFFSET_OUT_OF_RANGE), (0, ErrorCode.NONE)):
        partition = DeleteRecordsPartition(partition_index=0, offset=offset)
        topic = DeleteRecordsTopic(name=TOPIC, partitions=[partition])
        await refused.due(broker, DeleteRecordsRequest(topics=[topic], timeout_ms=2000), due)


def _offsets(time: int, epoch: int = -1) -> ListOffsetsRequest:
    partition = ListOffsetsPartition(partition_index=0, current_leader_epoch=epoch, timestamp=time)
    topics = [ListOffsetsTopic(name=TOPIC, partitions=[partition])]
    return ListOffsetsRequest(topics=topics, timeout_ms=2000)


STORIES: dict[str, Story] = {"fetch-sessions": sessions, "reads": reads}
