"""aiokafka, unmodified, against real processes."""

from typing import Any

import aiokafka
import pytest

from ..support.cluster import Cluster
from .payloads import PARTITIONS, Payload, by_partition, payloads

pytestmark = pytest.mark.slow


async def produce(cluster: Cluster, topic: str, sent: list[Payload], **settings: Any) -> None:
    async with aiokafka.AIOKafkaProducer(
        **{"bootstrap_servers": cluster.bootstrap, "linger_ms": 5, **settings}
    ) as producer:
        waiting = [
            await producer.send(
                topic,
                one.value,
                one.key,
                one.partition,
                one.timestamp_ms,
                list(one.headers),
            )
            for one in sent
        ]
        for each in waiting:
            await each


async def consume(
    cluster: Cluster, topic: str, count: int, **settings: Any
) -> dict[int, list[Payload]]:
    places = [aiokafka.TopicPartition(topic, index) for index in range(PARTITIONS)]
    found: dict[int, list[Payload]] = {index: [] for index in range(PARTITIONS)}
    consumer = aiokafka.AIOKafkaConsumer(
        **{
            "bootstrap_servers": cluster.bootstrap,
            "group_id": None,
            "check_crcs": True,
            **settings,
        }
    )
    consumer.assign(places)
    async with consumer:
        await consumer.seek_to_beginning(*places)
        while sum(map(len, found.values())) < count:
            fetched = await consumer.getmany(timeout_ms=15_000)
            assert fetched, "records are missing"
            for place, records in fetched.items():
                for record in records:
                    assert record.offset == len(found[place.partition])
                    found[place.partition].append(
                        Payload(
                            place.partition,
                            record.key,
                            record.value,
                            tuple(record.headers),
                            record.timestamp,
                        )
                    )
    return found


async def test_an_idempotent_producer(cluster: Cluster) -> None:
    sent = payloads(seed=12)
    await produce(cluster, "aiokafka-idempotent", sent, enable_idempotence=True)
    assert await consume(cluster, "aiokafka-idempotent", len(sent)) == by_partition(sent)


async def test_read_committed_reads_everything_where_there_are_no_transactions(
    cluster: Cluster,
) -> None:
    sent = payloads(seed=13)
    await produce(cluster, "aiokafka-committed", sent)
    found = await consume(
        cluster, "aiokafka-committed", len(sent), isolation_level="read_committed"
    )
    assert found == by_partition(sent)


async def test_offsets_by_time_and_at_both_ends(cluster: Cluster) -> None:
    topic = "aiokafka-offsets"
    await produce(
        cluster, topic, [Payload(0, None, b"%d" % i, (), 5000 + 10 * i) for i in range(50)]
    )
    place = aiokafka.TopicPartition(topic, 0)
    async with aiokafka.AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap) as consumer:
        consumer.assign([place])
        assert await consumer.beginning_offsets([place]) == {place: 0}
        assert await consumer.end_offsets([place]) == {place: 50}
        (found,) = (await consumer.offsets_for_times({place: 5101})).values()
        assert (found.offset, found.timestamp) == (11, 5110)
