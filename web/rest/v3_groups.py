"""The v3 API of consumer groups: members, assignments, lag."""

from typing import Final
from urllib.parse import quote

from ...client.admin.group_types import GroupDescription, GroupMember
from ...client.admin.lag_types import PartitionLag
from ...protocol.errors import ApiError
from ...protocol.types import TopicPartition
from .call import Call
from .errors import NO_GROUP, NOT_FOUND, RestError
from .v3_kinds import Object

CONSUMERS: Final = ("consumer", "")
STATES: Final = {
    "PreparingRebalance": "PREPARING_REBALANCE",
    "CompletingRebalance": "COMPLETING_REBALANCE",
    "Stable": "STABLE",
    "Empty": "EMPTY",
    "Dead": "DEAD",
}


async def groups(call: Call) -> Object:
    """List the consumer groups."""
    admin = await call.admin()
    listed = [one.group_id for one in await admin.list_groups() if one.protocol_type in CONSUMERS]
    described = await admin.describe_groups(listed) if listed else {}
    data = [_group(call, one) for one in described.values()]
    return call.site.listed("KafkaConsumerGroup", "consumer-groups", data)


async def group(call: Call) -> Object:
    """Describe a consumer group."""
    return _group(call, await _found(call))


async def members(call: Call) -> Object:
    """List the consumers of a group."""
    of = await _found(call)
    data = [_member(call, of, one) for one in of.members]
    return call.site.listed("KafkaConsumer", _path(of, "consumers"), data)


async def member(call: Call) -> Object:
    """Describe a consumer of a group."""
    of = await _found(call)
    return _member(call, of, _one(call, of))


async def assignments(call: Call) -> Object:
    """List the partitions that are assigned to a consumer."""
    of = await _found(call)
    one = _one(call, of)
    data = [_assignment(call, of, one, place) for place in one.assignment]
    path = _path(of, f"consumers/{quote(one.member_id, safe='')}/assignments")
    return call.site.listed("KafkaConsumerAssignment", path, data)


async def assignment(call: Call) -> Object:
    """Describe a partition that is assigned to a consumer."""
    of = await _found(call)
    one, place = _one(call, of), _place(call)
    if place not in one.assignment:
        why = f"{place.topic}-{place.partition} is not assigned to this consumer."
        raise RestError(NOT_FOUND, why)
    return _assignment(call, of, one, place)


async def lags(call: Call) -> Object:
    """List the lag of a group in the partitions for which it has committed offsets."""
    of = await _found(call)
    data = [_lag(call, of, place, one) for place, one in (await _lags(call, of)).items()]
    return call.site.listed("KafkaConsumerLag", _path(of, "lags"), data)


async def lag(call: Call) -> Object:
    """Tell the lag of a group in a partition."""
    of, place = await _found(call), _place(call)
    one = (await _lags(call, of)).get(place)
    if one is None:
        raise RestError(NOT_FOUND, f"The group has no lag in {place.topic}-{place.partition}.")
    return _lag(call, of, place, one)


async def lag_summary(call: Call) -> Object:
    """Tell the largest lag of a group, and the sum."""
    of = await _found(call)
    known = await _lags(call, of)
    if not known:
        raise RestError(NOT_FOUND, f"Group {of.group_id} has committed no offsets.")
    where = max(known, key=lambda at: known[at].offsets)
    reader = _reader(of, where)
    return call.site.make(
        "KafkaConsumerGroupLagSummary",
        consumer_group_id=of.group_id,
        max_lag_consumer_id=reader["consumer_id"],
        max_lag_instance_id=reader["instance_id"],
        max_lag_client_id=reader["client_id"],
        max_lag_topic_name=where.topic,
        max_lag_partition_id=where.partition,
        max_lag=known[where].offsets,
        total_lag=sum(one.offsets for one in known.values()),
    )


async def _found(call: Call) -> GroupDescription:
    group_id: str = call.path["consumer_group_id"]
    found = (await (await call.admin()).describe_groups([group_id]))[group_id]
    if found.state == "Dead":
        raise RestError(NO_GROUP, f"Consumer group {group_id[:250]} cannot be found.")
    return found


def _one(call: Call, of: GroupDescription) -> GroupMember:
    for one in of.members:
        if one.member_id == call.path["consumer_id"]:
            return one
    raise RestError(NOT_FOUND, f"Consumer {call.path['consumer_id'][:250]} cannot be found.")


def _place(call: Call) -> TopicPartition:
    return TopicPartition(call.path["topic_name"], call.path["partition_id"])


def _path(of: GroupDescription, below: str) -> str:
    return f"consumer-groups/{quote(of.group_id, safe='')}/{below}"


async def _lags(call: Call, of: GroupDescription) -> dict[TopicPartition, PartitionLag]:
    """Return the lags that are known; a partition whose leader is away has none."""
    found = await (await call.admin()).describe_group_lag(of.group_id)
    return {at: one for at, one in sorted(found.items()) if not isinstance(one, ApiError)}


def _group(call: Call, one: GroupDescription) -> Object:
    return call.site.make(
        "KafkaConsumerGroup",
        consumer_group_id=one.group_id,
        is_simple=one.protocol_type == "",
        partition_assignor=one.protocol,
        state=STATES.get(one.state, "UNKNOWN"),
        coordinator_id=one.coordinator_id,
    )


def _member(call: Call, of: GroupDescription, one: GroupMember) -> Object:
    return call.site.make("KafkaConsumer", consumer_group_id=of.group_id, **_identity(one))


def _identity(one: GroupMember | None) -> Object:
    if one is None:
        return {"consumer_id": "", "instance_id": None, "client_id": ""}
    return {
        "consumer_id": one.member_id,
        "instance_id": one.group_instance_id,
        "client_id": one.client_id,
    }


def _reader(of: GroupDescription, where: TopicPartition) -> Object:
    """Return who reads a partition; with empty names if nobody does."""
    return _identity(next((one for one in of.members if where in one.assignment), None))


def _assignment(
    call: Call, of: GroupDescription, one: GroupMember, place: TopicPartition
) -> Object:
    return call.site.make(
        "KafkaConsumerAssignment",
        consumer_group_id=of.group_id,
        consumer_id=one.member_id,
        topic_name=place.topic,
        partition_id=place.partition,
    )


def _lag(call: Call, of: GroupDescription, place: TopicPartition, one: PartitionLag) -> Object:
    return call.site.make(
        "KafkaConsumerLag",
        consumer_group_id=of.group_id,
        topic_name=place.topic,
        partition_id=place.partition,
        **_reader(of, place),
        current_offset=one.committed_offset,
        log_end_offset=one.high_watermark,
        lag=one.offsets,
    )
