"""The agent of aiokafka: one loop, requests read off standard input in a thread."""

import asyncio
import ssl
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiokafka
import aiokafka.admin
import aiokafka.admin.config_resource
import aiokafka.structs
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from aiokafka.errors import KafkaError, for_code

from . import base

Request = dict[str, Any]
WAIT_S = 20
ASSIGNORS = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}


SECURITY = {
    "protocol": ("security_protocol",),
    "ca": (),
    "own": (),
    "mechanism": ("sasl_mechanism",),
    "user": ("sasl_plain_username",),
    "password": ("sasl_plain_password",),
}


def cluster(request: Request) -> dict[str, Any]:
    """Tell where the cluster is, and how to be let in."""
    how = request["security"]
    settings = {"bootstrap_servers": request["bootstrap"], **base.security_of(request, SECURITY)}
    if "ca" in how:
        settings["ssl_context"] = ssl.create_default_context(cafile=how["ca"])
        if "own" in how:
            settings["ssl_context"].load_cert_chain(how["own"])
    return settings


def code_of(error: BaseException) -> int | None:
    return getattr(error, "errno", None)


@asynccontextmanager
async def admin(request: Request, **more: Any) -> AsyncIterator[Any]:
    client = aiokafka.admin.AIOKafkaAdminClient(**cluster(request), **more)
    await client.start()
    try:
        yield client
    finally:
        await client.close()


def _raise(code: int, message: str | None = None) -> None:
    if code:
        raise for_code(code)(message)


async def create_topics(request: Request) -> None:
    new = [
        aiokafka.admin.NewTopic(
            t["name"], t["partitions"], t.get("replicas", 1), topic_configs=t.get("configs")
        )
        for t in request["topics"]
    ]
    async with admin(request) as client:
        answer = await client.create_topics(new)
    for _, code, message in answer.topic_errors:
        _raise(code, message)


async def delete_topics(request: Request) -> None:
    async with admin(request) as client:
        answer = await client.delete_topics(request["names"])
    for _, code in answer.topic_error_codes:
        _raise(code)


async def list_topics(request: Request) -> list[str]:
    async with admin(request) as client:
        return sorted(await client.list_topics())


async def look(request: Request) -> list[str]:
    with base.reasons("aiokafka"):
        async with admin(request, request_timeout_ms=base.LOOK_MS) as client:
            return sorted(await client.list_topics())


async def partitions(request: Request) -> int:
    async with admin(request) as client:
        (found,) = await client.describe_topics([request["topic"]])
        return len(found["partitions"])


async def create_partitions(request: Request) -> None:
    new = aiokafka.admin.NewPartitions(request["count"])
    async with admin(request) as client:
        answer = await client.create_partitions({request["topic"]: new})
    for _, code, message in answer.topic_errors:
        _raise(code, message)


def _resource(request: Request, configs: Any = None) -> Any:
    module = aiokafka.admin.config_resource
    kind = module.ConfigResourceType[request["kind"].upper()]
    return module.ConfigResource(kind, request["name"], configs)


async def describe_config(request: Request) -> dict[str, str | None]:
    async with admin(request) as client:
        (answer,) = await client.describe_configs([_resource(request)])
    ((code, message, _, _, entries),) = answer.resources
    _raise(code, message)
    return {entry[0]: entry[1] for entry in entries}


async def alter_config(request: Request) -> None:
    """The old way: it has no other."""
    change = {request["key"]: request["value"]}
    async with admin(request) as client:
        (answer,) = await client.alter_configs([_resource(request, change)])
    for code, message, *_ in answer.resources:
        _raise(code, message)


async def produce(request: Request) -> list[list[int]]:
    compression = request.get("compression", "none")
    async with aiokafka.AIOKafkaProducer(
        **cluster(request),
        acks={-1: "all"}.get(request.get("acks", -1), request.get("acks")),
        compression_type=None if compression == "none" else compression,
        enable_idempotence=request.get("idempotent", False),
        linger_ms=5,
        max_request_size=request.get("limit", 1_048_576),
    ) as producer:
        return await deliver(producer, request)


async def deliver(producer: Any, request: Request) -> list[list[int]]:
    waiting = [
        await producer.send(
            request["topic"], one.value, one.key, one.partition, one.timestamp_ms, one.headers
        )
        for one in base.records_in(request)
    ]
    found = [await each for each in waiting]
    # With acks=0 it does not even know the partition.
    return [[one.partition, one.offset] for one in found if one is not None]


def record_of(record: Any) -> dict[str, Any]:
    sent = base.Sent(
        record.partition, record.key, record.value, list(record.headers), record.timestamp
    )
    return base.record_out(sent, record.topic, record.offset)


@asynccontextmanager
async def reader(request: Request) -> AsyncIterator[Any]:
    consumer = aiokafka.AIOKafkaConsumer(
        **cluster(request),
        group_id=None,
        check_crcs=True,
        isolation_level=request.get("isolation", "read_uncommitted"),
        max_partition_fetch_bytes=request.get("fetch_bytes", 1_048_576),
    )
    consumer.assign(places(request))
    async with consumer:
        yield consumer


def places(request: Request) -> list[Any]:
    return [
        aiokafka.TopicPartition(request["topic"], p) for p in range(request.get("partitions", 1))
    ]


async def consume(request: Request) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    deadline = time.monotonic() + request.get("wait_s", WAIT_S)
    async with reader(request) as consumer:
        await consumer.seek_to_beginning(*places(request))
        while len(found) < request["count"] and time.monotonic() < deadline:
            for records in (await consumer.getmany(timeout_ms=1000)).values():
                found += map(record_of, records)
    return found


async def ends(request: Request) -> list[list[int]]:
    asked = places(request)
    async with reader(request) as consumer:
        first = await consumer.beginning_offsets(asked)
        last = await consumer.end_offsets(asked)
    return [[first[place], last[place]] for place in asked]


async def offset_for_time(request: Request) -> int:
    place = aiokafka.TopicPartition(request["topic"], request["partition"])
    async with reader(request) as consumer:
        found = (await consumer.offsets_for_times({place: request["ms"]}))[place]
    return -1 if found is None else int(found.offset)


class Listener(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]
    """Tells what is assigned."""

    def on_partitions_revoked(self, revoked: Any) -> None:
        base.tell_assigned([])

    def on_partitions_assigned(self, assigned: Any) -> None:
        base.tell_assigned((p.topic, p.partition) for p in assigned)


class Member:
    """A member of a group, polled in a task."""

    def __init__(self, request: Request) -> None:
        self.group = request["group"]
        self.consumer = aiokafka.AIOKafkaConsumer(
            **cluster(request),
            group_id=request["group"],
            group_instance_id=request.get("instance_id"),
            auto_offset_reset="earliest",
            enable_auto_commit=request.get("auto_commit", False),
            auto_commit_interval_ms=100,
            session_timeout_ms=request.get("session_ms", 6000),
            heartbeat_interval_ms=200,
            metadata_max_age_ms=500,
            isolation_level=request.get("isolation", "read_uncommitted"),
            partition_assignment_strategy=[ASSIGNORS[request.get("strategy", "range")]],
        )
        self.consumer.subscribe(request["topics"], listener=Listener())
        self._task: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        await self.consumer.start()
        self._task = asyncio.create_task(self._run())

    async def leave(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self.consumer.stop()

    async def _run(self) -> None:
        while True:
            for records in (await self.consumer.getmany(timeout_ms=100)).values():
                base.tell_records([record_of(one) for one in records])


class Joined:
    """What the agent holds: one member, one transactional producer."""

    member: Member | None = None
    producer: Any = None


joined = Joined()


def member() -> Member:
    assert joined.member is not None
    return joined.member


async def join(request: Request) -> None:
    joined.member = Member(request)
    await joined.member.begin()


async def leave(_: Request) -> None:
    found, joined.member = joined.member, None
    if found is not None:
        await found.leave()


async def reset(request: Request) -> None:
    await leave(request)
    found, joined.producer = joined.producer, None
    if found is not None:
        await found.stop()


def offsets_of(offsets: list[list[Any]]) -> dict[Any, Any]:
    return {
        aiokafka.TopicPartition(topic, partition): aiokafka.structs.OffsetAndMetadata(offset, "")
        for topic, partition, offset in offsets
    }


async def commit(request: Request) -> None:
    await member().consumer.commit(offsets_of(request["offsets"]))


async def committed(request: Request) -> list[int]:
    asked = [aiokafka.TopicPartition(topic, partition) for topic, partition in request["places"]]
    found = [await member().consumer.committed(place) for place in asked]
    return [-1 if offset is None else offset for offset in found]


async def groups(request: Request) -> list[str]:
    async with admin(request) as client:
        return sorted(name for name, _ in await client.list_consumer_groups())


async def describe_group(request: Request) -> dict[str, Any]:
    async with admin(request) as client:
        (answer,) = await client.describe_consumer_groups([request["group"]])
    code, _, state, _, _, members, *_ = answer.groups[0]
    _raise(code)
    owned = [
        [topic, partition]
        for one in members
        for topic, owned in ConsumerProtocolMemberAssignment.decode(one[-1]).assignment
        for partition in owned
    ]
    return {"state": state, "members": len(members), "owned": sorted(owned)}


async def group_offsets(request: Request) -> list[list[Any]]:
    async with admin(request) as client:
        found = await client.list_consumer_group_offsets(request["group"])
    return sorted([place.topic, place.partition, one.offset] for place, one in found.items())


async def delete_records(request: Request) -> int:
    place = aiokafka.TopicPartition(request["topic"], request["partition"])
    before = aiokafka.admin.RecordsToDelete(before_offset=request["offset"])
    async with admin(request) as client:
        return int((await client.delete_records({place: before}))[place])


async def tx_open(request: Request) -> None:
    joined.producer = aiokafka.AIOKafkaProducer(
        **cluster(request),
        transactional_id=request["id"],
        transaction_timeout_ms=request.get("timeout_ms", 60_000),
    )
    await joined.producer.start()


async def tx_begin(_: Request) -> None:
    await joined.producer.begin_transaction()


async def tx_send(request: Request) -> list[list[int]]:
    return await deliver(joined.producer, request)


async def tx_offsets(request: Request) -> None:
    await joined.producer.send_offsets_to_transaction(
        offsets_of(request["offsets"]), member().group
    )


async def tx_commit(_: Request) -> None:
    await joined.producer.commit_transaction()


async def tx_abort(_: Request) -> None:
    await joined.producer.abort_transaction()


OPS = (
    alter_config,
    commit,
    committed,
    consume,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_config,
    describe_group,
    ends,
    group_offsets,
    groups,
    join,
    leave,
    list_topics,
    look,
    offset_for_time,
    partitions,
    produce,
    reset,
    tx_abort,
    tx_begin,
    tx_commit,
    tx_offsets,
    tx_open,
    tx_send,
)


async def serve() -> None:
    ops = {op.__name__: op for op in OPS}
    requests: asyncio.Queue[Request] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def read() -> None:
        for request in base.lines():
            loop.call_soon_threadsafe(requests.put_nowait, request)

    threading.Thread(target=read, daemon=True).start()
    while True:
        request = await requests.get()
        try:
            reply: dict[str, Any] = {"ok": await ops[request["op"]](request)}
        except (KafkaError, Exception) as error:
            reply = base.failure(code_of(error), error)
        base.say(reply)


def main() -> None:
    asyncio.run(serve())
