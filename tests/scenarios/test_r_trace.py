"""Scenarios R: what `minikafka trace` tells of a record."""

from collections.abc import Awaitable, Callable

import pytest

from minikafka.client.admin.admin import Admin
from minikafka.client.cli.trace import json_lines, lines_of
from minikafka.client.consumer.record_trace import (
    Forwarded,
    NoSuchRecord,
    Outcome,
    RecordTrace,
    RecordTracer,
)
from minikafka.client.errors import AdminError
from minikafka.client.group_types import OffsetAndMetadata
from minikafka.client.producer.producer import Producer
from minikafka.client.records import ProducerRecord
from minikafka.protocol.types import TopicPartition

from ..simulation.stage import Stage, staged
from .delay_stage import delay_topic, park, until_idle

PARENT = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


async def trace(stage: Stage, topic: str, offset: int, partition: int = 0) -> RecordTrace:
    client = await stage.client()

    async def ask() -> RecordTrace:
        bootstrap, runtime = stage.cluster.bootstrap, client.runtime
        async with Admin(bootstrap_servers=bootstrap, runtime=runtime) as admin:
            return await RecordTracer(admin, runtime).trace(topic, partition, offset)

    return await client.ask(ask)


async def with_producer(
    stage: Stage, do: Callable[[Producer], Awaitable[None]], **settings: str
) -> None:
    client = await stage.client()

    async def ask() -> None:
        bootstrap, runtime = stage.cluster.bootstrap, client.runtime
        async with Producer(
            bootstrap_servers=bootstrap,
            runtime=runtime,
            linger_ms=0,
            **settings,  # type: ignore[arg-type]
        ) as producer:
            await do(producer)

    await client.ask(ask)


@staged()
async def test_r_52_a_record_tells_its_batch_its_epoch_its_replicas_and_its_groups(
    stage: Stage,
) -> None:
    await stage.create_topic("t", [[1, 2, 3]], configs={"min.insync.replicas": "2"})

    async def send(producer: Producer) -> None:
        batch = producer.send_batch("t", [ProducerRecord(b"0"), ProducerRecord(b"1")], partition=0)
        await batch
        await producer.send("t", b"2", b"key", headers=[("traceparent", PARENT)])

    await with_producer(stage, send)
    for group, offset in (("behind", 3), ("before", 1)):
        at = {TopicPartition("t", 0): OffsetAndMetadata(offset)}
        await stage.admin(lambda admin, g=group, at=at: admin.alter_group_offsets(g, at))  # type: ignore[misc]
    stage.kill(1)
    await stage.until(lambda: stage.state("t").leader != 1, "another leader")
    await with_producer(stage, send)
    told = await trace(stage, "t", 2)
    assert (told.record.key, told.record.value) == (b"key", b"2")
    assert (told.batch.base_offset, told.batch.last_offset, told.batch.base_sequence) == (2, 2, 2)
    assert (told.batch.leader_epoch, told.epoch_start) == (0, 0)
    assert (told.leader_epoch > 0, told.leader_id) == (True, stage.state("t").leader)
    replicas = {each.broker_id: (each.has_it, each.is_in_sync) for each in told.replicas}
    assert replicas == {1: (None, False), 2: (True, True), 3: (True, True)}
    groups = {each.group_id: (each.committed_offset, each.is_past) for each in told.groups}
    assert groups == {"before": (1, False), "behind": (3, True)}
    assert told.trace_context is not None
    assert told.trace_context.trace_id == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert (told.outcome, told.forwarding, told.source) == (Outcome.NONE, None, "")
    shown = "\n".join(lines_of(told))
    assert "has not come to it: 1, 1 before it" in shown
    assert "reads it next" in "\n".join(lines_of(await trace(stage, "t", 1)))
    assert "Broker 1" in shown
    assert '"is_past": true' in json_lines(told)[0]
    later = await trace(stage, "t", 4)
    assert later.record.value == b"1"
    assert later.batch.leader_epoch > 0
    assert later.epoch_start == 3


@staged()
async def test_r_52_a_transactions_records_tell_its_outcome(stage: Stage) -> None:
    await stage.create_topic("t", [[1, 2, 3]])

    async def send(producer: Producer) -> None:
        async with producer.transaction():
            producer.send("t", b"committed")
        await producer.begin_transaction()
        await producer.send("t", b"aborted")
        await producer.abort_transaction()
        await producer.begin_transaction()
        await producer.send("t", b"undecided")
        outcomes = [(await trace(stage, "t", offset)).outcome for offset in (0, 2, 4)]
        assert outcomes == [Outcome.COMMITTED, Outcome.ABORTED, Outcome.UNDECIDED]
        await producer.abort_transaction()

    await with_producer(stage, send, transactional_id="x")
    with pytest.raises(NoSuchRecord, match="control record"):
        await trace(stage, "t", 1)


@staged()
async def test_r_52_a_parked_record_tells_when_it_is_due_and_where_it_has_gone(
    stage: Stage,
) -> None:
    await delay_topic(stage, targets=2)
    await park(stage, (b"soon", 500), (b"late", 3_600_000), (b"gone", 3_600_000))
    await stage.admin(lambda admin: admin.cancel_delayed({TopicPartition("later", 0): [2]}))
    await stage.sleep(2)
    soon = (await trace(stage, "later", 0)).forwarding
    late = (await trace(stage, "later", 1)).forwarding
    gone = (await trace(stage, "later", 2)).forwarding
    assert soon is not None
    assert late is not None
    assert gone is not None
    assert (soon.state, late.state, gone.state) == (
        Forwarded.DONE,
        Forwarded.WAITS,
        Forwarded.UNKNOWN,
    )
    assert (soon.timestamp_ms, soon.target) == (soon.due_ms, "now")
    assert soon.partition is not None
    assert soon.offset == 0
    there = await trace(stage, "now", 0, partition=soon.partition)
    assert there.record.value == b"soon"
    assert (there.source, there.source_due_ms) == ("later/0/0", soon.due_ms)
    assert "waits, due" in "\n".join(lines_of(await trace(stage, "later", 1)))
    await stage.admin(
        lambda admin: admin.reschedule_delayed({TopicPartition("later", 0): {1: None}})
    )
    await until_idle(stage)


@staged()
async def test_offsets_without_a_record_say_why(stage: Stage) -> None:
    await stage.create_topic("t", [[1, 2, 3]])
    await stage.send("t", b"0", b"1", b"2")
    await stage.admin(lambda admin: admin.delete_records({TopicPartition("t", 0): 2}))
    for offset, why in ((0, "deleted: the log begins at 2"), (7, "not written yet: .* ends at 3")):
        with pytest.raises(NoSuchRecord, match=why):
            await trace(stage, "t", offset)
    with pytest.raises(NoSuchRecord, match="t has 1 partitions"):
        await trace(stage, "t", 0, partition=5)
    with pytest.raises(AdminError, match="UNKNOWN_TOPIC"):
        await trace(stage, "nowhere", 0)
    await stage.create_topic("brief", [[1, 2, 3]], configs={"minikafka.ttl.ms": "1000"})
    await stage.send("brief", b"0")
    await stage.sleep(2)
    with pytest.raises(NoSuchRecord, match="it has expired"):
        await trace(stage, "brief", 0)
