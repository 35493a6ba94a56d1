"""Batches under a good checksum that hold no records: who reads them is told, and can go on."""

from typing import Any

import pytest

from minikafka.client.consumer.consumer import Consumer
from minikafka.client.errors import CorruptRecord
from minikafka.client.sync_consumer import Consumer as SyncConsumer
from minikafka.protocol.records.record_batch import seal
from minikafka.protocol.types import TopicPartition

from .cli.conftest import Run
from .cli.conftest import run as run
from .fake_broker import FakeCluster
from .test_consumer import earliest, fill, numbers, read
from .test_sync import cluster as cluster

TP = TopicPartition("t", 0)


def spoil(batch: Any) -> None:
    """Make noise of a batch's records, as a broken client sends it."""
    batch[61:] = bytes(0xFF - n % 7 for n in range(len(batch) - 61))
    seal(batch)


@pytest.mark.parametrize("poll", ["poll", "poll_columns"])
async def test_m_18_who_meets_garbage_is_told_where_to_go_on(poll: str) -> None:
    async with FakeCluster() as cluster:
        part = cluster.create("t").partitions[0]
        fill(part, 30)
        spoil(part.batches[1])
        async with earliest(cluster) as consumer:
            consumer.assign([TP])
            before = await getattr(consumer, poll)(5000)
            assert sum(len(one.offsets) if poll == "poll_columns" else 1 for one in before) == 10
            for _ in range(2):  # The position stays: nothing is given up unasked.
                with pytest.raises(CorruptRecord, match=r"t-0 at offset 10: .*; seek to 20") as met:
                    await getattr(consumer, poll)(5000)
            assert (met.value.offset, met.value.next_offset) == (10, 20)
            consumer.seek(met.value.partition, met.value.next_offset or 0)
            assert numbers(await read(consumer, 10)) == list(range(20, 30))


async def test_m_18_a_header_under_a_bad_checksum_says_nothing_of_where_to_go_on() -> None:
    async with FakeCluster() as cluster:
        part = cluster.create("t").partitions[0]
        fill(part, 10)
        part.batches[0][25] ^= 0xFF
        async with Consumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([TP])
            with pytest.raises(CorruptRecord, match="t-0 at offset 0: crc") as met:
                await consumer.poll(5000)
            assert met.value.next_offset is None


def test_m_18_the_ordinary_consumer_goes_on_likewise(cluster: FakeCluster) -> None:
    part = cluster.create("t").partitions[0]
    fill(part, 20)
    spoil(part.batches[0])
    with SyncConsumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TP])
        with pytest.raises(CorruptRecord) as met:
            consumer.poll(5000)
        assert met.value.next_offset == 10
        consumer.seek(TP, 10)
        assert [record.offset for record in consumer.poll(5000)] == list(range(10, 20))


@pytest.mark.parametrize("skips", [False, True])
def test_m_18_the_console_ends_at_garbage_or_steps_over_it(
    run: Run, cluster: FakeCluster, skips: bool
) -> None:
    part = cluster.create("t").partitions[0]
    fill(part, 30)
    spoil(part.batches[1])
    to = ("--bootstrap-server", cluster.bootstrap[0], "--topic", "t", "--from-beginning")
    flags = ("--skip-message-on-error",) if skips else ()
    code, out, err = run("console-consumer", *to, "--max-messages", 20, *flags)
    assert code == (0 if skips else 1)
    before, behind = [str(n) for n in range(10)], [str(n) for n in range(20, 30)]
    assert out.splitlines() == (before + behind if skips else before)
    assert "t-0" in err
    assert ("skipped offsets 10 to 19" if skips else "at offset 10") in err
