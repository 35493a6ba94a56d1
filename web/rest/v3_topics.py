"""The v3 API of topics, partitions, replicas and their moves."""

from typing import Any

from ...client.admin.topic_types import (
    NewTopic,
    PartitionDescription,
    Reassignment,
    TopicDescription,
)
from ...protocol.messages.create_topics import BROKER_DEFAULT
from ...protocol.types import TopicPartition
from .call import Call
from .errors import NOT_FOUND, RestError
from .schemas import OFFSET_TYPES
from .v2 import bounds, described, one_partition
from .v3_kinds import Object


async def topics(call: Call) -> Object:
    """List the topics."""
    described = await (await call.admin()).describe_topics()
    return call.site.listed(
        "KafkaTopic", "topics", [_topic(call, one) for one in described.values()]
    )


async def create_topic(call: Call) -> Object:
    """Create a topic, or only check whether it could be created."""
    given = await call.json("NewTopic")
    name: str = given["topic_name"]
    placed = {
        int(one["partition_id"]): [int(broker) for broker in one["broker_ids"]]
        for one in given.get("replicas_assignments", ())
    }
    topic = NewTopic(
        name,
        int(given.get("partitions_count", BROKER_DEFAULT)),
        int(given.get("replication_factor", BROKER_DEFAULT)),
        placed or None,
        {one["name"]: one["value"] for one in given.get("configs", ())},
    )
    checks = given.get("validate_only", False)
    created = (await (await call.admin()).create_topics([topic], validate_only=checks))[name]
    return call.site.make(
        "KafkaTopic",
        topic_name=name,
        is_internal=False,
        replication_factor=created.replication_factor,
        partitions_count=created.num_partitions,
    )


async def topic(call: Call) -> Object:
    """Describe a topic."""
    return _topic(call, await described(call))


async def patch_topic(call: Call) -> Object:
    """Add partitions to a topic, up to the count."""
    count = int((await call.json("Count"))["partitions_count"])
    name: str = call.path["topic_name"]
    await (await call.admin()).create_partitions({name: count})
    call.held.forget(name)
    return await topic(call)


async def delete_topic(call: Call) -> None:
    """Delete a topic and its records."""
    name: str = call.path["topic_name"]
    await (await call.admin()).delete_topics([name])
    call.held.forget(name)


async def partitions(call: Call) -> Object:
    """List the partitions of a topic."""
    data = [_partition(call, one) for one in (await described(call)).partitions]
    return call.site.listed("KafkaPartition", _path(call, "partitions"), data)


async def partition(call: Call) -> Object:
    """Describe a partition."""
    return _partition(call, await one_partition(call))


async def offset(call: Call) -> Object:
    """Tell the first offset of a partition, its end, or both."""
    kind = call.choice("offset_type", OFFSET_TYPES, OFFSET_TYPES[0])
    begin, end = await bounds(call)
    ends = {"earliest_offset": begin, "latest_offset": end}
    shown = {name: at for name, at in ends.items() if name.removesuffix("_offset") in kind}
    return call.site.make("KafkaPartitionOffset", **_place(call), offset_type=kind, **shown)


async def replicas(call: Call) -> Object:
    """List the replicas of a partition."""
    one = await one_partition(call)
    data = [_replica(call, one, broker) for broker in one.replicas]
    return call.site.listed(
        "KafkaReplica", _path(call, f"partitions/{one.partition}/replicas"), data
    )


async def replica(call: Call) -> Object:
    """Describe the replica of a partition on a broker."""
    one, broker = await one_partition(call), call.path["broker_id"]
    if broker not in one.replicas:
        raise RestError(NOT_FOUND, f"Broker {broker} has no replica of this partition.")
    return _replica(call, one, broker)


async def reassignment(call: Call) -> Object:
    """Describe the move of a partition's replicas that is under way."""
    place = TopicPartition(call.path["topic_name"], (await one_partition(call)).partition)
    moves = await (await call.admin()).list_partition_reassignments([place])
    if place not in moves:
        raise RestError(NOT_FOUND, f"{place.topic}-{place.partition} is not being reassigned.")
    return _move(call, place, moves[place])


async def reassignments(call: Call) -> Object:
    """List the moves of replicas that are under way, of the path's topic or of all."""
    only = call.path.get("topic_name")
    if only is not None:
        await described(call)
    moves = await (await call.admin()).list_partition_reassignments()
    data = [_move(call, at, one) for at, one in sorted(moves.items()) if only in (None, at.topic)]
    return call.site.listed("KafkaReassignment", _path(call, "partitions/-/reassignment"), data)


def _path(call: Call, below: str) -> str:
    return f"topics/{call.path.get('topic_name', '-')}/{below}"


def _place(call: Call) -> dict[str, Any]:
    return {name: call.path[name] for name in ("topic_name", "partition_id")}


def _topic(call: Call, one: TopicDescription) -> Object:
    return call.site.make(
        "KafkaTopic",
        topic_name=one.name,
        is_internal=one.is_internal,
        replication_factor=len(one.partitions[0].replicas) if one.partitions else 0,
        partitions_count=len(one.partitions),
    )


def _partition(call: Call, one: PartitionDescription) -> Object:
    leader = {"leader_id": one.leader_id} if one.leader_id >= 0 else {}
    name = call.path["topic_name"]
    return call.site.make("KafkaPartition", topic_name=name, partition_id=one.partition, **leader)


def _replica(call: Call, one: PartitionDescription, broker: int) -> Object:
    return call.site.make(
        "KafkaReplica",
        **_place(call),
        broker_id=broker,
        is_leader=broker == one.leader_id,
        is_in_sync=broker in one.isr,
    )


def _move(call: Call, place: TopicPartition, one: Reassignment) -> Object:
    return call.site.make(
        "KafkaReassignment",
        topic_name=place.topic,
        partition_id=place.partition,
        adding_replicas=list(one.adding),
        removing_replicas=list(one.removing),
    )
