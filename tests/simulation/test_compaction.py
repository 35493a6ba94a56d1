"""A compacted topic under faults: brokers compact on their own, die, lose power and lead in turn.

At the end every replica, read through its own broker, folds by key to what was acknowledged, at
the offsets that were acknowledged; and all of them have really been compacted. The invariants that
compare logs batch by batch do not hold here, and are muted.
"""

import asyncio
from itertools import count
from typing import Any

import pytest

from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.protocol.records.record_batch import headers, records

from .stage import Stage

KEYS = 12
BROKER = {"log.cleaner.backoff.ms": "300", "log.cleaner.dedupe.buffer.size": "1024"}
TOPIC = {
    "cleanup.policy": "compact",
    "segment.bytes": "600",
    "min.cleanable.dirty.ratio": "0.1",
    "min.insync.replicas": "2",
    "delete.retention.ms": "500",
}
BATCH_BY_BATCH = (1, 2, 3, 4, 11, 12)


async def contents(stage: Stage, broker: int) -> dict[bytes, tuple[int, bytes | None]]:
    """Return offset and value of the newest record of each key, as one replica has it."""
    found: dict[bytes, tuple[int, bytes | None]] = {}
    partition = stage.partition(broker, "t")
    offset = partition.log_start_offset
    while offset < partition.high_watermark:
        asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        topic = FetchTopic(topic_id=partition.topic_id, partitions=[asked])
        request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=[topic])
        (answered,) = (await stage.ask(broker, request)).responses
        (data,) = answered.partitions
        assert data.error_code == 0
        for position, header in headers(data.records or b""):
            for record in records(data.records or b"", position):
                assert record.offset >= offset
                found[record.key or b""] = (record.offset, record.value)
            offset = header.next_offset
    return {key: one for key, one in found.items() if one[1] is not None}


async def story(stage: Stage) -> None:
    await stage.create_topic("t", [[1, 2, 3]], configs=TOPIC)
    producer = await stage.producer(delivery_timeout_ms=60_000)
    rng = stage.world.rng("story")
    numbers = count()
    sent: list[tuple[bytes, bytes | None, Any]] = []

    async def send(seconds: float) -> None:
        end = stage.now + seconds
        while stage.now < end:
            key = b"key%d" % rng.randrange(KEYS)
            value = None if rng.random() < 0.2 else b"%d" % next(numbers)
            sent.append((key, value, producer.send("t", value, key=key)))  # type: ignore[arg-type]
            await stage.sleep(0.02)

    for _ in range(5):
        victim = rng.choice((1, 2, 3))
        how = rng.choice(("kill", "power_off", "pause", "isolate"))
        await send(1.0)
        getattr(stage, how)(victim)
        await send(3.0)
        if how == "kill":
            stage.start(victim)
        elif how == "power_off":
            stage.power_on(victim)
            stage.start(victim)
        elif how == "pause":
            stage.resume(victim)
        else:
            stage.heal()
        await stage.ready(victim)
        await stage.until(lambda: len(stage.state("t").isr) == 3, "full ISR", 60)
    expected: dict[bytes, tuple[int, bytes]] = {}
    for key, value, ack in sent:
        offset = (await ack).offset
        expected.pop(key, None)
        if value is not None:
            expected[key] = (offset, value)
    await stage.until(
        lambda: all(stage.partition(b, "t").high_watermark == len(sent) for b in (1, 2, 3)),
        "all know what is committed",
    )
    await asyncio.sleep(3)
    for broker in (1, 2, 3):
        log = stage.partition(broker, "t").log
        kept = sum(segment.size for segment in log.segments)
        assert await contents(stage, broker) == expected
        assert kept < 20 * len(sent), f"{kept} bytes of {len(sent)} records: was it compacted?"


@pytest.mark.parametrize("seed", range(3))
def test_every_replica_keeps_the_newest_of_each_key(seed: int) -> None:
    stage = Stage(brokers=3, controllers=1, broker=BROKER, seed=seed)
    stage.mute(*BATCH_BY_BATCH)
    stage.play(story)
