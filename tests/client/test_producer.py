import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from minikafka.aio import Producer, ProducerRecord
from minikafka.client import metadata
from minikafka.client.cluster import Broker, ClusterView, PartitionView, TopicView
from minikafka.client.errors import (
    BootstrapError,
    BufferFull,
    ClientClosed,
    ClientError,
    DeliveryFailed,
    DeliveryTimeout,
    MessageTooLarge,
    UnknownTopic,
)
from minikafka.client.net.address import Address
from minikafka.client.net.pool import PRODUCE
from minikafka.client.producer import producer_ids
from minikafka.client.producer.partition_queue import PartitionQueue
from minikafka.client.producer.sender import TRAILING_RETRIES, _trails
from minikafka.client.records import BatchMetadata, RecordMetadata
from minikafka.protocol.api import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.leader_hint import LeaderIdAndEpoch
from minikafka.protocol.messages.produce import PartitionProduceResponse, ProduceRequest
from minikafka.protocol.records.record_batch import read_header, records
from minikafka.protocol.types import TopicPartition

from .fake_broker import Close, FakeCluster, FakeNode, FakePartition, Garbage, Refuse, Silence

Fault = Callable[[FakeNode, int, Any], None]


def first_times(count: int, fault: BaseException, key: ApiKey = ApiKey.PRODUCE) -> Fault:
    """Plant a fault in the first `count` requests of an API."""
    seen = itertools.count()

    def plant(node: FakeNode, api: int, request: Any) -> None:
        if api == key and next(seen) < count:
            raise fault

    return plant


def values(cluster: FakeCluster, topic: str) -> list[bytes | None]:
    return [value for part in cluster.topics[topic].partitions for value in part.values()]


async def send_many(producer: Producer, topic: str, count: int) -> list[bytes]:
    sent = [b"%06d" % number for number in range(count)]
    for value in sent:
        producer.send(topic, value, partition=0)
        await producer.drain()
        if int(value) % 50 == 0:
            await asyncio.sleep(0)
    await producer.flush()
    return sent


async def test_a_record_arrives_with_all_its_parts() -> None:
    async with FakeCluster() as cluster:
        part = cluster.create("t").partitions[0]
        async with Producer(cluster.bootstrap) as producer:
            headers = [("h", b"1"), ("none", None)]
            got = await producer.send("t", b"value", b"key", timestamp_ms=77, headers=headers)
        assert got == RecordMetadata("t", 0, 0, 77)
        (record,) = records(part.batches[0])
        assert (record.key, record.value, record.timestamp) == (b"key", b"value", 77)
        assert list(record.headers) == headers


async def test_nulls_are_kept_apart_from_empty() -> None:
    async with FakeCluster() as cluster:
        part = cluster.create("t").partitions[0]
        async with Producer(cluster.bootstrap) as producer:
            producer.send("t", None, b"k")
            producer.send("t", b"", b"")
        assert [(r.key, r.value) for b in part.batches for r in records(b)] == [
            (b"k", None),
            (b"", b""),
        ]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_every_compression_is_read_back(codec: str) -> None:
    async with FakeCluster() as cluster:
        cluster.create("t")
        async with Producer(cluster.bootstrap, compression_type=codec) as producer:
            sent = await send_many(producer, "t", 200)
        assert values(cluster, "t") == sent


async def test_records_that_are_sent_together_travel_together() -> None:
    async with FakeCluster() as cluster:
        part = cluster.create("t").partitions[0]
        async with Producer(cluster.bootstrap, linger_ms=20) as producer:
            got = [producer.send("t", b"%d" % i) for i in range(10)]
            assert [(await delivery).offset for delivery in got] == list(range(10))
        assert [read_header(batch).record_count for batch in part.batches] == [10]


async def test_a_full_batch_does_not_linger() -> None:
    async with FakeCluster() as cluster:
        cluster.create("t")
        async with Producer(cluster.bootstrap, linger_ms=60_000, batch_size=1000) as producer:
            first = producer.send("t", b"x" * 900)
            producer.send("t", b"y" * 900)
            assert (await first).offset == 0


async def test_flush_does_not_linger() -> None:
    async with FakeCluster() as cluster:
        cluster.create("t")
        async with Producer(cluster.bootstrap, linger_ms=60_000) as producer:
            delivery = producer.send("t", b"x")
            await producer.flush()
            assert delivery.done()
            assert delivery.result().offset == 0


async def test_a_key_goes_where_java_puts_it() -> None:
    async with FakeCluster() as cluster:
        cluster.create("t", partitions=6)
        async with Producer(cluster.bootstrap) as producer:
            got = await producer.send("t", b"v", b"foobar")
        assert got.partition == (-790332482 & 0x7FFFFFFF) % 6


async def test_records_without_key_fill_one_batch_after_the_other() -> None:
    async with FakeCluster() as cluster:
        cluster.create("t", partitions=4)
        async with Producer(cluster.bootstrap, batch_size=2000) as producer:
            await asyncio.gather(*(producer.send("t", b"x" * 100) for _ in range(400)))
        counts = [len(part.values()) for part in cluster.topics["t"].partitions]
        assert sum(counts) == 400
        assert min(counts) > 20, counts
        sizes = [
            read_header(b).record_count for p in cluster.topics["t"].partitions for b in p.batches
        ]
        assert max(sizes) >= 10, "records were spread one by one"


async def test_send_batch_has_one_answer_for_all() -> None:
    async with FakeCluster() as cluster:
        cluster.create("t", partitions=2)
        async with Producer(cluster.bootstrap) as producer:
            rows = [ProducerRecord(b"%d" % i) for i in range(100)]
            assert await producer.send_batch("t", [rows[0]], partition=1) == [
                BatchMetadata("t", 1, 0, 1)
            ]
            got = await producer.send_batch("t", rows, partition=1)
            assert sum(run.record_count for run in got) == 100
            assert {run.partition for run in got} == {1}
            spread = await producer.send_batch("t", [r._replace(key=r.value) for r in rows])
            assert {run.partition for run in spread} == {0, 1}
            assert sum(run.record_count for run in spread) == 100


async def test_callbacks_hear_of_each_record_once() -> None:
    async with FakeCluster() as cluster:
        cluster.create("t")
        heard: list[tuple[ClientError | None, RecordMetadata | None]] = []
        own: list[tuple[ClientError | None, RecordMetadata | None]] = []
        async with Producer(
            cluster.bootstrap, on_delivery=lambda *said: heard.append(said)
        ) as producer:
            producer.send("t", b"a", timestamp_ms=1)
            producer.send("t", b"b", timestamp_ms=2, on_delivery=lambda *said: own.append(said))
        assert heard == [(None, RecordMetadata("t", 0, 0, 1))]
        assert own == [(None, RecordMetadata("t", 0, 1, 2))]


async def test_acks_0_is_sent_and_forgotten() -> None:
    async with FakeCluster() as cluster:
        cluster.create("t")
        async with Producer(cluster.bootstrap, acks=0) as producer:
            got = await producer.send("t", b"x")
            assert got.offset == -1
        assert values(cluster, "t") == [b"x"]
        request: ProduceRequest = cluster.sent(ApiKey.PRODUCE)[0]
        assert request.acks == 0
        assert read_header(request.topic_data[0].partition_data[0].records or b"").producer_id == -1


@pytest.mark.parametrize(
    "fault",
    [
        Close(),
        Garbage(b"\x00\xff\xff\xff\xff"),
        Refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER),
        Refuse(ErrorCode.NOT_ENOUGH_REPLICAS),
        Refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        Refuse(ErrorCode.KAFKA_STORAGE_ERROR),
        Refuse(ErrorCode.CORRUPT_MESSAGE),
    ],
    ids=str,
)
@pytest.mark.parametrize("acks", ["all", "1"])
async def test_faults_before_the_append_lose_and_reorder_nothing(
    fault: BaseException, acks: str
) -> None:
    async with FakeCluster() as cluster:
        cluster.create("t")
        cluster.fault = first_times(4, fault)
        async with Producer(
            cluster.bootstrap, acks=acks, batch_size=200, linger_ms=0, retry_backoff_ms=5
        ) as producer:
            sent = await send_many(producer, "t", 300)
        assert values(cluster, "t") == sent


@pytest.mark.parametrize("fault", [Close(), Garbage(b"\x00\x00"), Silence()], ids=str)
async def test_lost_answers_duplicate_nothing(fault: BaseException) -> None:
    """The broker appended, the producer does not know: sequences tell."""
    async with FakeCluster() as cluster:
        cluster.create("t")
        cluster.after = first_times(4, fault)
        async with Producer(
            cluster.bootstrap,
            batch_size=200,
            linger_ms=0,
            retry_backoff_ms=5,
            request_timeout_ms=50,
        ) as producer:
            sent = await send_many(producer, "t", 300)
        assert values(cluster, "t") == sent


async def test_a_moving_leader_is_followed() -> None:
    async with FakeCluster(3) as cluster:
        cluster.create("t")
        async with Producer(
            cluster.bootstrap, batch_size=200, linger_ms=0, retry_backoff_ms=5
        ) as producer:
            sending = asyncio.create_task(send_many(producer, "t", 2000))
            for leader in (2, 3, 1, 2):
                size = len(values(cluster, "t"))
                await cluster.until(lambda size=size: len(values(cluster, "t")) >= size + 100)  # type: ignore[misc]
                cluster.move("t", 0, leader)
            sent = await sending
        assert values(cluster, "t") == sent


async def test_a_killed_leader_is_left_for_the_next() -> None:
    async with FakeCluster(3) as cluster:
        cluster.create("t", leader=1)
        async with Producer(cluster.bootstrap, linger_ms=0) as producer:
            await producer.send("t", b"before")
            await cluster.nodes[1].stop()
            delivery = producer.send("t", b"after")
            asked = len(cluster.sent(ApiKey.METADATA))
            await cluster.until(lambda: len(cluster.sent(ApiKey.METADATA)) > asked)
            cluster.move("t", 0, 2)
            assert (await delivery).offset == 1


async def test_a_stopped_leader_is_left_when_another_broker_names_the_next() -> None:
    """SIGSTOP: the connection stays, no answer comes. Another broker is asked after 500 ms."""
    async with FakeCluster(3) as cluster:
        cluster.create("t", leader=1)
        async with Producer(
            cluster.bootstrap, linger_ms=0, unanswered_request_ms=30, request_timeout_ms=60_000
        ) as producer:
            await producer.send("t", b"before")
            cluster.nodes[1].freeze()
            delivery = producer.send("t", b"after")
            asked = len(cluster.sent(ApiKey.METADATA))
            await cluster.until(lambda: len(cluster.sent(ApiKey.METADATA)) > asked)
            cluster.move("t", 0, 3)
            async with asyncio.timeout(20):  # the request itself would be waited for a minute
                assert (await delivery).offset == 1
            cluster.nodes[1].thaw()
        assert values(cluster, "t") == [b"before", b"after"]


async def test_without_sequences_a_stopped_leader_is_waited_for() -> None:
    async with FakeCluster(2) as cluster:
        cluster.create("t", leader=1)
        async with Producer(
            cluster.bootstrap, acks=1, linger_ms=0, unanswered_request_ms=20
        ) as producer:
            await producer.send("t", b"before")
            cluster.nodes[1].freeze()
            delivery = producer.send("t", b"after")
            asked = len(cluster.sent(ApiKey.METADATA))
            await cluster.until(lambda: len(cluster.sent(ApiKey.METADATA)) >= asked + 3)
            assert not delivery.done()
            cluster.nodes[1].thaw()
            await delivery
        assert values(cluster, "t") == [b"before", b"after"]


async def test_a_broker_found_again_on_another_port() -> None:
    async with FakeCluster(2) as cluster:
        cluster.create("t", leader=1)
        async with Producer(cluster.bootstrap, linger_ms=0, retry_backoff_ms=5) as producer:
            await producer.send("t", b"before")
            await cluster.nodes[1].stop()
            cluster.nodes[1].port = 0
            delivery = producer.send("t", b"after")
            await asyncio.sleep(0)
            await cluster.nodes[1].start()
            assert (await delivery).offset == 1


async def test_lost_producer_state_is_healed_by_a_new_epoch() -> None:
    async with FakeCluster() as cluster:
        part = cluster.create("t").partitions[0]
        async with Producer(cluster.bootstrap, linger_ms=0, retry_backoff_ms=5) as producer:
            for number in range(3):
                await producer.send("t", b"%d" % number)
            (entry,) = part.producers.values()
            entry.last_sequence -= 1
            entry.recent.pop()
            await producer.send("t", b"3")
        assert part.values() == [b"0", b"1", b"2", b"3"]
        assert read_header(part.batches[-1]).producer_epoch == 1
        assert read_header(part.batches[-1]).base_sequence == 0


async def test_a_final_refusal_is_told_with_the_brokers_word() -> None:
    async with FakeCluster() as cluster:
        cluster.create("t")
        cluster.fault = first_times(1, Refuse(ErrorCode.MESSAGE_TOO_LARGE))
        async with Producer(cluster.bootstrap, linger_ms=0) as producer:
            with pytest.raises(DeliveryFailed, match="t-0: MESSAGE_TOO_LARGE") as caught:
                await producer.send("t", b"x")
            assert caught.value.error.code is ErrorCode.MESSAGE_TOO_LARGE
            await producer.send("t", b"next")
        assert values(cluster, "t") == [b"next"]


async def test_delivery_timeout_says_what_stood_against_it() -> None:
    async with FakeCluster() as cluster:
        cluster.create("t")
        cluster.fault = first_times(10_000, Refuse(ErrorCode.NOT_ENOUGH_REPLICAS))
        async with Producer(
            cluster.bootstrap, linger_ms=0, delivery_timeout_ms=150, retry_backoff_ms=10
        ) as producer:
            with pytest.raises(DeliveryTimeout, match="NOT_ENOUGH_REPLICAS"):
                await producer.send("t", b"x")


async def test_an_unknown_topic_is_told_after_max_block_ms() -> None:
    async with FakeCluster() as cluster:
        producer = Producer(cluster.bootstrap, max_block_ms=50, retry_backoff_ms=5)
        async with producer:
            with pytest.raises(UnknownTopic, match="nowhere"):
                await producer.send("nowhere", b"x")


async def test_a_topic_that_appears_takes_what_waited() -> None:
    async with FakeCluster() as cluster:
        producer = Producer(cluster.bootstrap, retry_backoff_ms=5)
        async with producer:
            deliveries = [producer.send("t", b"%d" % i) for i in range(5)]
            await cluster.until(lambda: len(cluster.sent(ApiKey.METADATA)) > 1)
            cluster.create("t")
            assert [(await delivery).offset for delivery in deliveries] == [0, 1, 2, 3, 4]


async def test_a_topic_is_created_by_asking() -> None:
    async with FakeCluster() as cluster:
        cluster.auto_create = True
        async with Producer(cluster.bootstrap) as producer:
            await producer.send("t", b"x")
        assert values(cluster, "t") == [b"x"]


async def test_a_partition_that_does_not_exist_is_told() -> None:
    async with FakeCluster() as cluster:
        cluster.create("t", partitions=2)
        async with Producer(cluster.bootstrap) as producer:
            with pytest.raises(UnknownTopic, match="t-7"):
                await producer.send("t", b"x", partition=7)
            with pytest.raises(UnknownTopic, match="t-7"):
                producer.send("t", b"x", partition=7)


async def test_what_is_too_large_is_refused_at_once() -> None:
    async with FakeCluster() as cluster:
        cluster.create("t")
        async with Producer(cluster.bootstrap, max_request_size=1000) as producer:
            with pytest.raises(MessageTooLarge):
                producer.send("t", b"x" * 1001)
            await producer.send("t", b"x" * 1000)
            with pytest.raises(TypeError, match="value must be bytes"):
                producer.send("t", "text")  # type: ignore[arg-type]


async def test_partitions_that_were_added_are_found_when_one_asks_again() -> None:
    async with FakeCluster() as cluster:
        topic = cluster.create("t")
        async with Producer(cluster.bootstrap) as producer:
            assert await producer.partitions_for("t") == [0]
            topic.partitions.append(FakePartition(1))
            assert await producer.partitions_for("t") == [0], "as it is remembered"
            assert await producer.partitions_for("t", refresh=True) == [0, 1]
            sent = await producer.send("t", b"x", partition=1)
            assert (sent.partition, sent.offset) == (1, 0)


async def test_a_topic_that_is_not_there_yet_is_waited_for_by_whoever_asks() -> None:
    async with FakeCluster() as cluster, Producer(cluster.bootstrap) as producer:
        asking = asyncio.ensure_future(producer.partitions_for("t"))
        also = asyncio.ensure_future(producer.partitions_for("t"))
        await cluster.until(lambda: len(cluster.sent(ApiKey.METADATA)) >= 5)
        also.cancel()
        asked = cluster.sent(ApiKey.METADATA)[-1]
        assert [topic.name for topic in asked.topics] == ["t"]
        cluster.create("t")
        assert await asking == [0]


async def test_asking_again_gives_up_after_max_block_ms() -> None:
    async with FakeCluster() as cluster:
        cluster.create("t")
        producer = Producer(cluster.bootstrap, max_block_ms=30)
        await producer.start()
        await producer.partitions_for("t")
        cluster.fault = first_times(10_000, Silence(), ApiKey.METADATA)
        assert await producer.partitions_for("t", refresh=True) == [0], "what is remembered"
        await producer.close(timeout_ms=0)


async def test_a_full_buffer_refuses_and_drain_waits_for_room() -> None:
    async with FakeCluster() as cluster:
        cluster.create("t")
        async with Producer(cluster.bootstrap, buffer_memory=1000, linger_ms=60_000) as producer:
            await producer.partitions_for("t")
            producer.send("t", b"x" * 1200)
            with pytest.raises(BufferFull, match="drain"):
                producer.send("t", b"y")
            await producer.drain()
            producer.send("t", b"y")
        assert values(cluster, "t") == [b"x" * 1200, b"y"]


async def test_drain_gives_up_after_max_block_ms() -> None:
    async with FakeCluster() as cluster:
        cluster.create("t")
        cluster.fault = first_times(10_000, Silence())
        producer = Producer(cluster.bootstrap, buffer_memory=100, max_block_ms=30)
        await producer.start()
        await producer.partitions_for("t")
        producer.send("t", b"x" * 200)
        with pytest.raises(BufferFull, match="after 30 ms"):
            await producer.drain()
        await producer.close(timeout_ms=0)


async def test_closing_with_a_timeout_fails_what_is_left() -> None:
    async with FakeCluster() as cluster:
        cluster.create("t")
        cluster.fault = first_times(10_000, Silence())
        producer = Producer(cluster.bootstrap)
        await producer.start()
        delivery = producer.send("t", b"x")
        await producer.close(timeout_ms=30)
        with pytest.raises(ClientClosed):
            await delivery
        with pytest.raises(ClientClosed):
            producer.send("t", b"x")
        with pytest.raises(ClientClosed):
            await producer.start()


async def test_a_producer_id_is_asked_for_until_it_comes() -> None:
    async with FakeCluster() as cluster:
        cluster.create("t")
        refusal = Refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        cluster.fault = first_times(3, refusal, ApiKey.INIT_PRODUCER_ID)
        async with Producer(cluster.bootstrap, retry_backoff_ms=5) as producer:
            await producer.send("t", b"x")
        assert values(cluster, "t") == [b"x"]


async def test_a_producer_id_that_is_refused_ends_the_producer() -> None:
    async with FakeCluster() as cluster:
        cluster.create("t")
        refusal = Refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        cluster.fault = first_times(3, refusal, ApiKey.INIT_PRODUCER_ID)
        async with Producer(cluster.bootstrap, retry_backoff_ms=5) as producer:
            with pytest.raises(ClientError, match="CLUSTER_AUTHORIZATION_FAILED"):
                await producer.send("t", b"x")
            with pytest.raises(ClientError, match="CLUSTER_AUTHORIZATION_FAILED"):
                producer.send("t", b"x")


async def test_what_waits_in_vain_for_a_producer_id_says_so(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_ids, "SAY_AFTER_MS", 0)
    async with FakeCluster() as cluster:
        cluster.create("t")
        refusal = Refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        cluster.fault = first_times(1_000_000, refusal, ApiKey.INIT_PRODUCER_ID)
        async with Producer(
            cluster.bootstrap, retry_backoff_ms=5, request_timeout_ms=50, delivery_timeout_ms=100
        ) as producer:
            with pytest.raises(DeliveryTimeout, match=r"t-0: .* gets none from a controller"):
                await producer.send("t", b"x", partition=0)
            with pytest.raises(DeliveryTimeout, match="no producer id: COORDINATOR_LOAD_IN_PROG"):
                await producer.send("t", b"y", partition=0)
        assert cluster.sent(ApiKey.PRODUCE) == []
    said = [record.message for record in caplog.records if "nothing can be sent" in record.message]
    assert len(said) == 1
    assert "is one running?" in said[0]


@pytest.mark.parametrize("version", [3, 5, 7, 8, 9, 12, 13])
async def test_every_produce_version_is_spoken(version: int) -> None:
    async with FakeCluster() as cluster:
        cluster.versions[ApiKey.PRODUCE] = (3, version)
        cluster.create("t")
        async with Producer(cluster.bootstrap) as producer:
            assert (await producer.send("t", b"x")).offset == 0
        topic = cluster.sent(ApiKey.PRODUCE)[0].topic_data[0]
        assert bool(topic.name) == (version < 13)


async def test_a_cluster_without_topic_ids_is_spoken_to_by_name() -> None:
    async with FakeCluster() as cluster:
        cluster.has_topic_ids = False
        cluster.create("t")
        async with Producer(cluster.bootstrap) as producer:
            await producer.send("t", b"x")
        assert values(cluster, "t") == [b"x"]


async def test_bootstrap_names_every_address_phase_and_cause() -> None:
    async with FakeCluster() as cluster:
        gone = cluster.bootstrap[0]
    addresses = [gone, "no-such-host.invalid:9092"]
    producer = Producer(addresses, bootstrap_timeout_ms=300)
    with pytest.raises(BootstrapError) as caught:
        await producer.start()
    text = str(caught.value)
    assert f"{gone}: connect:" in text
    assert "no-such-host.invalid:9092: resolve:" in text


async def test_a_first_contact_that_takes_long_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(metadata, "SILENT_MS", 0)
    async with FakeCluster() as cluster:
        gone = cluster.bootstrap[0]
    with pytest.raises(BootstrapError):
        await Producer(gone, bootstrap_timeout_ms=200).start()
    assert [record.message for record in caplog.records] == [
        f"still trying: no bootstrap server answered ({gone}: open: no answer yet)"
    ]


async def test_one_good_bootstrap_server_is_enough() -> None:
    async with FakeCluster() as cluster:
        cluster.create("t")
        servers = ["127.0.0.1:1", *cluster.bootstrap]
        async with Producer(servers) as producer:
            await producer.send("t", b"x")


async def test_a_cancelled_wait_does_not_take_the_record_back() -> None:
    async with FakeCluster() as cluster:
        cluster.create("t")
        async with Producer(cluster.bootstrap, linger_ms=50) as producer:
            delivery = producer.send("t", b"x")

            async def wait() -> None:
                await delivery

            waiting = asyncio.create_task(wait())
            other = asyncio.create_task(wait())
            await asyncio.sleep(0)
            waiting.cancel()
            await other
            assert delivery.result().offset == 0


async def test_a_producer_is_connected_to_who_may_lead_next() -> None:
    """A failover need not wait for a connection."""
    async with FakeCluster(3) as cluster:
        cluster.create("t", 1)
        async with Producer(cluster.bootstrap) as producer:
            await producer.send("t", b"x", partition=0)
            pool = producer._engine.metadata.pool
            replicas = [Address("127.0.0.1", node.port) for node in cluster.nodes.values()]
            for address in replicas:
                assert (address, PRODUCE) in pool._slots


def test_a_new_leader_that_does_not_know_yet_is_asked_again_soon() -> None:
    place = TopicPartition("t", 0)
    view = ClusterView()
    view.brokers[2] = Broker(2, "b", 9092)
    view.topics["t"] = TopicView("t", b"", False)
    view.topics["t"].partitions[0] = PartitionView(2, 5, (1, 2), (2,), (), ErrorCode.NONE)
    queue = PartitionQueue(place, is_idempotent=True, max_in_flight=5)

    def answer(leader_epoch: int) -> PartitionProduceResponse:
        hint = LeaderIdAndEpoch(leader_id=1, leader_epoch=leader_epoch)
        code = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return PartitionProduceResponse(
            index=0, error_code=code, base_offset=-1, current_leader=hint
        )

    assert _trails(view, queue, answer(4))
    assert not _trails(view, queue, answer(5)), "it knows what we know"
    assert not _trails(view, queue, answer(6)), "it knows more"
    without = answer(4)
    without.current_leader = None
    assert not _trails(view, queue, without)
    queue.failure_count = TRAILING_RETRIES
    assert not _trails(view, queue, answer(4)), "not for ever"
