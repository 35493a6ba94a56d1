"""Our clients against brokers that are not ours: librdkafka's mock cluster.

It answers ApiVersions 4 with error 35, has no topic ids and old versions of everything.
"""

from collections.abc import Iterator

import confluent_kafka
import pytest

from minikafka.aio import Consumer, Producer
from minikafka.client.records import ConsumerRecord
from minikafka.protocol.types import TopicPartition

BROKERS = 2


@pytest.fixture
def servers() -> Iterator[list[str]]:
    host = confluent_kafka.Producer(
        {"bootstrap.servers": "ignored", "test.mock.num.brokers": BROKERS, "log_level": 0}
    )
    found = host.list_topics(timeout=10).brokers.values()
    yield [f"{broker.host}:{broker.port}" for broker in found]
    host.flush(0)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("acks", ["all", "1"])
async def test_another_brokers_log_takes_and_gives_our_records(
    servers: list[str], acks: str, codec: str
) -> None:
    sent = [b"value %d" % number for number in range(500)]
    async with Producer(servers, acks=acks, compression_type=codec, batch_size=2_000) as producer:
        for value in sent:
            producer.send("t", value, value[:4], partition=0, headers=[("h", value)])
        await producer.flush()
    async with Consumer(servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([("t", 0)])
        got: list[ConsumerRecord] = []
        while len(got) < 500:
            records = await consumer.poll(10_000)
            assert records, "nothing more came"
            got += records
        assert [record.value for record in got] == sent
        assert [record.offset for record in got] == list(range(500))
        assert {record.key for record in got} == {b"valu"}
        assert list(got[7].headers) == [("h", sent[7])]
        partition = TopicPartition("t", 0)
        assert await consumer.end_offsets([partition]) == {partition: 500}


async def test_our_records_are_read_by_another_client(servers: list[str]) -> None:
    sent = [b"value %d" % number for number in range(100)]
    async with Producer(servers, compression_type="lz4") as producer:
        for value in sent:
            producer.send("t", value, partition=0)
    reader = confluent_kafka.Consumer(
        {
            "bootstrap.servers": ",".join(servers),
            "group.id": "g",
            "check.crcs": True,
            "auto.offset.reset": "earliest",
        }
    )
    reader.assign([confluent_kafka.TopicPartition("t", 0, 0)])
    got: list[bytes | None] = []
    while len(got) < 100:
        messages = reader.consume(100, timeout=10)
        assert messages, "nothing more came"
        got += [message.value() for message in messages]
    reader.close()
    assert got == sent
