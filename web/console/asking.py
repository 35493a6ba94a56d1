"""Reads from the cluster what a screen shows, by several requests of the admin at a time.

The results are plain values for the pure views. What a cluster does not support (Apache Kafka has
no DescribeReplicas, an old one no quorum) is None or empty, and the rest is shown.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from ...client.admin.admin import Admin
from ...client.admin.config_types import ConfigEntry, ConfigResource
from ...client.admin.group_types import GroupDescription
from ...client.admin.topic_types import PartitionDescription, TopicDescription
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
from .views.groups import Lags
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
MOST_MIN_ISR: Final = 500
"""The most topics whose min.insync.replicas is read at a time."""


async def sight(admin: Admin, runtime: Runtime) -> Sight:
    """Read the state of the whole cluster once."""
    cluster, names, moving, quorum = await asyncio.gather(
        admin.describe_cluster(include_fenced=True),
        admin.list_topics(include_internal=True),
        if_known(admin.list_partition_reassignments()),
        if_known(admin.describe_metadata_quorum()),
    )
    topics = await described(admin, [one.name for one in names])
    short = [
        topic.name for topic in topics.values() if any(map(is_under_replicated, topic.partitions))
    ]
    least = await min_isr(admin, short[:MOST_MIN_ISR])
    return Sight(runtime.wall_ms(), cluster, topics, moving or {}, quorum, least)


async def described(admin: Admin, names: Iterable[str]) -> dict[str, TopicDescription]:
    """Describe topics; leave out a topic that was deleted meanwhile."""
    wanted = list(names)
    try:
        return await admin.describe_topics(wanted)
    except AdminError as error:
        return await admin.describe_topics([name for name in wanted if name not in error.errors])


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


async def log_dirs(admin: Admin, broker_ids: Iterable[int]) -> LogDirs:
    """Describe the log directories of brokers; leave out a broker that does not answer."""
    wanted = list(broker_ids)
    answers = await asyncio.gather(
        *(admin.describe_log_dirs([broker_id]) for broker_id in wanted), return_exceptions=True
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
    try:
        topic = (await admin.describe_topics([where.topic]))[where.topic]
    except AdminError as error:
        if error.errors[where.topic].code in NO_TOPIC:
            return None
        raise
    found = [one for one in topic.partitions if one.partition == where.partition]
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


async def group(admin: Admin, group_id: str) -> GroupDescription | None:
    """Describe a group; None if there is no such group."""
    try:
        found = (await admin.describe_groups([group_id]))[group_id]
    except AdminError as error:
        if error.errors[group_id].code is ErrorCode.GROUP_ID_NOT_FOUND:
            return None
        raise
    return None if found.state == "Dead" else found


async def lags(admin: Admin, group_ids: Iterable[str]) -> dict[str, Lags]:
    """Read the lag of groups, a few of them at a time; leave out a group that is refused."""
    found: dict[str, Lags] = {}
    turns = asyncio.Semaphore(GROUPS_AT_ONCE)

    async def one(group_id: str) -> None:
        async with turns:
            answer = await if_known(admin.describe_group_lag(group_id))
        if answer is not None:
            found[group_id] = answer

    await asyncio.gather(*map(one, group_ids))
    return found


async def group_with_lags(admin: Admin, group_id: str) -> tuple[GroupDescription | None, Lags]:
    """Describe a group, and read its lag."""
    found = await group(admin, group_id)
    return found, {} if found is None else (await lags(admin, [group_id])).get(group_id, {})


async def configs(admin: Admin, resource: ConfigResource) -> dict[str, ConfigEntry]:
    """Return the settings of a topic, of a broker, or of all brokers."""
    return (await admin.describe_configs([resource]))[resource]


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
    """Describe transactional ids; leave out an id that the coordinator has forgotten meanwhile."""
    wanted = list(names)
    if not wanted:
        return {}
    try:
        return await admin.describe_transactions(wanted)
    except AdminError as error:
        left = [name for name in wanted if name not in error.errors]
        return await admin.describe_transactions(left) if left else {}


async def if_known(answer: Awaitable[T]) -> T | None:
    """Return the answer; None if the cluster does not support the request."""
    try:
        return await answer
    except (ApiError, AdminError, UnsupportedVersion):
        return None
