"""What a producer does with keys and values of a user's own, interceptors, and its metrics."""

import inspect
import json
import math

import pytest

from minikafka import Producer as SyncProducer
from minikafka import ProducerFenced, TransactionMisuse
from minikafka.aio import OutgoingRecord, Producer, ProducerInterceptor, ProducerRecord
from minikafka.client.errors import ClientError
from minikafka.client.records import RecordMetadata
from minikafka.protocol.api import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.records.record_batch import records

from .fake_broker import FakeCluster, Refuse
from .fake_transactions import FakeCoordinator, install
from .test_producer import first_times, values
from .test_sync import cluster as cluster


def to_json(value: dict[str, int]) -> bytes:
    return json.dumps(value).encode()


async def test_keys_and_values_are_serialized_and_null_stays_null() -> None:
    async with FakeCluster() as cluster:
        part = cluster.create("t").partitions[0]
        async with Producer(
            cluster.bootstrap, key_serializer=str.encode, value_serializer=to_json
        ) as producer:
            producer.send("t", {"a": 1}, "key")
            producer.send("t", None, None)
            producer.send_batch("t", [ProducerRecord({"b": 2}, "other"), ProducerRecord(None)])
        assert [(r.key, r.value) for b in part.batches for r in records(b)] == [
            (b"key", b'{"a": 1}'),
            (None, None),
            (b"other", b'{"b": 2}'),
            (None, None),
        ]


async def test_what_a_serializer_raises_send_raises() -> None:
    async with FakeCluster() as cluster:
        cluster.create("t")
        async with Producer(cluster.bootstrap, value_serializer=to_json) as producer:
            with pytest.raises(TypeError):
                producer.send("t", {"a": object()})  # type: ignore[dict-item]
            await producer.send("t", {"a": 1})
        assert values(cluster, "t") == [b'{"a": 1}']


class Noting(ProducerInterceptor[bytes, bytes]):
    """Adds to each value; notes what became of it."""

    def __init__(self, mark: bytes) -> None:
        self.mark = mark
        self.heard: list[tuple[bool, int]] = []
        self.is_closed = False

    def on_send(self, record: OutgoingRecord[bytes, bytes]) -> OutgoingRecord[bytes, bytes]:
        assert record.value is not None
        return record._replace(value=record.value + self.mark, headers=[("by", self.mark)])

    def on_acknowledgement(
        self, error: ClientError | None, metadata: RecordMetadata | None
    ) -> None:
        self.heard.append((error is None, -1 if metadata is None else metadata.offset))

    def close(self) -> None:
        self.is_closed = True


async def test_interceptors_change_records_and_hear_of_them() -> None:
    first, second = Noting(b"1"), Noting(b"2")
    async with FakeCluster() as cluster:
        part = cluster.create("t").partitions[0]
        async with Producer(cluster.bootstrap, interceptors=[first, second]) as producer:
            await producer.send("t", b"x")
            cluster.fault = first_times(1, Refuse(ErrorCode.MESSAGE_TOO_LARGE))
            producer.send("t", b"y")
        (record,) = [r for b in part.batches for r in records(b)]
        assert (record.value, list(record.headers)) == (b"x12", [("by", b"2")])
    assert first.heard == second.heard == [(True, 0), (False, -1)]
    assert first.is_closed


async def test_metrics_have_kafka_s_names() -> None:
    async with FakeCluster() as cluster:
        cluster.create("t")
        async with Producer(cluster.bootstrap) as producer:
            before = producer.metrics()
            assert before["record-send-total"] == 0
            assert math.isnan(before["request-latency-avg"])
            for _ in range(10):
                producer.send("t", b"x" * 100)
            await producer.flush()
            cluster.fault = first_times(1, Refuse(ErrorCode.NOT_ENOUGH_REPLICAS))
            await producer.send("t", b"again")
            cluster.fault = first_times(1, Refuse(ErrorCode.MESSAGE_TOO_LARGE))
            producer.send("t", b"refused")
            await producer.flush()
            after = producer.metrics()
    assert after["record-send-total"] == 13
    assert after["record-retry-total"] == 1
    assert after["record-error-total"] == 1
    assert after["records-per-request-avg"] == 13 / 4
    assert after["request-total"] == after["response-total"] > 4
    assert after["batch-size-max"] > 1000
    assert after["request-latency-avg"] >= 0
    assert after["requests-in-flight"] == 0
    assert after["buffer-available-bytes"] == after["buffer-total-bytes"]
    assert before.keys() == after.keys()


# -- for ordinary code


@pytest.fixture
def coordinator(monkeypatch: pytest.MonkeyPatch, cluster: FakeCluster) -> FakeCoordinator:
    """Transactions for the fixture's cluster, which has begun already."""
    made, knows = install(monkeypatch, 2)
    knows.cluster = cluster
    cluster.versions = made.versions
    return knows


def test_the_sync_producer_has_transactions(coordinator: FakeCoordinator) -> None:
    cluster = coordinator.cluster
    cluster.create("a")
    with SyncProducer(cluster.bootstrap, transactional_id="t1", max_block_ms=5_000) as producer:
        with pytest.raises(TransactionMisuse):
            producer.send("a", b"x")
        with producer.transaction():
            producer.send("a", b"kept")
            producer.send_offsets({}, "g")

        def fail() -> None:
            with producer.transaction():
                producer.send("a", b"lost")
                raise KeyError

        with pytest.raises(KeyError):
            fail()
        producer.begin_transaction()
        producer.send("a", b"kept too").result(5)
        with SyncProducer(cluster.bootstrap, transactional_id="t2") as other:
            other.begin_transaction()
            other.abort_transaction()
        producer.commit_transaction()
        assert producer.metrics()["record-send-total"] == 2
        with SyncProducer(cluster.bootstrap, transactional_id="t1"):
            producer.begin_transaction()
            with pytest.raises(ProducerFenced):
                producer.send_offsets({("a", 0): 1}, "g")  # type: ignore[dict-item]
    assert coordinator.visible("a") == [b"kept", b"kept too"]
    assert cluster.sent(ApiKey.ADD_PARTITIONS_TO_TXN) == []


def test_the_sync_producer_serializes_and_is_intercepted(cluster: FakeCluster) -> None:
    cluster.create("t")
    noting: Noting = Noting(b"!")
    with SyncProducer(cluster.bootstrap, interceptors=[noting]) as producer:
        producer.send("t", b"x").result(5)
    with SyncProducer(cluster.bootstrap, value_serializer=to_json) as typed:
        typed.send("t", {"a": 1}).result(5)
    assert values(cluster, "t") == [b"x!", b'{"a": 1}']
    assert noting.heard == [(True, 0)]


def test_the_sync_producer_has_what_its_twin_has_with_the_same_arguments() -> None:
    ours, theirs = methods_of(SyncProducer), methods_of(Producer)
    # These two are how the sync producer reaches into its twin; in it, sending waits for room.
    for name in ("start", "drain", "accept", "to_bytes"):
        theirs.pop(name)
    assert ours == theirs


def methods_of(cls: type) -> dict[str, list[str]]:
    return {
        name: list(inspect.signature(member).parameters)
        for name, member in inspect.getmembers(cls, callable)
        if not name.startswith("_")
    }
