import asyncio
import re
from typing import Any

import pytest

from minikafka.aio import Consumer, OffsetAndTimestamp, Producer
from minikafka.client.consumer.buffer import Buffer
from minikafka.client.consumer.fetcher import Fetcher
from minikafka.client.consumer.positions import PartitionState
from minikafka.client.errors import (
    ClientClosed,
    ClientError,
    CorruptRecord,
    LogTruncated,
    NoOffsetForPartition,
    NothingToRead,
    OffsetOutOfRange,
    RequestTimedOut,
    UnknownTopic,
)
from minikafka.client.records import ConsumerRecord
from minikafka.protocol.api import ApiKey
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.records.record_batch import BatchBuilder, Codec, NewRecord, build, records
from minikafka.protocol.types import TopicPartition

from .fake_broker import Close, FakeCluster, FakeNode, FakePartition, Garbage, Refuse
from .test_producer import first_times

TP = TopicPartition("t", 0)


def fill(part: FakePartition, count: int, *, per_batch: int = 10, first: int = 0) -> None:
    for start in range(first, first + count, per_batch):
        numbers = range(start, min(start + per_batch, first + count))
        part.append(build([NewRecord(1000 + n, b"k", b"%d" % n, ()) for n in numbers]))


async def read(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    got: list[ConsumerRecord] = []
    async with asyncio.timeout(20):
        while len(got) < count:
            got += await consumer.poll(1000, count - len(got))
    return got


def numbers(got: list[ConsumerRecord]) -> list[int]:
    return [int(record.value or b"-1") for record in got]


def earliest(cluster: FakeCluster, **settings: Any) -> Consumer:
    settings = {"auto_offset_reset": "earliest", "retry_backoff_ms": 5, **settings}
    return Consumer(cluster.bootstrap, **settings)


async def test_all_partitions_are_read_in_order() -> None:
    async with FakeCluster(3) as cluster:
        topic = cluster.create("t", partitions=5)
        for part in topic.partitions:
            fill(part, 100)
        async with earliest(cluster) as consumer:
            await consumer.subscribe(["t"])
            got = await read(consumer, 500)
            assert await consumer.poll(10) == []
        for index in range(5):
            mine = [record for record in got if record.partition == index]
            assert numbers(mine) == list(range(100))
            assert [record.offset for record in mine] == list(range(100))
        assert got[0].timestamp_ms == 1000
        assert got[0].key == b"k"


async def test_new_records_end_a_wait() -> None:
    async with FakeCluster() as cluster:
        cluster.create("t")
        async with earliest(cluster) as consumer, Producer(cluster.bootstrap) as producer:
            consumer.assign([TP])
            polling = asyncio.create_task(consumer.poll(10_000))
            await producer.send("t", b"1")
            assert numbers(await polling) == [1]


async def test_latest_reads_only_what_comes_after() -> None:
    async with FakeCluster() as cluster:
        part = cluster.create("t").partitions[0]
        fill(part, 10)
        async with Consumer(cluster.bootstrap) as consumer:
            consumer.assign([TP])
            assert await consumer.position(TP) == 10
            fill(part, 1, first=10)
            cluster.notify()
            assert numbers(await read(consumer, 1)) == [10]


async def test_max_records_cuts_within_a_batch_and_goes_on_there() -> None:
    async with FakeCluster() as cluster:
        fill(cluster.create("t").partitions[0], 30)
        async with earliest(cluster, max_poll_records=7) as consumer:
            consumer.assign([TP])
            got = [await consumer.poll(1000) for _ in range(5)]
            assert [numbers(g) for g in got] == [
                [*range(7)],
                [*range(7, 14)],
                [*range(14, 21)],
                [*range(21, 28)],
                [28, 29],
            ]
            assert await consumer.position(TP) == 30


async def test_seeking_goes_into_the_middle_of_a_batch() -> None:
    """And does not wait for a fetch that waits for new records: that would take a minute."""
    async with FakeCluster() as cluster:
        fill(cluster.create("t").partitions[0], 30)
        async with earliest(cluster, fetch_max_wait_ms=60_000) as consumer:
            consumer.assign([TP])
            assert numbers(await read(consumer, 3)) == [0, 1, 2]
            consumer.seek(TP, 17)
            assert await consumer.position(TP) == 17
            assert numbers(await read(consumer, 2)) == [17, 18]
            consumer.seek_to_beginning(TP)
            assert numbers(await read(consumer, 1)) == [0]
            consumer.seek_to_end()
            assert await consumer.position(TP) == 30
            with pytest.raises(ValueError, match="0 or more"):
                consumer.seek(TP, -1)
            with pytest.raises(ValueError, match="not assigned"):
                consumer.seek(("other", 0), 1)


async def test_a_partition_that_stays_assigned_keeps_its_position() -> None:
    async with FakeCluster() as cluster:
        for part in cluster.create("t", partitions=2).partitions:
            fill(part, 30)
        async with earliest(cluster) as consumer:
            consumer.assign([TP])
            await read(consumer, 3)
            consumer.assign([TP, ("t", 1)])
            assert consumer.assignment() == [("t", 0), ("t", 1)]
            assert await consumer.position(TP) == 3
            assert await consumer.position(("t", 1)) == 0
            consumer.assign([("t", 1)])
            assert {record.partition for record in await read(consumer, 30)} == {1}


async def test_paused_partitions_are_left_out() -> None:
    async with FakeCluster() as cluster:
        for part in cluster.create("t", partitions=2).partitions:
            fill(part, 10)
        async with earliest(cluster) as consumer:
            await consumer.subscribe(["t"])
            consumer.pause(TP)
            assert {record.partition for record in await read(consumer, 10)} == {1}
            assert await consumer.poll(20) == []
            consumer.resume(TP)
            assert {record.partition for record in await read(consumer, 10)} == {0}


async def test_raw_batches_are_the_logs_own() -> None:
    async with FakeCluster() as cluster:
        part = cluster.create("t").partitions[0]
        fill(part, 30)
        async with earliest(cluster) as consumer:
            consumer.assign([TP])
            (raw,) = await consumer.poll_raw(1000)
            assert (raw.topic, raw.partition) == TP
            assert (raw.position, raw.next_position) == (0, 30)
            assert (raw.high_watermark, raw.log_start_offset) == (30, 0)
            assert bytes(raw.data) == b"".join(part.batches)
            assert await consumer.position(TP) == 30
            assert await consumer.poll_raw(0) == []


async def test_raw_after_a_partial_poll_begins_with_the_whole_batch() -> None:
    async with FakeCluster() as cluster:
        part = cluster.create("t").partitions[0]
        fill(part, 30)
        async with earliest(cluster) as consumer:
            consumer.assign([TP])
            await read(consumer, 13)
            (raw,) = await consumer.poll_raw(0)
            assert (raw.position, raw.next_position) == (13, 30)
            assert bytes(raw.data) == b"".join(part.batches[1:])


async def test_iteration_ends_when_the_consumer_is_closed() -> None:
    async with FakeCluster() as cluster:
        fill(cluster.create("t").partitions[0], 10)
        consumer = await earliest(cluster).start()
        consumer.assign([TP])
        got = []
        async for record in consumer:
            got.append(record)
            if len(got) == 10:
                await consumer.close()
        assert numbers(got) == list(range(10))
        with pytest.raises(ClientClosed):
            await consumer.poll()


async def test_closing_ends_a_poll() -> None:
    async with FakeCluster() as cluster:
        cluster.create("t")
        consumer = await earliest(cluster).start()
        consumer.assign([TP])
        polling = asyncio.create_task(consumer.poll(60_000))
        await asyncio.sleep(0)
        await consumer.close()
        with pytest.raises(ClientClosed):
            await polling


async def test_an_offset_outside_the_log_follows_the_reset() -> None:
    async with FakeCluster() as cluster:
        part = cluster.create("t").partitions[0]
        fill(part, 30)
        part.log_start_offset = 10
        part.batches = part.batches[1:]
        async with earliest(cluster) as consumer:
            consumer.assign([TP])
            consumer.seek(TP, 5)
            assert numbers(await read(consumer, 1)) == [10]
            consumer.seek(TP, 500)
            assert numbers(await read(consumer, 1)) == [10]


async def test_without_a_reset_the_user_decides() -> None:
    async with FakeCluster() as cluster:
        fill(cluster.create("t").partitions[0], 10)
        async with Consumer(cluster.bootstrap, auto_offset_reset="none") as consumer:
            consumer.assign([TP])
            with pytest.raises(NoOffsetForPartition, match="t-0"):
                await consumer.poll(1000)
            with pytest.raises(NoOffsetForPartition):
                await consumer.position(TP)
            consumer.seek(TP, 99)
            with pytest.raises(OffsetOutOfRange, match="99"):
                await consumer.poll(5000)
            consumer.seek(TP, 4)
            assert numbers(await read(consumer, 1)) == [4]


@pytest.mark.parametrize(
    "fault",
    [
        Close(),
        Garbage(b"\x00\xff\xff\xff\xff"),
        Refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER),
        Refuse(ErrorCode.UNKNOWN_LEADER_EPOCH),
        Refuse(ErrorCode.FENCED_LEADER_EPOCH),
        Refuse(ErrorCode.KAFKA_STORAGE_ERROR),
        Refuse(ErrorCode.OFFSET_NOT_AVAILABLE),
    ],
    ids=str,
)
async def test_faults_skip_and_repeat_nothing(fault: BaseException) -> None:
    async with FakeCluster() as cluster:
        fill(cluster.create("t").partitions[0], 300)
        hits = iter(range(100_000))

        def sometimes(node: FakeNode, key: int, request: Any) -> None:
            if key == ApiKey.FETCH and next(hits) % 3:
                raise fault

        cluster.fault = sometimes
        async with earliest(cluster, max_partition_fetch_bytes=500) as consumer:
            consumer.assign([TP])
            assert numbers(await read(consumer, 300)) == list(range(300))


async def test_a_final_refusal_reaches_the_user() -> None:
    async with FakeCluster() as cluster:
        fill(cluster.create("t").partitions[0], 10)
        refusal = Refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        cluster.fault = first_times(1, refusal, ApiKey.FETCH)
        async with earliest(cluster) as consumer:
            consumer.assign([TP])
            with pytest.raises(ApiError, match="t-0"):
                await consumer.poll(5000)
            assert numbers(await read(consumer, 1)) == [0]


async def test_moving_leaders_are_followed() -> None:
    async with FakeCluster(3) as cluster:
        part = cluster.create("t").partitions[0]
        async with earliest(cluster) as consumer:
            consumer.assign([TP])
            got: list[int] = []
            for step, leader in enumerate((2, 3, 1, 3)):
                fill(part, 50, first=50 * step)
                cluster.notify()
                got += numbers(await read(consumer, 50))
                cluster.move("t", 0, leader)
            assert got == list(range(200))


async def test_a_nearer_replica_that_nobody_knows_does_no_harm() -> None:
    async with FakeCluster() as cluster:
        part = cluster.create("t").partitions[0]
        part.nearer = 9
        fill(part, 10)
        async with earliest(cluster) as consumer:
            consumer.assign([TP])
            assert numbers(await read(consumer, 10)) == [*range(10)]
            fill(part, 10, first=10)
            cluster.notify()
            assert numbers(await read(consumer, 10)) == [*range(10, 20)]


async def test_a_killed_leader_is_left_for_the_next() -> None:
    async with FakeCluster(3) as cluster:
        part = cluster.create("t").partitions[0]
        fill(part, 10)
        async with earliest(cluster) as consumer:
            consumer.assign([TP])
            await read(consumer, 10)
            await cluster.nodes[1].stop()
            cluster.move("t", 0, 2)
            fill(part, 10, first=10)
            cluster.notify()
            assert numbers(await read(consumer, 10)) == list(range(10, 20))


async def test_a_stopped_leader_is_left_when_another_broker_names_the_next() -> None:
    async with FakeCluster(3) as cluster:
        part = cluster.create("t").partitions[0]
        fill(part, 10)
        async with earliest(cluster, unanswered_request_ms=20, fetch_max_wait_ms=20) as consumer:
            consumer.assign([TP])
            await read(consumer, 10)
            cluster.nodes[1].freeze()
            cluster.move("t", 0, 2)
            fill(part, 10, first=10)
            cluster.notify()
            assert numbers(await read(consumer, 10)) == list(range(10, 20))
            cluster.nodes[1].thaw()


async def test_what_was_read_and_is_gone_is_noticed() -> None:
    """KIP-320: an unclean election cut the log below the position; offsets alone do not tell."""
    async with FakeCluster(2) as cluster:
        part = cluster.create("t").partitions[0]
        fill(part, 30)
        async with earliest(cluster) as consumer:
            consumer.assign([TP])
            await read(consumer, 30)
            part.truncate_to(20)
            cluster.move("t", 0, 2)
            fill(part, 30, first=1000)
            cluster.notify()
            assert numbers(await read(consumer, 30)) == list(range(1000, 1030))


async def test_without_a_reset_lost_records_are_an_error() -> None:
    async with FakeCluster(2) as cluster:
        part = cluster.create("t").partitions[0]
        fill(part, 30)
        settings: Any = {"auto_offset_reset": "none", "retry_backoff_ms": 5}
        async with Consumer(cluster.bootstrap, **settings) as consumer:
            consumer.assign([TP])
            consumer.seek(TP, 0)
            await read(consumer, 30)
            part.truncate_to(20)
            cluster.move("t", 0, 2)
            fill(part, 30, first=1000)
            cluster.notify()
            with pytest.raises(LogTruncated) as caught:
                await consumer.poll(5000)
            assert caught.value.diverging_offset == 20
            assert caught.value.position == 30


@pytest.mark.parametrize("reset", ["latest", "none"])
async def test_another_topic_of_the_same_name_is_read_from_its_beginning(reset: str) -> None:
    async with FakeCluster() as cluster:
        fill(cluster.create("t").partitions[0], 30)
        settings: Any = {"auto_offset_reset": reset, "metadata_max_age_ms": 20}
        async with Consumer(cluster.bootstrap, **settings) as consumer:
            consumer.assign([TP])
            consumer.seek(TP, 10)
            await read(consumer, 20)
            other = cluster.create("other")
            other.name = "t"
            fill(other.partitions[0], 40, first=100)
            cluster.topics["t"] = other
            cluster.notify()
            if reset == "latest":
                assert numbers(await read(consumer, 40)) == list(range(100, 140))
            else:
                with pytest.raises(LogTruncated):
                    await read(consumer, 1)


async def test_a_damaged_batch_is_told_after_what_precedes_it() -> None:
    async with FakeCluster() as cluster:
        part = cluster.create("t").partitions[0]
        fill(part, 30)
        part.batches[1][70] ^= 0xFF
        async with earliest(cluster) as consumer:
            consumer.assign([TP])
            assert numbers(await consumer.poll(5000)) == list(range(10))
            with pytest.raises(CorruptRecord, match="t-0 at offset 10: crc") as caught:
                await consumer.poll(5000)
            assert caught.value.offset == 10
            consumer.seek(TP, 20)
            assert numbers(await read(consumer, 10)) == list(range(20, 30))


async def test_checksums_can_be_left_unchecked() -> None:
    async with FakeCluster() as cluster:
        part = cluster.create("t").partitions[0]
        fill(part, 10)
        part.batches[0][17] ^= 0xFF
        async with earliest(cluster, check_crcs=False) as consumer:
            consumer.assign([TP])
            assert numbers(await read(consumer, 10)) == list(range(10))


def transactional(part: FakePartition, producer_id: int, values: list[bytes]) -> int:
    builder = BatchBuilder(Codec.NONE, is_transactional=True)
    for value in values:
        builder.append(1, None, value)
    return part.append(builder.build(producer_id=producer_id, producer_epoch=0, base_sequence=0))


def marker(part: FakePartition, producer_id: int, *, commit: bool) -> None:
    builder = BatchBuilder(Codec.NONE, is_transactional=True, is_control=True)
    builder.append(1, b"\x00\x00\x00\x01" if commit else b"\x00\x00\x00\x00", b"\x00" * 6)
    part.append(builder.build(producer_id=producer_id, producer_epoch=0))


async def test_read_committed_hides_what_was_aborted() -> None:
    async with FakeCluster() as cluster:
        part = cluster.create("t").partitions[0]
        first = transactional(part, 7, [b"1", b"2"])
        transactional(part, 8, [b"3"])
        marker(part, 7, commit=False)
        marker(part, 8, commit=True)
        transactional(part, 7, [b"4"])
        marker(part, 7, commit=True)
        fill(part, 1, first=5)
        part.aborted = [(7, first)]
        async with earliest(cluster, isolation_level="read_committed") as consumer:
            consumer.assign([TP])
            assert numbers(await read(consumer, 3)) == [3, 4, 5]
            consumer.seek(TP, 0)
            (raw,) = await consumer.poll_raw(1000)
            assert raw.aborted_transactions == ((7, first),)
        async with earliest(cluster) as consumer:
            consumer.assign([TP])
            assert numbers(await read(consumer, 5)) == [1, 2, 3, 4, 5]


async def test_a_log_that_ends_with_a_marker_is_read_to_its_end() -> None:
    async with FakeCluster() as cluster:
        part = cluster.create("t").partitions[0]
        transactional(part, 7, [b"1"])
        marker(part, 7, commit=True)
        async with earliest(cluster) as consumer:
            consumer.assign([TP])
            await read(consumer, 1)
            assert await consumer.poll(20) == []
            assert await consumer.position(TP) == 2


async def test_offsets_are_looked_up_without_moving() -> None:
    async with FakeCluster() as cluster:
        part = cluster.create("t").partitions[0]
        fill(part, 30)
        part.log_start_offset = 10
        async with earliest(cluster) as consumer:
            assert await consumer.beginning_offsets([TP]) == {TP: 10}
            assert await consumer.end_offsets([("t", 0)]) == {TP: 30}
            found = await consumer.offsets_for_times({TP: 1015})
            assert found == {TP: OffsetAndTimestamp(15, 1015, -1)}
            assert await consumer.offsets_for_times({TP: 9999}) == {TP: None}
            assert await consumer.partitions_for("t") == [0]
            with pytest.raises(RequestTimedOut, match="other-0"):
                await consumer.end_offsets([("other", 0)], timeout_ms=50)


async def test_lag_is_what_is_left_to_read() -> None:
    async with FakeCluster() as cluster:
        fill(cluster.create("t").partitions[0], 30)
        async with earliest(cluster) as consumer:
            consumer.assign([TP])
            assert consumer.lag(TP) is None
            await read(consumer, 12)
            assert consumer.high_watermark(TP) == 30
            assert consumer.lag(TP) == 18


async def test_an_unknown_topic_is_told() -> None:
    async with FakeCluster() as cluster, earliest(cluster) as consumer:
        with pytest.raises(UnknownTopic, match="nowhere"):
            await consumer.subscribe(["nowhere"], timeout_ms=50)
        with pytest.raises(TypeError, match="list of names"):
            await consumer.subscribe("t")


async def test_a_poll_without_anything_to_read_says_so_instead_of_waiting_in_vain() -> None:
    async with FakeCluster() as cluster, earliest(cluster) as consumer:
        cluster.create("t")
        with pytest.raises(NothingToRead, match="subscribe to topics or assign"):
            await consumer.poll(60_000)
        with pytest.raises(NothingToRead):
            await anext(consumer)
        await consumer.subscribe(["t"])
        assert await consumer.poll(0) == []
        await consumer.unsubscribe()
        with pytest.raises(NothingToRead):
            await consumer.poll_columns(60_000)
        consumer.assign([TP])
        assert await consumer.poll_raw(0) == []


async def test_seconds_are_not_taken_for_milliseconds() -> None:
    async with FakeCluster() as cluster, earliest(cluster) as consumer:
        cluster.create("t")
        consumer.assign([TP])
        for call in (consumer.poll, consumer.poll_raw, consumer.poll_columns, consumer.close):
            with pytest.raises(TypeError, match=r"milliseconds, not 1\.0: .*timeout_ms=1000"):
                await call(1.0)  # type: ignore[arg-type]
        assert await consumer.poll(0) == []


async def test_a_misspelt_topic_is_said_with_the_names_near_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    said = "fligths: the cluster does not have it; did you mean flights?"
    async with FakeCluster() as cluster, earliest(cluster) as consumer:
        cluster.create("flights")
        waiting = asyncio.ensure_future(consumer.subscribe(["fligths"]))
        await cluster.until(lambda: f"topic {said}" in caplog.text)
        with pytest.raises(UnknownTopic, match=re.escape(said)):
            await consumer.subscribe(["fligths"], timeout_ms=50)
        assert caplog.text.count("fligths") == 1
        waiting.cancel()


async def test_partitions_added_later_are_read_from_their_beginning() -> None:
    async with FakeCluster() as cluster:
        topic = cluster.create("t")
        async with Consumer(cluster.bootstrap, metadata_max_age_ms=20) as consumer:
            await consumer.subscribe(["t"])
            assert await consumer.position(TP) == 0
            part = FakePartition(leader=1)
            fill(part, 5)
            topic.partitions.append(part)
            assert numbers(await read(consumer, 5)) == list(range(5))


@pytest.mark.parametrize("version", [4, 6, 7, 11, 12, 13, 15, 18])
async def test_every_fetch_version_is_spoken(version: int) -> None:
    async with FakeCluster() as cluster:
        cluster.versions[ApiKey.FETCH] = (4, version)
        fill(cluster.create("t").partitions[0], 10)
        async with earliest(cluster) as consumer:
            consumer.assign([TP])
            assert numbers(await read(consumer, 10)) == list(range(10))
        topic = cluster.sent(ApiKey.FETCH)[0].topics[0]
        assert bool(topic.topic) == (version < 13)


async def test_no_more_is_fetched_ahead_than_two_chunks() -> None:
    async with FakeCluster() as cluster:
        part = cluster.create("t").partitions[0]
        fill(part, 300)
        async with earliest(cluster, max_partition_fetch_bytes=400) as consumer:
            consumer.assign([TP])
            await cluster.until(lambda: len(cluster.sent(ApiKey.FETCH)) >= 2)
            await asyncio.sleep(0.05)
            assert len(cluster.sent(ApiKey.FETCH)) == 2, "nobody has polled"
            assert numbers(await read(consumer, 300)) == list(range(300))


async def test_what_a_producer_wrote_is_what_a_consumer_reads() -> None:
    async with FakeCluster(2) as cluster:
        cluster.create("t", partitions=3)
        sent = {}
        async with Producer(cluster.bootstrap, compression_type="zstd") as producer:
            for number in range(500):
                delivery = producer.send("t", b"%d" % number, b"key%d" % (number % 7))
                sent[number] = delivery
        async with earliest(cluster) as consumer:
            await consumer.subscribe(["t"])
            got = await read(consumer, 500)
        where = {int(record.value or b""): (record.partition, record.offset) for record in got}
        assert where == {
            number: (delivery.result().partition, delivery.result().offset)
            for number, delivery in sent.items()
        }
        assert records(cluster.topics["t"].partitions[0].batches[0])


async def test_errors_of_a_partition_leave_with_it() -> None:
    async with FakeCluster() as cluster:
        for part in cluster.create("t", partitions=2).partitions:
            fill(part, 10)
        async with Consumer(cluster.bootstrap, auto_offset_reset="none") as consumer:
            consumer.assign([TP])
            consumer.seek(TP, 99)
            buffer = consumer._engine.fetcher.buffer
            async with asyncio.timeout(60):
                while not buffer._errors:
                    await buffer.arrived.wait()
                    buffer.arrived.clear()
            consumer.assign([("t", 1)])
            consumer.seek(("t", 1), 3)
            assert numbers(await read(consumer, 1)) == [3]
            assert await consumer.poll(0) is not None


async def test_a_batch_of_an_impossible_size_is_told_and_the_next_answer_read() -> None:
    async with FakeCluster() as cluster:
        for part in cluster.create("t", partitions=2).partitions:
            fill(part, 20)
        bad = cluster.topics["t"].partitions[0].batches[1]
        sound = bytes(bad)
        bad[8:12] = (-100).to_bytes(4, "big", signed=True)
        async with earliest(cluster) as consumer:
            consumer.assign([TP])
            with pytest.raises(CorruptRecord, match="t-0 at offset 0"):
                await consumer.poll(60_000)
            bad[:] = sound
            assert numbers(await read(consumer, 20)) == list(range(20))


async def test_a_fetch_loop_that_fails_is_told_and_begun_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def breaks(*_: object) -> None:
        monkeypatch.undo()
        raise RuntimeError("boom")

    async with FakeCluster() as cluster:
        fill(cluster.create("t").partitions[0], 10)
        async with earliest(cluster) as consumer:
            monkeypatch.setattr(Fetcher, "_on_partition", breaks)
            consumer.assign([TP])
            with pytest.raises(ClientError, match="boom"):
                await consumer.poll(60_000)
            assert numbers(await read(consumer, 10)) == list(range(10))


async def test_a_topic_no_longer_read_is_asked_for_no_more() -> None:
    async with FakeCluster() as cluster:
        for name in ("t", "u"):
            fill(cluster.create(name).partitions[0], 10)
        async with earliest(cluster) as consumer:
            consumer.assign([TP])
            await read(consumer, 10)
            consumer.assign([("u", 0)])
            await read(consumer, 10)
            del cluster.topics["t"]
            before = len(cluster.sent(ApiKey.METADATA))
            while not (asked := cluster.sent(ApiKey.METADATA)[before:]):
                # What is waited for may be the answer to a question of before.
                consumer._engine.metadata.refresh_soon()
                await consumer._engine.metadata.wait_until_refreshed()
            # Perhaps of a second broker too, where the first is slow to answer.
            assert {tuple(topic.name for topic in each.topics) for each in asked} == {("u",)}


def test_an_error_that_is_found_again_is_told_once() -> None:
    buffer = Buffer(asyncio.Event(), lambda: None)
    states = [PartitionState(TopicPartition("t", index)) for index in range(2)]
    for state in (states[0], states[0], states[1]):
        buffer.report(CorruptRecord(state.partition, 5, "bad"), state)
    for state in states:
        with pytest.raises(CorruptRecord, match=f"t-{state.partition.partition} at offset 5"):
            buffer.raise_error()
    buffer.raise_error()


async def test_a_topic_made_anew_is_never_read_from_an_offset_of_the_old_one() -> None:
    async with FakeCluster() as cluster:
        fill(cluster.create("t").partitions[0], 3)
        async with earliest(cluster, auto_offset_reset="none") as consumer, asyncio.timeout(30):
            consumer.assign([TP])
            consumer.seek(TP, 0)
            assert numbers(await read(consumer, 3)) == [0, 1, 2]
            del cluster.topics["t"]
            metadata = consumer._engine.metadata
            while "t" in metadata.view.topics:
                metadata.refresh_soon()
                await metadata.wait_until_refreshed()
            anew = cluster.create("t")
            anew.topic_id = b"n" * 16
            fill(anew.partitions[0], 9, first=100)
            asked = len(cluster.sent(ApiKey.FETCH))

            def silent(_: FakeNode, key: int, request: object) -> None:
                """Let a fetch come before the news of the new topic."""
                if key == ApiKey.METADATA and len(cluster.sent(ApiKey.FETCH)) < asked + 3:
                    raise Close

            cluster.fault = silent
            with pytest.raises(LogTruncated, match="t-0: the log was truncated below position 3"):
                await read(consumer, 1)
            consumer.seek_to_beginning(TP)
            assert numbers(await read(consumer, 9)) == list(range(100, 109))
