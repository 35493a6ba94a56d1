"""Lists, cancels and reschedules the records that wait in delay topics.

The messages exist only in minikafka: another broker is told by ApiVersions, and UNSUPPORTED_VERSION
is raised.
"""

import heapq
from collections.abc import Iterable, Mapping
from functools import partial
from itertools import islice

from ...protocol.errors import ApiError, ErrorCode
from ...protocol.messages import alter_delayed as ad
from ...protocol.messages import describe_forwarding as df
from ...protocol.messages import list_delayed as ld
from ...protocol.messages import refire_forwarded as rf
from ...protocol.types import TopicPartition
from ..errors import AdminError
from ..net.connection import KafkaConnection
from ..outcomes import error_of
from ..partitions import Partitions, by_topic, name_of, values_by_topic
from .asking import Asking
from .delayed_types import DelayedRecord, DelayedState, ForwardingStatus, ForwardingTarget

Position = tuple[int, int]
"""The time and offset of the last record that was listed."""
START: Position = (-1, -1)


async def list_delayed(
    asking: Asking,
    partitions: Partitions,
    *,
    before_ms: int | None = None,
    after: Position = START,
    limit: int = 1_000,
) -> list[DelayedRecord]:
    """List records that wait, at most `limit`, in the order in which they are due.

    With `before_ms` only those that are due before this time, in ms since the epoch; with `after`
    only those behind this time and offset, in the order of times, then offsets. Raise AdminError
    with the partitions that were refused: INVALID_REQUEST if it is no delay topic.
    """
    found: dict[TopicPartition, list[DelayedRecord]] = {}
    wanted = {TopicPartition(*partition): after for partition in partitions}
    while wanted:
        ask = partial(_ask_list, asking, before_ms=before_ms, limit=limit)
        pages = await asking.leaders(wanted, ask)
        wanted = {}
        for partition, (records, position) in pages.items():
            listed = found.setdefault(partition, [])
            listed.extend(records)
            if position != START and len(listed) < limit:
                wanted[partition] = position
    return list(islice(heapq.merge(*found.values()), limit))


Page = tuple[list[DelayedRecord], Position]


async def _ask_list(
    asking: Asking,
    connection: KafkaConnection,
    asked: Mapping[TopicPartition, Position],
    *,
    before_ms: int | None,
    limit: int,
) -> dict[TopicPartition, Page | ApiError]:
    found: dict[TopicPartition, Page | ApiError] = {}
    positions = list(asked.items())
    for at in range(0, len(positions), ld.MOST_PARTITIONS):
        part = dict(positions[at : at + ld.MOST_PARTITIONS])
        request = ld.ListDelayedRequest(
            topics=[
                ld.ListedTopic(
                    name=topic,
                    partitions=[
                        ld.ListedPartition(
                            partition_index=index,
                            after_due_ms=due_ms,
                            after_offset=offset,
                            before_due_ms=-1 if before_ms is None else max(before_ms, 0),
                        )
                        for index, (due_ms, offset) in values
                    ],
                )
                for topic, values in values_by_topic(part).items()
            ],
            max_records=min(limit, ld.MOST_LISTED),
        )
        response: ld.ListDelayedResponse = await asking.request(connection, request)
        for topic in response.topics:
            for each in topic.partitions:
                where = TopicPartition(topic.name, each.partition_index)
                records = [DelayedRecord(one.due_ms, where, one.offset) for one in each.records]
                page = (records, (each.next_due_ms, each.next_offset))
                found[where] = error_of(each.error_code) or page
    return found


async def describe_delayed(asking: Asking, partition: TopicPartition, offset: int) -> DelayedState:
    """Describe the state of one record of a delay topic.

    Raise AdminError with INVALID_REQUEST if it is no delay topic, OFFSET_OUT_OF_RANGE if the offset
    is not in the log.
    """
    there = TopicPartition(*partition)

    async def ask(
        connection: KafkaConnection, asked: Mapping[TopicPartition, None]
    ) -> dict[TopicPartition, DelayedState | ApiError]:
        one = ld.ListedPartition(partition_index=there.partition, offsets=[offset])
        request = ld.ListDelayedRequest(topics=[ld.ListedTopic(name=there.topic, partitions=[one])])
        response: ld.ListDelayedResponse = await asking.request(connection, request)
        (result,) = response.topics[0].partitions
        refused = error_of(result.error_code)
        if refused is not None:
            return {there: refused}
        (told,) = result.states
        due_ms = None if told.due_ms < 0 else told.due_ms
        found = DelayedState(ld.State(told.state), due_ms)
        return {there: error_of(told.error_code) or found}

    return (await asking.leaders({there: None}, ask))[there]


async def cancel_delayed(asking: Asking, records: Mapping[TopicPartition, Iterable[int]]) -> None:
    """Cancel the records at these offsets, so that they are never forwarded.

    To cancel a record again changes nothing. Raise AdminError with the records that were refused,
    named as `topic-0@17`: INVALID_RECORD_STATE if it is forwarded or over, OFFSET_OUT_OF_RANGE if
    it is not in the log. The others are cancelled.
    """
    changes = {
        TopicPartition(*where): dict.fromkeys(offsets, ad.CANCEL)
        for where, offsets in records.items()
    }
    await _alter(asking, changes)


async def reschedule_delayed(
    asking: Asking, times: Mapping[TopicPartition, Mapping[int, int | None]]
) -> None:
    """Change when records are due, by offset: in ms since the epoch, or None for at once.

    Raise AdminError as `cancel_delayed` does, and with INVALID_TIMESTAMP if a time is further away
    than `minikafka.delay.max.ms`.
    """
    changes = {
        TopicPartition(*where): {
            offset: ad.AT_ONCE if due_ms is None else max(due_ms, 0)
            for offset, due_ms in of.items()
        }
        for where, of in times.items()
    }
    await _alter(asking, changes)


async def _alter(asking: Asking, changes: Mapping[TopicPartition, Mapping[int, int]]) -> None:
    refused: dict[str, ApiError] = {}
    flat = [(where, each) for where, of in changes.items() for each in of.items()]
    for at in range(0, len(flat), ad.MOST_CHANGES):
        part: dict[TopicPartition, dict[int, int]] = {}
        for where, (offset, due_ms) in flat[at : at + ad.MOST_CHANGES]:
            part.setdefault(where, {})[offset] = due_ms
        answers = await asking.leaders(part, partial(_ask_to_alter, asking))
        for where, codes in answers.items():
            for offset, code in codes.items():
                error = error_of(code)
                if error is not None:
                    refused[f"{name_of(where)}@{offset}"] = error
    if refused:
        raise AdminError(refused)


async def _ask_to_alter(
    asking: Asking,
    connection: KafkaConnection,
    asked: Mapping[TopicPartition, Mapping[int, int]],
) -> dict[TopicPartition, dict[int, int] | ApiError]:
    request = ad.AlterDelayedRequest(
        topics=[
            ad.ChangedTopic(
                name=topic,
                partitions=[
                    ad.ChangedPartition(
                        partition_index=index,
                        changes=[
                            ad.DelayedChange(offset=offset, due_ms=due_ms)
                            for offset, due_ms in changes.items()
                        ],
                    )
                    for index, changes in values
                ],
            )
            for topic, values in values_by_topic(asked).items()
        ],
        # The answer must come before the request is given up.
        timeout_ms=asking.config.request_timeout_ms * 3 // 4,
    )
    response: ad.AlterDelayedResponse = await asking.request(connection, request)
    return {
        TopicPartition(topic.name, each.partition_index): _outcome(each)
        for topic in response.topics
        for each in topic.partitions
    }


def _outcome(result: ad.ChangedPartitionResult) -> dict[int, int] | ApiError:
    codes = {each.offset: each.error_code for each in result.records}
    # The leader has changed, and knows no better: the same is asked again.
    if ErrorCode.NOT_LEADER_OR_FOLLOWER in codes.values():
        return ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return error_of(result.error_code) or codes


async def describe_forwarding(
    asking: Asking, partitions: Partitions
) -> dict[TopicPartition, ForwardingStatus]:
    """Describe what waits in partitions of delay topics, and what is over.

    Raise AdminError with the partitions that were refused: INVALID_REQUEST if it is no delay topic.
    """

    async def ask(
        connection: KafkaConnection, asked: Mapping[TopicPartition, None]
    ) -> dict[TopicPartition, ForwardingStatus | ApiError]:
        found: dict[TopicPartition, ForwardingStatus | ApiError] = {}
        names = list(asked)
        for at in range(0, len(names), df.MOST_PARTITIONS):
            part = by_topic(names[at : at + df.MOST_PARTITIONS])
            topics = [df.ForwardingTopic(name=t, partition_indexes=i) for t, i in part.items()]
            request = df.DescribeForwardingRequest(topics=topics)
            response: df.DescribeForwardingResponse = await asking.request(connection, request)
            for topic in response.topics:
                for each in topic.partitions:
                    where = TopicPartition(topic.name, each.partition_index)
                    found[where] = error_of(each.error_code) or _status(each)
        return found

    return await asking.leaders({TopicPartition(*each): None for each in partitions}, ask)


def _status(told: df.ForwardingStatus) -> ForwardingStatus:
    return ForwardingStatus(
        pending=told.pending,
        planned=told.planned,
        next_due_ms=None if told.next_due_ms < 0 else told.next_due_ms,
        forwarded=told.forwarded,
        dead_letters=told.dead_letters,
        dropped=told.dropped,
        cancelled=told.cancelled,
        targets=[
            ForwardingTarget(
                each.topic_id.hex(), each.partition_index, each.records, ErrorCode(each.error_code)
            )
            for each in told.targets
        ],
    )


async def refire_forwarded(
    asking: Asking,
    partition: TopicPartition,
    *,
    from_offset: int = 0,
    to_offset: int | None = None,
    since_ms: int = 0,
) -> int:
    """Forward records again that are forwarded already, because their target has lost them.

    Only those from `from_offset` on, below `to_offset`, that were planned since `since_ms`, in ms
    since the epoch, and that the source still has. Each goes to the partition that it went to. A
    copy has the same header `minikafka-source` as the one before it. Return how many there are.
    Raise AdminError with INVALID_REQUEST if it is no delay topic, POLICY_VIOLATION while it is
    paused.
    """
    there = TopicPartition(*partition)
    count, position, end = 0, rf.FROM_START, -1

    async def ask(
        connection: KafkaConnection, asked: Mapping[TopicPartition, None]
    ) -> dict[TopicPartition, rf.RefireForwardedResponse | ApiError]:
        request = rf.RefireForwardedRequest(
            topic=there.topic,
            partition_index=there.partition,
            from_offset=from_offset,
            to_offset=-1 if to_offset is None else to_offset,
            since_ms=since_ms,
            position=position,
            end=end,
            # The answer must come before the request is given up.
            timeout_ms=asking.config.request_timeout_ms * 3 // 4,
        )
        response: rf.RefireForwardedResponse = await asking.request(connection, request)
        return {there: error_of(response.error_code) or response}

    while True:
        answer = (await asking.leaders({there: None}, ask))[there]
        count, position, end = count + answer.records, answer.position, answer.end
        if position < 0:
            return count
