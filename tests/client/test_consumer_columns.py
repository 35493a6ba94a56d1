"""Polls by columns: the same records as by polls, in the same order, in step with positions."""

import asyncio
from typing import Any

import pytest

from minikafka import Consumer as SyncConsumer
from minikafka import RecordColumns
from minikafka.aio import Consumer
from minikafka.client.errors import CorruptRecord
from minikafka.protocol.records.record_batch import TimestampType

from .fake_broker import FakeCluster
from .test_consumer import TP, earliest, fill, marker, transactional


async def read(consumer: Consumer, count: int, **limits: Any) -> list[RecordColumns]:
    got: list[RecordColumns] = []
    async with asyncio.timeout(20):
        while sum(len(one.offsets) for one in got) < count:
            got += await consumer.poll_columns(1000, **limits)
    return got


def numbers(got: list[RecordColumns]) -> list[int]:
    return [int(value or b"-1") for one in got for value in one.values]


async def test_batches_come_as_columns() -> None:
    async with FakeCluster() as cluster:
        fill(cluster.create("t").partitions[0], 25)
        async with earliest(cluster) as consumer:
            consumer.assign([TP])
            got = await read(consumer, 25)
            assert await consumer.position(TP) == 25
            assert await consumer.poll_columns(10) == []
    assert [one.offsets for one in got] == [range(10), range(10, 20), range(20, 25)]
    assert got[0] == RecordColumns(
        *TP,
        range(10),
        [1000 + n for n in range(10)],
        TimestampType.CREATE_TIME,
        [b"k"] * 10,
        [b"%d" % n for n in range(10)],
        None,
    )
    assert got[0].topic_partition == TP


async def test_a_poll_ends_with_the_batch_that_is_enough() -> None:
    async with FakeCluster() as cluster:
        fill(cluster.create("t").partitions[0], 50)
        async with earliest(cluster) as consumer:
            consumer.assign([TP])
            assert numbers(await consumer.poll_columns(5000, max_records=11)) == list(range(20))
            assert await consumer.position(TP) == 20
            assert numbers(await consumer.poll_columns(5000, max_records=1)) == list(range(20, 30))


async def test_positions_inside_of_batches_are_kept() -> None:
    async with FakeCluster() as cluster:
        fill(cluster.create("t").partitions[0], 30)
        async with earliest(cluster) as consumer:
            consumer.assign([TP])
            assert [int(r.value or b"") for r in await consumer.poll(5000, 3)] == [0, 1, 2]
            assert numbers(await consumer.poll_columns(5000, 1)) == list(range(3, 10))
            consumer.seek(TP, 17)
            (first, *_) = await read(consumer, 13)
            assert first.offsets == range(17, 20)
            assert first.keys == [b"k"] * 3
            assert first.timestamps_ms == [1017, 1018, 1019]


async def test_read_committed_hides_what_was_aborted() -> None:
    async with FakeCluster() as cluster:
        part = cluster.create("t").partitions[0]
        first = transactional(part, 7, [b"1", b"2"])
        transactional(part, 8, [b"3"])
        marker(part, 7, commit=False)
        marker(part, 8, commit=True)
        transactional(part, 7, [b"4"])
        marker(part, 7, commit=True)
        part.aborted = [(7, first)]
        async with earliest(cluster, isolation_level="read_committed") as consumer:
            consumer.assign([TP])
            assert numbers(await read(consumer, 2)) == [3, 4]
            assert await consumer.poll_columns(20) == []
            assert await consumer.position(TP) == 7


async def test_a_damaged_batch_is_told_after_what_precedes_it() -> None:
    async with FakeCluster() as cluster:
        part = cluster.create("t").partitions[0]
        fill(part, 30)
        part.batches[1][70] ^= 0xFF
        async with earliest(cluster) as consumer:
            consumer.assign([TP])
            assert numbers(await consumer.poll_columns(5000)) == list(range(10))
            with pytest.raises(CorruptRecord, match="t-0 at offset 10: crc"):
                await consumer.poll_columns(5000)
            consumer.seek(TP, 20)
            assert numbers(await read(consumer, 10)) == list(range(20, 30))


async def test_the_sync_consumer_has_it_too() -> None:
    async with FakeCluster() as cluster:
        fill(cluster.create("t").partitions[0], 10)

        def read_all() -> list[int]:
            with SyncConsumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
                consumer.assign([TP])
                return numbers(consumer.poll_columns(10_000))

        assert await asyncio.to_thread(read_all) == list(range(10))
