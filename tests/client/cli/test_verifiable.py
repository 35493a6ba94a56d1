"""`verifiable-producer`, `verifiable-consumer`: the lines of Kafka's tools, but for the time."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import pytest

from minikafka.client.errors import DeliveryTimeout, MessageTooLarge
from minikafka.client.group_types import RebalanceListener
from minikafka.client.records import ConsumerRecord, RecordMetadata
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.records.record_batch import TimestampType
from minikafka.protocol.types import TopicPartition

from .conftest import Run

AT = ("--bootstrap-server", "localhost:9092")
PRODUCE = ("verifiable-producer", *AT, "--topic", "v")
CONSUME = ("verifiable-consumer", *AT, "--topic", "v", "--group-id", "g1")
V0, V1 = TopicPartition("v", 0), TopicPartition("v", 1)

# The lines that kafka-verifiable-producer.sh and -consumer.sh of Kafka 4.3.1 print.
PRODUCED = """\
{"timestamp":0,"name":"startup_complete"}
{"timestamp":0,"name":"producer_send_success","key":null,"value":"0","offset":0,"topic":"v","partition":1}
{"timestamp":0,"name":"producer_send_success","key":null,"value":"1","offset":1,"topic":"v","partition":1}
{"timestamp":0,"name":"shutdown_complete"}
{"timestamp":0,"name":"tool_data","sent":2,"acked":2,"target_throughput":-1,"avg_throughput":0.0}
"""
CONSUMED = """\
{"timestamp":0,"name":"startup_complete"}
{"timestamp":0,"name":"partitions_assigned","partitions":[{"topic":"v","partition":0},{"topic":"v","partition":1}]}
{"timestamp":0,"name":"record_data","key":null,"value":"0","topic":"v","partition":1,"offset":0}
{"timestamp":0,"name":"record_data","key":"1","value":"7.1","topic":"v","partition":1,"offset":1}
{"timestamp":0,"name":"record_data","key":"0","value":"7.0","topic":"v","partition":0,"offset":5}
{"timestamp":0,"name":"records_consumed","count":3,"partitions":[{"topic":"v","partition":1,"count":2,"minOffset":0,"maxOffset":1},{"topic":"v","partition":0,"count":1,"minOffset":5,"maxOffset":5}]}
{"timestamp":0,"name":"offsets_committed","offsets":[{"topic":"v","partition":1,"offset":2},{"topic":"v","partition":0,"offset":6}],"success":true}
{"timestamp":0,"name":"partitions_revoked","partitions":[{"topic":"v","partition":0},{"topic":"v","partition":1}]}
{"timestamp":0,"name":"shutdown_complete"}
{"timestamp":0,"name":"shutdown_requested"}
"""


def timeless(text: str) -> str:
    text = re.sub(r'"timestamp":\d+', '"timestamp":0', text)
    return re.sub(r'"avg_throughput":[\d.]+', '"avg_throughput":0.0', text)


class FakeProducer:
    """Acknowledges each record at once, in partition 1, but for values in `failing`."""

    def __init__(self) -> None:
        self.settings: Mapping[str, str] = {}
        self.sent: list[tuple[bytes, bytes | None, int | None]] = []
        self.failing: dict[bytes, Exception] = {}

    def from_config(self, settings: Mapping[str, str]) -> Self:
        self.settings = settings
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None: ...

    async def close(self) -> None: ...

    async def drain(self) -> None: ...

    def send(
        self,
        topic: str,
        value: bytes,
        key: bytes | None,
        *,
        timestamp_ms: int | None,
        on_delivery: Callable[[Exception | None, RecordMetadata | None], None],
    ) -> None:
        self.sent.append((value, key, timestamp_ms))
        error = self.failing.get(value)
        if isinstance(error, MessageTooLarge):
            raise error
        place = RecordMetadata(topic, 1, len(self.sent) - 1, 0)
        on_delivery(error, place if error is None else None)


class FakeConsumer:
    """Polls give `polls`, one after the other, and a commit fails with `refused` if that is set."""

    def __init__(self) -> None:
        self.settings: Mapping[str, str] = {}
        self.polls: list[list[ConsumerRecord[bytes, bytes]]] = []
        self.committed: list[dict[TopicPartition, int]] = []
        self.refused: ApiError | None = None
        self._listener = RebalanceListener()
        self._is_closed = False

    def from_config(self, settings: Mapping[str, str]) -> Self:
        self.settings = settings
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def subscribe(self, topics: Sequence[str], *, listener: RebalanceListener) -> None:
        assert topics == ["v"]
        self._listener = listener
        assert listener.on_assigned is not None
        listener.on_assigned([V1, V0])

    async def poll(
        self, *, timeout_ms: int, max_records: int
    ) -> list[ConsumerRecord[bytes, bytes]]:
        assert timeout_ms > 0
        found = self.polls.pop(0)
        assert len(found) <= max_records
        return found

    async def commit(self, offsets: dict[TopicPartition, int]) -> None:
        if self.refused is not None:
            raise self.refused
        self.committed.append(offsets)

    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            assert self._listener.on_revoked is not None
            self._listener.on_revoked([V1, V0])


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> FakeProducer:
    fake = FakeProducer()
    monkeypatch.setattr("minikafka.client.producer.producer.Producer", fake)
    return fake


@pytest.fixture
def consumer(monkeypatch: pytest.MonkeyPatch) -> FakeConsumer:
    fake = FakeConsumer()
    monkeypatch.setattr("minikafka.client.consumer.consumer.Consumer", fake)
    return fake


def record(
    partition: int, offset: int, value: bytes, key: bytes | None = None
) -> ConsumerRecord[Any, Any]:
    return ConsumerRecord("v", partition, offset, 0, TimestampType.CREATE_TIME, key, value)


def test_what_is_produced_is_told_as_by_kafkas_tool(run: Run, producer: FakeProducer) -> None:
    code, out, err = run(*PRODUCE, "--max-messages", 2)
    assert (code, timeless(out), err) == (0, PRODUCED, "")
    assert producer.settings["acks"] == "-1"


def test_keys_prefixes_and_times(run: Run, producer: FakeProducer) -> None:
    flags = ("--value-prefix", 7, "--repeating-keys", 2, "--message-create-time", 10**15)
    code, out, _ = run(*PRODUCE, "--max-messages", 3, "--acks", 1, *flags)
    assert code == 0
    assert '"producer_send_success","key":"1","value":"7.1","offset":1,' in out
    assert [(value, key) for value, key, _ in producer.sent] == [
        (b"7.0", b"0"),
        (b"7.1", b"1"),
        (b"7.2", b"0"),
    ]
    times = [at for *_, at in producer.sent if at is not None]
    assert len(times) == 3
    assert 10**15 <= times[0] <= times[1] <= times[2] < 10**15 + 60_000
    assert producer.settings["acks"] == "1"


def test_what_is_not_acknowledged_is_told_and_no_failure(run: Run, producer: FakeProducer) -> None:
    late = DeliveryTimeout(V1, 100, "no leader")
    large = MessageTooLarge(11, 10)
    producer.failing = {b"0": late, b"2": large}
    code, out, _ = run(*PRODUCE, "--max-messages", 3)
    lines = timeless(out).splitlines()
    assert code == 0
    assert lines[1] == (
        '{"timestamp":0,"name":"producer_send_error","topic":"v","key":null,"value":"0",'
        f'"exception":"class minikafka.client.errors.DeliveryTimeout","message":"{late}"}}'
    )
    assert '"value":"2","exception":"class minikafka.client.errors.MessageTooLarge"' in lines[3]
    assert '"sent":3,"acked":1,' in lines[-1]


def test_what_is_consumed_is_told_as_by_kafkas_tool(run: Run, consumer: FakeConsumer) -> None:
    consumer.polls = [[record(1, 0, b"0"), record(1, 1, b"7.1", b"1"), record(0, 5, b"7.0", b"0")]]
    code, out, err = run(*CONSUME, "--max-messages", 3, "--verbose")
    assert (code, timeless(out), err) == (0, CONSUMED, "")
    assert consumer.committed == [{V1: 2, V0: 6}]
    assert consumer.settings["partition.assignment.strategy"] == "range"
    assert consumer.settings["enable.auto.commit"] == "false"


def test_a_refused_commit_is_told(run: Run, consumer: FakeConsumer) -> None:
    consumer.polls = [[], [record(1, 0, b"0")]]
    consumer.refused = ApiError(ErrorCode.ILLEGAL_GENERATION, "another one has it")
    code, out, _ = run(*CONSUME, "--max-messages", 1)
    assert code == 0
    assert (
        '"name":"offsets_committed","offsets":[{"topic":"v","partition":1,"offset":1}],'
        '"error":"ILLEGAL_GENERATION: another one has it","success":false}\n'
    ) in out


def test_what_is_no_text_is_told_all_the_same(run: Run, consumer: FakeConsumer) -> None:
    consumer.polls = [[record(1, 0, b"\xff\xc3\xbc")]]
    _, out, _ = run(*CONSUME, "--max-messages", 1, "--verbose", "--enable-autocommit")
    assert '"record_data","key":null,"value":"\N{REPLACEMENT CHARACTER}ü"' in out
    assert "offsets_committed" not in out
    assert consumer.settings["enable.auto.commit"] == "true"


def test_flags_beat_the_file_and_javas_names_are_known(
    run: Run, consumer: FakeConsumer, tmp_path: Any
) -> None:
    config = tmp_path / "consumer.properties"
    config.write_text("auto.offset.reset=latest\nsession.timeout.ms=7000\nfetch.min.bytes=3\n")
    names = "org.apache.kafka.clients.consumer.StickyAssignor,RoundRobinAssignor"
    flags = ("--assignment-strategy", names, "--session-timeout", 9000)
    run(*CONSUME, "--max-messages", 0, *flags, "--consumer.config", config)
    assert consumer.settings["auto.offset.reset"] == "earliest"
    assert consumer.settings["session.timeout.ms"] == "9000"
    assert consumer.settings["fetch.min.bytes"] == "3"
    assert consumer.settings["partition.assignment.strategy"] == "sticky,roundrobin"
    code, _, err = run(*CONSUME, "--assignment-strategy", "MyAssignor")
    assert code == 2
    assert "--assignment-strategy=MyAssignor: known are RangeAssignor" in err
