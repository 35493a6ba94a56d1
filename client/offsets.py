"""Requests that only leaders answer: the offset for a timestamp, and the end of a leader epoch.

The leaders of many partitions are asked at the same time. A request is repeated if a leader moves,
until a deadline. Consumers and admins share the functions.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Final, NamedTuple, TypeVar

from ..protocol.api import ApiKey
from ..protocol.errors import ApiError, ProtocolError
from ..protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ..protocol.messages.offset_for_leader_epoch import (
    CONSUMER_REPLICA_ID,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ..protocol.types import TopicPartition
from .errors import ClientError, RequestTimedOut
from .metadata import Metadata
from .net.connection import KafkaConnection
from .outcomes import done_of, error_of
from .partitions import name_of

Q = TypeVar("Q")
A = TypeVar("A")
RETRY_S: Final = 0.02
FOREVER: Final = 2**63 - 1


class ListedOffset(NamedTuple):
    """A leader's answer about a timestamp; the offset is -1 if no record is at or after it."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


class EpochQuestion(NamedTuple):
    """The question where `leader_epoch` ends in the log of the leader of epoch `current_epoch`."""

    leader_epoch: int
    current_epoch: int


class EpochAnswer(NamedTuple):
    """The newest leader epoch up to the requested one, and the offset where it ends.

    The epoch is -1 if the leader's log has none that old.
    """

    leader_epoch: int
    end_offset: int


Answers = Mapping[TopicPartition, A | ApiError]
Ask = Callable[[KafkaConnection, Mapping[TopicPartition, Q]], Awaitable[Answers[A]]]


async def list_offsets(
    metadata: Metadata,
    timestamps: Mapping[TopicPartition, int],
    *,
    timeout_ms: int,
    isolation_level: int = 0,
    on_answer: Callable[[TopicPartition, ListedOffset], None] | None = None,
) -> dict[TopicPartition, ListedOffset]:
    """Look up the first record at or after each time, in milliseconds since the epoch.

    The time -1 asks for the log's end, -2 for its start. `on_answer` is called with each leader's
    answer as it arrives. Raises ApiError if a leader refuses for good,
    RequestTimedOut after `timeout_ms`.
    """

    async def ask(
        connection: KafkaConnection, wanted: Mapping[TopicPartition, int]
    ) -> Answers[ListedOffset]:
        topics: dict[str, ListOffsetsTopic] = {}
        for (name, index), timestamp in wanted.items():
            topic = topics.setdefault(name, ListOffsetsTopic(name=name, partitions=[]))
            view = metadata.view.leader_of(name, index)
            epoch = -1 if view is None else view.leader_epoch
            topic.partitions.append(
                ListOffsetsPartition(
                    partition_index=index, current_leader_epoch=epoch, timestamp=timestamp
                )
            )
        request = ListOffsetsRequest(
            isolation_level=isolation_level, topics=list(topics.values()), timeout_ms=timeout_ms
        )
        response: ListOffsetsResponse = await connection.request(request)
        return {
            TopicPartition(topic.name, one.partition_index): error_of(one.error_code)
            or ListedOffset(one.offset, one.timestamp, one.leader_epoch)
            for topic in response.topics
            for one in topic.partitions
        }

    answers: dict[TopicPartition, ListedOffset] = {}
    async for partition, answer in _ask_leaders(metadata, timestamps, ask, timeout_ms):
        answers[partition] = found = _taken(partition, answer)
        if on_answer is not None:
            on_answer(partition, found)
    return answers


async def ends_of_epochs(
    metadata: Metadata,
    questions: Mapping[TopicPartition, EpochQuestion],
    *,
    timeout_ms: int,
    on_answer: Callable[[TopicPartition, EpochAnswer], None],
) -> None:
    """Ask leaders where leader epochs end in their logs (KIP-320); raises as `list_offsets` does.

    `on_answer` is called with each leader's answer as it arrives. A broker without this API is
    assumed to have lost no records.
    """

    async def ask(
        connection: KafkaConnection, wanted: Mapping[TopicPartition, EpochQuestion]
    ) -> Answers[EpochAnswer]:
        if not connection.versions.supports(ApiKey.OFFSET_FOR_LEADER_EPOCH):
            return {tp: EpochAnswer(asked.leader_epoch, FOREVER) for tp, asked in wanted.items()}
        topics: dict[str, OffsetForLeaderTopic] = {}
        for (name, index), question in wanted.items():
            topic = topics.setdefault(name, OffsetForLeaderTopic(topic=name, partitions=[]))
            topic.partitions.append(
                OffsetForLeaderPartition(
                    partition=index,
                    current_leader_epoch=question.current_epoch,
                    leader_epoch=question.leader_epoch,
                )
            )
        request = OffsetForLeaderEpochRequest(
            replica_id=CONSUMER_REPLICA_ID, topics=list(topics.values())
        )
        response: OffsetForLeaderEpochResponse = await connection.request(request)
        return {
            TopicPartition(topic.topic, one.partition): error_of(one.error_code)
            or EpochAnswer(one.leader_epoch, one.end_offset)
            for topic in response.topics
            for one in topic.partitions
        }

    async for partition, answer in _ask_leaders(metadata, questions, ask, timeout_ms):
        on_answer(partition, _taken(partition, answer))


async def ask_leaders(
    metadata: Metadata, questions: Mapping[TopicPartition, Q], ask: Ask[Q, A], timeout_ms: int
) -> dict[TopicPartition, A]:
    """Ask about each partition until its leader answers; AdminError names refused partitions."""
    answers: dict[TopicPartition, A | ApiError] = {}
    async for partition, answer in _ask_leaders(metadata, questions, ask, timeout_ms):
        answers[partition] = answer
    return done_of(answers, name_of)


def _taken(partition: TopicPartition, answer: A | ApiError) -> A:
    """Return the answer; if it is an error, raise it with the partition's name."""
    if isinstance(answer, ApiError):
        raise ApiError(answer.code, f"{name_of(partition)}: {answer.code.doc}")
    return answer


async def _ask_leaders(
    metadata: Metadata, questions: Mapping[TopicPartition, Q], ask: Ask[Q, A], timeout_ms: int
) -> AsyncIterator[tuple[TopicPartition, A | ApiError]]:
    """Yield each partition's answer; ask again after retriable errors and leader changes.

    Raise RequestTimedOut after `timeout_ms`.
    """
    left = dict(questions)
    trouble = "no leader is known"
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_ms / 1000
    while left:
        by_leader = _by_leader(metadata, left)
        try:
            async with asyncio.timeout_at(deadline):
                results = await asyncio.gather(
                    *(_ask_one(metadata, node, part, ask) for node, part in by_leader.items())
                )
        except TimeoutError:
            results = []
        for result in results:
            if isinstance(result, str):
                trouble = result
                continue
            for partition, answer in result.items():
                if isinstance(answer, ApiError) and answer.code.retriable:
                    trouble = answer.code.name
                else:
                    left.pop(partition, None)
                    yield partition, answer
        pause_s = RETRY_S if by_leader else 0
        if left and not await _wait_for_better(metadata, left, deadline, pause_s):
            names = ", ".join(map(name_of, left))
            raise RequestTimedOut(f"{names}: no answer in {timeout_ms} ms: {trouble}")


async def _wait_for_better(
    metadata: Metadata, left: Mapping[TopicPartition, object], deadline: float, pause_s: float
) -> bool:
    """Wait for a refresh of the partitions' metadata and a pause; return False at the deadline."""
    for topic in dict.fromkeys(partition.topic for partition in left):
        metadata.watch(topic)
    try:
        async with asyncio.timeout_at(deadline):
            metadata.refresh_soon()
            await metadata.wait_until_refreshed()
            await asyncio.sleep(pause_s)
    except TimeoutError:
        return False
    return True


def _by_leader(
    metadata: Metadata, questions: Mapping[TopicPartition, Q]
) -> dict[int, dict[TopicPartition, Q]]:
    found: dict[int, dict[TopicPartition, Q]] = {}
    for partition, question in questions.items():
        leader = metadata.view.leader_of(*partition)
        if leader is not None:
            found.setdefault(leader.leader_id, {})[partition] = question
    return found


async def _ask_one(
    metadata: Metadata, node_id: int, questions: Mapping[TopicPartition, Q], ask: Ask[Q, A]
) -> Answers[A] | str:
    try:
        connection = await metadata.connection_to(node_id)
        return await ask(connection, questions)
    except (ClientError, ProtocolError) as error:
        metadata.refresh_soon(avoid=node_id)
        return str(error)
