"""Reads from the cluster what a screen shows, by several requests of the admin at a time.

The results are plain values for the pure views. What a cluster does not support (Apache Kafka has
no DescribeReplicas, an old one no quorum) is None or empty, and the rest is shown.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import dataclass
from heapq import nsmallest
from typing import Final, TypeVar

from ...client.admin.admin import Admin
from ...client.admin.cluster_types import ClusterDescription, MetadataQuorum
from ...client.admin.config_types import ConfigEntry, ConfigResource
from ...client.admin.group_types import GroupDescription, GroupListing
from ...client.admin.lag_types import PartitionLag
from ...client.admin.topic_types import PartitionDescription, Reassignment, TopicDescription
from ...client.admin.transaction_types import (
    ActiveProducer,
    TransactionDescription,
    TransactionListing,
)
from ...client.errors import AdminError, ClientError, UnsupportedVersion
from ...protocol.errors import ApiError, ErrorCode
from ...protocol.messages.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from ...protocol.types import TopicPartition
from ...runtime.runtime import Runtime
from .views.brokers import LogDirs
from .views.groups import Lags, is_other
from .views.partition import Offsets, Replicas
from .views.sight import Sight, is_under_replicated
from .views.transactions import OPEN

T = TypeVar("T")
Bounds = tuple[dict[TopicPartition, int], dict[TopicPartition, int]]
"""The first offset of each partition's log, and the end offset of each."""
PartitionSight = tuple[PartitionDescription, Replicas | None, Offsets | None] | None
NO_TOPIC: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION)
GROUPS_AT_ONCE: Final = 8
MOST_OPEN: Final = 200
"""The most open transactions whose partitions are looked at."""
REPLICA_MS: Final = 1_500
"""Milliseconds after which a broker is shown as silent, so that the others need not wait for it."""
MIN_ISR: Final = "min.insync.replicas"
MOST_MIN_ISR: Final = 1_000
"""The most topics whose min.insync.replicas is read at a time."""


async def sight(admin: Admin, runtime: Runtime) -> Sight:
    """Read the state of the whole cluster once."""
    at_ms = runtime.wall_ms()
    seen, topics, moving, controllers = await asyncio.gather(
        cluster(admin),
        admin.describe_topics(),
        if_known(admin.list_partition_reassignments()),
        quorum(admin),
    )
    # Those with the fewest replicas in sync first: they are the likeliest to be under the minimum.
    fewest = {
        name: min(len(one.isr) for one in topic.partitions)
        for name, topic in topics.items()
        if any(map(is_under_replicated, topic.partitions))
    }
    least = await min_isr(admin, nsmallest(MOST_MIN_ISR, fewest, fewest.__getitem__))
    return Sight(at_ms, seen, topics, moving or {}, controllers, least)


async def cluster(admin: Admin) -> ClusterDescription:
    """Describe the brokers, fenced ones too."""
    return await admin.describe_cluster(include_fenced=True)


async def quorum(admin: Admin) -> MetadataQuorum | None:
    """Describe the controllers; None if the cluster does not support this, or refuses it."""
    return await if_known(admin.describe_metadata_quorum())


async def described(admin: Admin, names: Iterable[str]) -> dict[str, TopicDescription]:
    """Describe topics; leave out those that do not exist any more."""
    wanted = list(names)
    try:
        return await admin.describe_topics(wanted)
    except AdminError as error:
        return await admin.describe_topics([name for name in wanted if name not in error.errors])


async def topic(admin: Admin, name: str) -> TopicDescription | None:
    """Describe a topic; None if there is no such topic."""
    try:
        return (await admin.describe_topics([name]))[name]
    except AdminError as error:
        if error.errors[name].code in NO_TOPIC:
            return None
        raise


@dataclass(frozen=True, slots=True)
class TopicSight:
    """A topic, the offset ranges of its first partitions, and its reassignments."""

    topic: TopicDescription
    moving: dict[TopicPartition, Reassignment]
    starts: dict[TopicPartition, int]
    ends: dict[TopicPartition, int]


async def topic_with_bounds(admin: Admin, name: str, most: int) -> TopicSight | None:
    """Describe a topic, and the offset ranges of its first `most` partitions.

    None if it is gone.
    """
    found = await topic(admin, name)
    if found is None:
        return None
    shown = found.partitions[:most]
    led = [TopicPartition(name, one.partition) for one in shown if one.leader_id >= 0]
    every = [TopicPartition(name, one.partition) for one in found.partitions]
    moving, (starts, ends) = await asyncio.gather(
        if_known(admin.list_partition_reassignments(every)), bounds(admin, led)
    )
    return TopicSight(found, moving or {}, starts, ends)


async def min_isr(admin: Admin, names: Iterable[str]) -> dict[str, int]:
    """Return min.insync.replicas of the topics for which the cluster reports it."""
    resources = [ConfigResource.topic(name) for name in names]
    if not resources:
        return {}
    found = await if_known(admin.describe_configs(resources, keys=[MIN_ISR])) or {}
    return {
        resource.name: int(entries[MIN_ISR].value or 1)
        for resource, entries in found.items()
        if MIN_ISR in entries
    }


@dataclass(frozen=True, slots=True)
class MovesSight:
    """Partitions that are being reassigned, and the topics of those that are shown."""

    moving: dict[TopicPartition, Reassignment]
    topics: dict[str, TopicDescription]


async def moves(admin: Admin, most: int) -> MovesSight:
    """List reassignments, and describe the topics of the first `most` of them."""
    moving = await if_known(admin.list_partition_reassignments()) or {}
    names = dict.fromkeys(where.topic for where in sorted(moving)[:most])
    return MovesSight(moving, await described(admin, names) if names else {})


async def log_dirs(
    admin: Admin, broker_ids: Iterable[int], partitions: tuple[TopicPartition, ...] | None = None
) -> LogDirs:
    """Describe the log directories of brokers; leave out a broker that does not answer.

    The directories list the replicas of `partitions`, or all replicas if that is None.
    """
    wanted = list(broker_ids)
    answers = await asyncio.gather(
        *(admin.describe_log_dirs([broker_id], partitions) for broker_id in wanted),
        return_exceptions=True,
    )
    found = {}
    for broker_id, answer in zip(wanted, answers, strict=True):
        if isinstance(answer, dict):
            found[broker_id] = answer[broker_id]
        elif not isinstance(answer, ApiError | ClientError):
            raise answer
    return found


async def bounds(admin: Admin, partitions: Iterable[TopicPartition]) -> Bounds:
    """Look up the start and end offsets of partitions, each of which must have a leader.

    Return two empty tables if a leader does not answer.
    """
    wanted = list(partitions)

    async def at(timestamp: int) -> Mapping[TopicPartition, int]:
        found = await admin.list_offsets(dict.fromkeys(wanted, timestamp))
        return {partition: answer.offset for partition, answer in found.items()}

    try:
        starts, ends = await asyncio.gather(at(EARLIEST_TIMESTAMP), at(LATEST_TIMESTAMP))
    except (ApiError, ClientError):
        return {}, {}
    return dict(starts), dict(ends)


async def partition(admin: Admin, where: TopicPartition) -> PartitionSight:
    """Ask every replica of a partition for its state; None if there is no such partition.

    If brokers do not support this (Apache Kafka's), the leader is asked for its offsets instead.
    """
    whole = await topic(admin, where.topic)
    if whole is None:
        return None
    found = [one for one in whole.partitions if one.partition == where.partition]
    if not found:
        return None
    (one,) = found
    replicas: Replicas | None
    try:
        asked = await admin.describe_replicas({where: one.replicas}, timeout_ms=REPLICA_MS)
        replicas = asked[where]
    except UnsupportedVersion:
        replicas = None
    offsets = None
    if replicas is None and one.leader_id >= 0:
        (starts, ends), stable = await asyncio.gather(
            bounds(admin, [where]),
            if_known(admin.list_offsets({where: LATEST_TIMESTAMP}, isolation_level=1)),
        )
        if where in starts and where in ends:
            last_stable = ends[where] if stable is None else stable[where].offset
            offsets = Offsets(starts[where], ends[where], last_stable)
    return one, replicas, offsets


async def group(admin: Admin, group_id: str) -> GroupDescription | GroupListing | None:
    """Describe a group; None if there is no such group.

    For a group with another protocol than the classic one, as Apache Kafka has, return its listing.
    """
    try:
        found = (await admin.describe_groups([group_id]))[group_id]
    except AdminError as error:
        if error.errors[group_id].code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
    else:
        if found.state != "Dead":
            return found
    listed = await admin.list_groups()
    return next((one for one in listed if one.group_id == group_id and is_other(one)), None)


async def lags(admin: Admin, group_ids: Iterable[str]) -> dict[str, Lags]:
    """Read the lag of groups; leave out a group that is refused.

    Each leader gets one request for all groups together.
    """
    committed: dict[str, dict[TopicPartition, int]] = {}
    turns = asyncio.Semaphore(GROUPS_AT_ONCE)

    async def one(group_id: str) -> None:
        async with turns:
            answer = await if_known(admin.list_group_offsets(group_id))
        if answer is not None:
            committed[group_id] = {where: each.offset for where, each in answer.items()}

    await asyncio.gather(*map(one, group_ids))
    found: dict[tuple[TopicPartition, int], PartitionLag | ApiError] = {}
    for question in questions_about(committed.values()):
        for where, answer in (await admin.describe_lag(question)).items():
            found[where, question[where]] = answer
    return {
        group_id: {where: found[where, offset] for where, offset in offsets.items()}
        for group_id, offsets in committed.items()
    }


def questions_about(
    readers: Iterable[Mapping[TopicPartition, int]],
) -> list[dict[TopicPartition, int]]:
    """Split the readers' offsets into the fewest requests that each name a partition only once."""
    questions: list[dict[TopicPartition, int]] = []
    for offsets in readers:
        for where, offset in offsets.items():
            for question in questions:
                if question.setdefault(where, offset) == offset:
                    break
            else:
                questions.append({where: offset})
    return questions


async def group_with_lags(
    admin: Admin, group_id: str
) -> tuple[GroupDescription | GroupListing | None, Lags]:
    """Describe a group, and read its lag."""
    found, told = await asyncio.gather(group(admin, group_id), lags(admin, [group_id]))
    return found, {} if found is None else told.get(group_id, {})


async def configs(admin: Admin, resource: ConfigResource) -> dict[str, ConfigEntry] | None:
    """Return the settings of a topic, a broker, or all brokers; None if there is no such topic."""
    try:
        return (await admin.describe_configs([resource]))[resource]
    except AdminError as error:
        if [one.code for one in error.errors.values() if one.code not in NO_TOPIC]:
            raise
        return None


@dataclass(frozen=True, slots=True)
class TransactionSight:
    """Transactional ids, and for partitions with open transactions their producers and log ends."""

    listed: list[TransactionListing]
    producers: dict[TopicPartition, list[ActiveProducer]]
    ends: dict[TopicPartition, int]


async def transactions(admin: Admin) -> TransactionSight:
    """List transactional ids, and look at the partitions of those that have an open transaction."""
    listed = await admin.list_transactions()
    names = [one.transactional_id for one in listed if one.state in OPEN][:MOST_OPEN]
    described = await described_transactions(admin, names)
    touched = dict.fromkeys(where for one in described.values() for where in one.partitions)
    if not touched:
        return TransactionSight(listed, {}, {})
    producers, (_, ends) = await asyncio.gather(
        if_known(admin.describe_producers(touched)), bounds(admin, touched)
    )
    return TransactionSight(listed, producers or {}, ends)


async def described_transactions(
    admin: Admin, names: Iterable[str]
) -> dict[str, TransactionDescription]:
    """Describe transactional ids; leave out those that the coordinator knows no longer."""
    wanted = list(names)
    if not wanted:
        return {}
    try:
        return await admin.describe_transactions(wanted)
    except AdminError as error:
        left = [name for name in wanted if name not in error.errors]
        return await admin.describe_transactions(left) if left else {}


async def if_known(answer: Awaitable[T]) -> T | None:
    """Return the answer; None if the cluster does not support the request, or refuses it."""
    try:
        return await answer
    except (ApiError, AdminError, UnsupportedVersion):
        return None
