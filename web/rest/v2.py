"""The v2 API without consumers: topics, partitions, brokers, and records to write."""

import asyncio
from typing import Any

from ...client.admin.config_types import ConfigResource
from ...client.admin.topic_types import PartitionDescription, TopicDescription
from ...protocol.messages.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from ...protocol.types import TopicPartition
from . import media
from .call import Call
from .errors import NO_PARTITION, PAYLOAD, UNPROCESSABLE, RestError
from .formats import to_bytes
from .schemas import checked, parsed
from .sending import Outcome, Outgoing, send_all


async def root(call: Call) -> Any:
    """Answer with an empty object, by which tools see that the proxy is there."""
    return {}


async def brokers(call: Call) -> Any:
    """List the ids of the brokers."""
    seen = await (await call.admin()).describe_cluster()
    return {"brokers": [one.node_id for one in seen.brokers if not one.is_fenced]}


async def topics(call: Call) -> Any:
    """List the names of topics."""
    listed = await (await call.admin()).list_topics(include_internal=True)
    return [one.name for one in listed]


async def topic(call: Call) -> Any:
    """Describe a topic, its settings and its partitions."""
    found = await described(call)
    resource = ConfigResource.topic(found.name)
    configs = (await (await call.admin()).describe_configs([resource]))[resource]
    return {
        "name": found.name,
        "configs": {one.name: one.value for one in configs.values()},
        "partitions": [_partition(one) for one in found.partitions],
    }


async def partitions(call: Call) -> Any:
    """Describe the partitions of a topic."""
    return [_partition(one) for one in (await described(call)).partitions]


async def partition(call: Call) -> Any:
    """Describe one partition."""
    return _partition(await one_partition(call))


async def offsets(call: Call) -> Any:
    """Tell the first offset of a partition and its end."""
    begin, end = await bounds(call)
    return {"beginning_offset": begin, "end_offset": end}


async def described(call: Call) -> TopicDescription:
    """Describe the path's topic as the admin does."""
    name: str = call.path["topic_name"]
    return (await (await call.admin()).describe_topics([name]))[name]


async def one_partition(call: Call) -> PartitionDescription:
    """Describe the path's partition as the admin does; raise RestError if there is none."""
    name, index = call.path["topic_name"], call.path["partition_id"]
    for one in (await described(call)).partitions:
        if one.partition == index:
            return one
    raise RestError(NO_PARTITION, f"Topic {name} has no partition {index}.")


async def bounds(call: Call) -> tuple[int, int]:
    """Return the first offset of the path's partition, and its end; raise RestError if none.

    The end is that of consumers: with isolation.level=read_committed the last stable offset.
    """
    where = TopicPartition(call.path["topic_name"], call.path["partition_id"])
    await call.held.partitions(where.topic, where.partition)
    admin = await call.admin()
    isolation = call.desk.settings.consumer.get("isolation.level")
    begin, end = await asyncio.gather(
        admin.list_offsets({where: EARLIEST_TIMESTAMP}),
        admin.list_offsets(
            {where: LATEST_TIMESTAMP}, isolation_level=int(isolation == "read_committed")
        ),
    )
    return begin[where].offset, end[where].offset


async def produce(call: Call) -> Any:
    """Write records to a topic, or to the path's partition; each has its entry in the answer."""
    name, index = call.path["topic_name"], call.path.get("partition_id")
    form = media.body_format(call.request.headers.get("content-type"))
    media.chosen(call.request.headers.get("accept"), media.V2_OFFERS)
    body = checked("Records", parsed(await call.body()), UNPROCESSABLE)
    records = [_outgoing(one, form, at, index) for at, one in enumerate(body["records"])]
    call.spend(len(records))
    if index is not None:
        await call.held.partitions(name, index)
    entries = [_entry(one) for one in await send_all(call.held, name, records)]
    return {"offsets": entries, "key_schema_id": None, "value_schema_id": None}


def _outgoing(given: Any, form: str, at: int, partition: int | None) -> Outgoing:
    where = f"records[{at}]"
    own = given.get("partition")
    if own is not None and partition is not None and own != partition:
        raise RestError(PAYLOAD, f"{where}.partition: is not the partition {partition} of the path")
    return Outgoing(
        to_bytes(given.get("key"), form, f"{where}.key"),
        to_bytes(given.get("value"), form, f"{where}.value"),
        partition if own is None else int(own),
    )


def _entry(outcome: Outcome) -> dict[str, Any]:
    if isinstance(outcome, RestError):
        code = outcome.kind.code
        return {"partition": None, "offset": None, "error_code": code, "error": str(outcome)}
    place = {"partition": outcome.partition, "offset": outcome.offset}
    return {**place, "error_code": None, "error": None}


def _partition(one: PartitionDescription) -> dict[str, Any]:
    return {
        "partition": one.partition,
        "leader": one.leader_id,
        "replicas": [
            {"broker": broker, "leader": broker == one.leader_id, "in_sync": broker in one.isr}
            for broker in one.replicas
        ],
    }
