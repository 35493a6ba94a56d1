"""Metrics of what is produced and fetched, by topic: each is moved by what it tells of."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ReplicaState,
)

from .metrics_support import Told
from .node_support import ME, ORDERS, WALL_MS, B, C, batch, led_batch, state

LED = state(ME, isr=(ME, B, C))


@pytest.fixture
async def told(tmp_path: Path) -> AsyncIterator[Told]:
    made = await Told(tmp_path).begin()
    yield made
    await made.end()


def counts(told: Told, topic: str | None = "orders") -> dict[str, float]:
    """The counts of a topic, or in all, that are not 0."""
    prefix, labels = "kafka_server_brokertopicmetrics_", {} if topic is None else {"topic": topic}
    return {
        sample.name.removeprefix(prefix).removesuffix("_total"): sample.value
        for sample in told.scrape().samples
        if sample.name.startswith(prefix) and sample.labels == labels and sample.value
    }


def fetch(offset: int, follower: int = -1, epoch: int = -1) -> FetchRequest:
    asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    state = None if follower < 0 else ReplicaState(replica_id=follower, replica_epoch=epoch)
    topics = [FetchTopic(topic_id=ORDERS, partitions=[asked])]
    return FetchRequest(max_wait_ms=0, min_bytes=1, replica_state=state, topics=topics)


@pytest.mark.moves(
    "kafka_server_brokertopicmetrics_bytesin_total",
    "kafka_server_brokertopicmetrics_messagesin_total",
    "kafka_server_brokertopicmetrics_totalproducerequests_total",
)
async def test_what_is_produced_is_counted_by_topic_and_in_all(told: Told) -> None:
    await told.give(LED, LED)
    assert counts(told) == counts(told, None) == {}
    size = len(batch(b"a", b"b")) + len(batch(b"c"))
    told.produce(b"a", b"b")
    told.produce(b"c", index=1)
    expected = {"messagesin": 3, "bytesin": size, "totalproducerequests": 2}
    assert counts(told) == counts(told, None) == expected


async def test_batches_that_are_written_together_all_count(told: Told) -> None:
    await told.give(LED)
    for number, values in enumerate(((b"a", b"b"), (b"c",), (b"d", b"e", b"f"))):
        staged = memoryview(batch(*values))
        told[0].append_as_leader(staged, acks=1, wall_ms=WALL_MS)
        assert len(told[0].staging.answers) == number + 1
    size = sum(header.size for header, _ in told[0].staging.batches or ())
    told.partitions.write_staged()
    assert counts(told) == {"messagesin": 6, "bytesin": size, "totalproducerequests": 3}
    told.produce(b"g")
    assert counts(told)["messagesin"] == 7


async def test_what_coordinators_write_counts_as_well(told: Told) -> None:
    await told.commit((0, 5))
    assert counts(told, "__consumer_offsets")["messagesin"] == 1


@pytest.mark.moves("kafka_server_brokertopicmetrics_failedproducerequests_total")
async def test_a_refused_batch_is_a_failure_and_the_wrong_broker_is_none(told: Told) -> None:
    await told.give(state(ME, isr=(ME,)), state(B))
    assert told.produce(b"a", acks=-1).error is ErrorCode.NOT_ENOUGH_REPLICAS
    assert counts(told) == {"totalproducerequests": 1, "failedproducerequests": 1}
    assert told.produce(b"a", index=1).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert counts(told)["failedproducerequests"] == 1
    gap = batch(b"x", producer=(7, 0, 5))
    assert told.append(batch(b"x", producer=(7, 0, 0))).error is ErrorCode.NONE
    assert told.append(gap).error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert counts(told)["failedproducerequests"] == 2
    assert "bytesrejected" not in counts(told)


@pytest.mark.moves("kafka_server_brokertopicmetrics_bytesrejected_total")
async def test_bytes_that_fail_a_check_are_rejected(told: Told) -> None:
    await told.give(LED)
    damaged, large = batch(b"a"), batch(b"a" * 2_000)
    damaged[-1] ^= 1
    await told.configure("max.message.bytes", "1000")
    assert told.append(damaged).error is ErrorCode.CORRUPT_MESSAGE
    assert counts(told)["bytesrejected"] == len(damaged)
    assert told.append(large).error is ErrorCode.MESSAGE_TOO_LARGE
    assert counts(told) == {
        "bytesrejected": len(damaged) + len(large),
        "totalproducerequests": 2,
        "failedproducerequests": 2,
    }


@pytest.mark.moves(
    "kafka_server_brokertopicmetrics_bytesout_total",
    "kafka_server_brokertopicmetrics_replicationbytesout_total",
    "kafka_server_brokertopicmetrics_totalfetchrequests_total",
)
async def test_consumers_and_followers_are_counted_apart(told: Told) -> None:
    await told.give(LED)
    size = len(batch(b"a"))
    told.produce(b"a")
    for sent, follower in enumerate((B, C), 1):
        for offset in (0, 1):
            answer = await told.ask(fetch(offset, follower, told.epoch(follower)), 17)
            assert answer.responses[0].partitions[0].error_code == 0
        assert counts(told)["replicationbytesout"] == sent * size
    found = counts(told)
    assert found["totalfetchrequests"] == 4
    assert "bytesout" not in found
    await told.ask(fetch(0), 17)
    await told.ask(fetch(1), 17)
    found = counts(told)
    assert (found["totalfetchrequests"], found["bytesout"]) == (6, size)
    assert found["replicationbytesout"] == 2 * size
    assert "failedfetchrequests" not in found


@pytest.mark.moves("kafka_server_brokertopicmetrics_failedfetchrequests_total")
async def test_a_fetch_that_cannot_be_answered_fails(told: Told) -> None:
    await told.give(LED)
    await told.ask(fetch(99), 17)
    assert counts(told) == {"totalfetchrequests": 1, "failedfetchrequests": 1}
    await told.change(state(B, leader_epoch=2, partition_epoch=2))
    led_elsewhere = await told.ask(fetch(0, B, told.epoch(B)), 17)
    error = led_elsewhere.responses[0].partitions[0].error_code
    assert error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert counts(told) == {"totalfetchrequests": 2, "failedfetchrequests": 1}


@pytest.mark.moves("kafka_server_brokertopicmetrics_replicationbytesin_total")
async def test_what_a_replica_takes_over_is_counted(told: Told) -> None:
    await told.give(state(B))
    size = 0
    for data in (led_batch(0, 1, b"a", b"b"), led_batch(2, 1, b"c")):
        told.follow(data)
        size += len(data)
        assert counts(told) == counts(told, None) == {"replicationbytesin": size}


async def test_a_topic_that_is_gone_stays_in_the_totals(told: Told) -> None:
    await told.give(LED)
    told.produce(b"a")
    before = counts(told, None)
    await told.forget_topic()
    assert counts(told) == {}
    assert counts(told, None) == before
    await told.give(LED)
    told.produce(b"a")
    assert counts(told)["messagesin"] == 1
    assert counts(told, None)["messagesin"] == 2
