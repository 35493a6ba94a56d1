"""Rows that cannot be records of their topic become dead letters; the others are written."""

from typing import Any

import pyarrow as pa
import pytest

from minikafka.client.consumer.retry_headers import DLQ, TRUNCATED, letter_of
from minikafka.client.records import ProducerRecord
from minikafka.client.sync_producer import Producer
from minikafka.protocol.records import record_backend
from minikafka.protocol.types import TopicPartition
from minikafka.spark import refused_rows
from minikafka.spark.options import OptionError
from minikafka.spark.refused_rows import OVERHEAD, DeadLetters, dead_letters_of
from minikafka.spark.rows import RowWriter
from minikafka.spark.sink_options import parse_sink
from tests.spark.conftest import Broker
from tests.spark.fake_cluster import MOST_BYTES, SERVERS, FakeCluster, FakeProducer, cluster
from tests.spark.test_rows import batch_of

__all__ = ["cluster"]

LIMITS = {"small": 100 + OVERHEAD, "dead": 700 + OVERHEAD}
FINE: dict[str, Any] = {
    "topic": "a",
    "partition": None,
    "key": b"k",
    "value": b"v",
    "headers": [{"key": "h", "value": b"1"}],
}


@pytest.fixture(params=["compiled", "python"], autouse=True)
def codec(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "python":
        monkeypatch.setattr(record_backend, "compiled", None)
    elif record_backend.compiled is None:
        pytest.skip("nothing was compiled here")


def write(
    *rows: dict[str, Any], topic: str | None = None
) -> tuple[list[ProducerRecord], list[ProducerRecord]]:
    """Write rows; return what was sent to their topics, and what is dead."""
    producer: Any = FakeProducer()
    dead = DeadLetters(producer, "dead", lambda name: LIMITS.get(name, 5_000), MOST_BYTES)
    writer = RowWriter(producer, topic, dead)
    writer.write(batch_of(*rows), 0)
    writer.finish()
    sent: tuple[list[ProducerRecord], list[ProducerRecord]] = [], []
    for name, _, records in producer.sent:
        sent[name == "dead"].extend(records)
    return sent


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"topic": None}, "the topic is None"),
        ({"topic": ""}, "the topic is ''"),
        ({"partition": 3}, "partition 3, but a has 3 partitions"),
        ({"headers": [{"key": None, "value": b"x"}]}, "a header without a key"),
        ({"topic": "small", "value": b"v" * 101}, "bytes, and small takes 100"),
        ({"value": b"v" * 600, "key": b"k" * 401}, f"bytes, and a takes {MOST_BYTES}"),
        ({"headers": [{"key": "h", "value": b"v" * MOST_BYTES}]}, "bytes, and a takes"),
    ],
)
def test_a_row_that_is_refused_is_a_dead_letter_and_the_others_are_written(
    bad: dict[str, Any], message: str
) -> None:
    row = {**FINE, **bad}
    fine = [{**FINE, "value": b"%d" % n} for n in range(4)]
    written, dead = write(*fine[:2], row, *fine[2:])
    assert [each.value for each in written] == [b"0", b"1", b"2", b"3"]
    (letter,) = dead
    told = dict(letter.headers)
    assert message.encode() in (told[DLQ + "message"] or b"")
    assert told[DLQ + "exception"] == b"minikafka.spark.rows.RowError"
    assert int(told[DLQ + "timestamp"] or b"") > 0
    assert letter_of(letter.headers).topic == (row["topic"] or "")
    assert (letter.key, letter.value) == (row["key"], row["value"]) or TRUNCATED in told


def test_a_letter_keeps_its_headers_and_says_which_partition_was_meant() -> None:
    _, (letter,) = write({**FINE, "partition": 7}, FINE)
    assert letter.headers[0] == ("h", b"1")
    assert dict(letter.headers)[DLQ + "partition"] == b"7"


def test_what_is_too_large_for_the_dead_letters_too_loses_its_value() -> None:
    _, dead = write(
        {**FINE, "value": b"v" * 400, "topic": "small"}, {**FINE, "value": b"w" * 1_001}
    )
    assert [each.value for each in dead] == [b"v" * 400, None]
    assert [dict(each.headers).get(TRUNCATED) for each in dead] == [None, b"true"]
    large = {"headers": [{"key": "h", "value": b"v" * 700}], "key": b"k" * 700}
    _, (letter,) = write({**FINE, **large})
    assert (letter.key, letter.value) == (None, None)
    assert [name for name, _ in letter.headers if name.startswith(DLQ)] != []
    assert "h" not in dict(letter.headers)


def test_faults_of_several_kinds_are_all_found_in_one_batch() -> None:
    bad: list[dict[str, Any]] = [
        {"topic": None},
        {"partition": -1},
        {"value": b"v" * 2_000},
        {"topic": ""},
    ]
    written, dead = write(FINE, *({**FINE, **each} for each in bad))
    assert [each.value for each in written] == [b"v"]
    assert len(dead) == 4
    written, dead = write(*({**FINE, **each} for each in bad))
    assert (written, len(dead)) == ([], 4)


def test_rows_of_text_and_one_topic_for_all() -> None:
    producer: Any = FakeProducer()
    dead = DeadLetters(producer, "dead", lambda _: 5_000, MOST_BYTES)
    writer = RowWriter(producer, "a", dead)
    values = pa.array(["é", "x" * 1_001, None])
    writer.write(pa.RecordBatch.from_arrays([values], ["value"]), 0)
    (_, _, buried), (_, _, sent) = producer.sent
    assert [each.value for each in sent] == ["é".encode(), None]
    assert [(each.key, dict(each.headers)[DLQ + "topic"]) for each in buried] == [(None, b"a")]


def test_without_the_option_there_are_none_and_with_it_the_cluster_is_asked_once(
    monkeypatch: pytest.MonkeyPatch, cluster: FakeCluster
) -> None:
    producer: Any = FakeProducer()
    monkeypatch.setattr(refused_rows, "cluster_for", lambda settings: cluster)
    assert dead_letters_of(parse_sink({**SERVERS, "topic": "a"}), producer) is None
    said = {**SERVERS, "dead_letters": "dead", "kafka.max.request.size": "5000"}
    dead = dead_letters_of(parse_sink(said), producer)
    assert dead is not None
    cluster.most["a"] = 3_000
    assert (dead.limit_of("a"), dead.limit_of("b")) == (3_000 - OVERHEAD, 5_000)
    cluster.most["a"] = 4_000
    assert dead.limit_of("a") == 3_000 - OVERHEAD


def test_a_topic_is_looked_for_and_so_created_before_its_limit_is_asked_for() -> None:
    there: list[str] = []

    class Creating(FakeProducer):
        def partitions_for(self, topic: str, *, refresh: bool = False) -> list[int]:
            there.append(topic)
            return super().partitions_for(topic, refresh=refresh)

    def most_bytes(topic: str) -> int:
        assert topic in there
        return 5_000

    producer: Any = Creating()
    writer = RowWriter(producer, None, DeadLetters(producer, "dead", most_bytes, MOST_BYTES))
    writer.write(batch_of({"topic": "a", "value": b"v"}, {"topic": None, "value": b"v"}), 0)
    assert [name for name, _, _ in producer.sent] == ["dead", "a"]


def test_a_topic_that_is_created_by_writing_to_it_is_so_with_dead_letters_too(
    broker: Broker, request: pytest.FixtureRequest
) -> None:
    topic, dead = (f"{kind}-{request.node.callspec.id}" for kind in ("made", "made-dead"))
    said = {"kafka.bootstrap.servers": broker.bootstrap, "topic": topic, "dead_letters": dead}
    options = parse_sink(said)
    with Producer(broker.bootstrap) as producer:
        writer = RowWriter(producer, options.topic, dead_letters_of(options, producer))
        fine = {"key": None, "value": b"v", "headers": None}
        writer.write(batch_of(fine, {**fine, "headers": [{"key": None, "value": b"x"}]}), 0)
        writer.finish()
    ends = broker.admin.list_offsets({TopicPartition(each, 0): -1 for each in (topic, dead)})
    assert [each.offset for each in ends.values()] == [1, 1]


@pytest.mark.parametrize("named", ["", " ", "a"])
def test_dead_letters_need_a_topic_of_their_own(named: str) -> None:
    with pytest.raises(OptionError, match="dead_letters"):
        parse_sink({**SERVERS, "topic": "a", "dead_letters": named})
