"""Arrow batches become records: each row where it says, in order, refused by its position."""

from typing import Any

import pyarrow as pa
import pytest

from minikafka.client.records import ProducerRecord
from minikafka.protocol.partitioning import partition_for_key
from minikafka.protocol.records import record_backend
from minikafka.spark.header_columns import HEADERS_TYPE
from minikafka.spark.rows import RowError, RowWriter
from tests.spark.fake_cluster import MOST_BYTES, FakeProducer

TYPES: dict[str, Any] = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": HEADERS_TYPE,
}


@pytest.fixture(params=["compiled", "python"], autouse=True)
def codec(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "python":
        monkeypatch.setattr(record_backend, "compiled", None)
    elif record_backend.compiled is None:
        pytest.skip("nothing was compiled here")


def batch_of(*rows: dict[str, Any]) -> pa.RecordBatch:
    schema = pa.schema([(name, kind) for name, kind in TYPES.items() if name in rows[0]])
    return pa.RecordBatch.from_pylist(list(rows), schema=schema)


def write(*batches: pa.RecordBatch, topic: str | None = None) -> Any:
    producer: Any = FakeProducer()
    writer = RowWriter(producer, topic)
    count = 0
    for batch in batches:
        writer.write(batch, count)
        count += batch.num_rows
    writer.finish()
    assert producer.flushes == 1
    return producer.sent


def records(*values: int) -> list[ProducerRecord]:
    return [ProducerRecord(b"%d" % value, None, []) for value in values]


def test_rows_of_a_batch_go_to_topics_and_partitions_in_their_order() -> None:
    rows = [
        {"topic": "ab"[n % 2], "partition": (None, 0, 2)[n % 3], "value": b"%d" % n}
        for n in range(60)
    ]
    sent = write(batch_of(*rows))
    assert len(sent) == 6
    for topic, partition, found in sent:
        wanted = [
            n for n in range(60) if (rows[n]["topic"], rows[n]["partition"]) == (topic, partition)
        ]
        assert found == records(*wanted)


def test_a_part_of_a_larger_array_is_written_as_it_is() -> None:
    rows = [{"key": b"k%d" % n, "value": b"%d" % n, "partition": n % 2} for n in range(9)]
    [first, second] = write(batch_of(*rows).slice(3, 4), topic="t")
    assert [record.key for record in first[2]] == [b"k4", b"k6"]
    assert [record.value for record in second[2]] == [b"3", b"5"]


def test_an_empty_batch_asks_nobody() -> None:
    empty = batch_of({"topic": "a", "value": b""}).slice(0, 0)
    assert write(empty) == []


def test_rows_without_a_partition_stay_together_for_the_producer_to_place() -> None:
    rows = [{"key": b"%d" % n, "value": b"", "partition": None} for n in range(20)]
    [(topic, partition, found)] = write(batch_of(*rows), topic="t")
    assert (topic, partition, len(found)) == ("t", None, 20)
    assert len({partition_for_key(b"%d" % n, 3) for n in range(20)}) == 3


@pytest.mark.parametrize(
    ("row", "match"),
    [
        ({"topic": None, "value": b"v"}, "row 7 of the task: the topic is None"),
        ({"topic": "a", "value": b"v", "partition": 3}, "row 7 .*partition 3, but a has 3"),
        ({"topic": "a", "value": b"v", "headers": [{"key": None, "value": b""}]}, "row 7 .*key"),
        ({"topic": "b", "value": b"v" * (MOST_BYTES + 1)}, "row 7 of the task"),
        (
            {"topic": "b", "value": b"v", "headers": [{"key": "h", "value": b"v" * MOST_BYTES}]},
            "row 7 of the task",
        ),
    ],
)
def test_a_row_is_refused_by_its_position_in_the_task(row: dict[str, Any], match: str) -> None:
    fine = {**dict.fromkeys(row), "topic": "a", "value": b"fine"}
    if "headers" in row:
        fine["headers"] = [{"key": "h", "value": b"1"}, {"key": "i", "value": None}]
    lots = [batch_of(*[fine] * 4), batch_of(fine, fine, fine, row, fine)]
    with pytest.raises(RowError, match=match):
        write(*lots)


class Grown(FakeProducer):
    """The cluster has more partitions than it remembers."""

    def partitions_for(self, topic: str, *, refresh: bool = False) -> list[int]:
        if refresh:
            self.refreshes.append(topic)
        return list(range(5 if topic in self.refreshes and topic == "a" else 3))

    def __init__(self) -> None:
        super().__init__()
        self.refreshes: list[str] = []


def test_a_partition_that_was_added_is_found_before_a_row_is_refused() -> None:
    producer: Any = Grown()
    writer = RowWriter(producer, None)
    there = [{"topic": t, "partition": 2, "value": b"v"} for t in "ab"]
    writer.write(batch_of(*there), 0)
    assert producer.refreshes == []
    added = {"topic": "a", "partition": 4, "value": b"v"}
    writer.write(batch_of(*there, added, added), 2)
    assert producer.refreshes == ["a"]
    sent = [(topic, partition, len(rows)) for topic, partition, rows in producer.sent[2:]]
    assert sorted(sent) == [("a", 2, 1), ("a", 4, 2), ("b", 2, 1)]
    with pytest.raises(RowError, match=r"row 7 .*partition 4, but b has 3"):
        writer.write(batch_of(added, {**added, "topic": "b"}), 6)
    assert producer.refreshes == ["a", "b"]


def test_nothing_of_a_batch_is_sent_when_one_row_is_refused() -> None:
    producer: Any = FakeProducer()
    fine = {"topic": "a", "partition": 0, "value": b"v"}
    with pytest.raises(RowError):
        RowWriter(producer, None).write(batch_of(fine, {**fine, "partition": -1}), 0)
    assert producer.sent == []
