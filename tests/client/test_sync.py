import asyncio
import contextlib
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from minikafka import (
    Admin,
    BootstrapError,
    BufferFull,
    ClientClosed,
    Consumer,
    ElectionType,
    MessageTooLarge,
    NewTopic,
    Producer,
    ProducerRecord,
    RecordMetadata,
    SyncDelivery,
    TopicPartition,
    UnknownTopic,
)
from minikafka.protocol.api import ApiKey
from minikafka.protocol.messages import elect_leaders as el

from . import fake_broker
from .fake_broker import FakeCluster, Silence
from .test_producer import first_times, values

ROOT = Path(__file__).parents[2]


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    """A fake cluster on a loop in another thread."""
    loop = uvloop.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def make() -> FakeCluster:
        return await FakeCluster(2).__aenter__()

    made = asyncio.run_coroutine_threadsafe(make(), loop).result()
    yield made
    asyncio.run_coroutine_threadsafe(made.__aexit__(), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_a_round_trip(cluster: FakeCluster) -> None:
    with Admin(cluster.bootstrap) as admin:
        assert admin.create_topics([NewTopic("t", 3)])["t"].num_partitions == 3
        assert [topic.name for topic in admin.list_topics()] == ["t"]
    with Producer(cluster.bootstrap) as producer:
        got = producer.send("t", b"first", b"k", timestamp_ms=5).result(5)
        assert got == RecordMetadata("t", got.partition, 0, 5)
        for number in range(2000):
            producer.send("t", b"%d" % number, partition=1)
        rows = [ProducerRecord(b"row%d" % number) for number in range(10)]
        runs = producer.send_batch("t", rows, partition=2).result(5)
        assert sum(run.record_count for run in runs) == 10
        assert producer.partitions_for("t") == [0, 1, 2]
    with Consumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["t"])
        got_all = [next(consumer) for _ in range(2011)]
        assert [r.value for r in got_all if r.partition == 1][-2000:] == [
            b"%d" % number for number in range(2000)
        ]
        assert consumer.poll(10) == []
        consumer.assign([("t", 1)])
        consumer.seek(("t", 1), 5)
        assert consumer.position(("t", 1)) == 5
        (raw,) = consumer.poll_raw(2000)
        assert raw.position == 5
        assert consumer.lag(("t", 1)) == 0
        end = consumer.end_offsets([("t", 1)])[("t", 1)]  # type: ignore[index]
        assert end == consumer.high_watermark(("t", 1))
        assert next(iter(consumer.beginning_offsets([("t", 1)]).values())) == 0


def test_an_admin_reads_a_generator_where_it_is_called(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the loop in the thread the generator could not use the admin: it would wait for itself."""

    def elect(node: object, request: el.ElectLeadersRequest) -> el.ElectLeadersResponse:
        asked = request.topic_partitions or []
        one = el.PartitionResult(partition_id=0)
        results = [el.ReplicaElectionResult(topic=t.topic, partition_result=[one]) for t in asked]
        return el.ElectLeadersResponse(replica_election_results=results)

    monkeypatch.setitem(fake_broker.HANDLERS, ApiKey.ELECT_LEADERS, elect)
    cluster.versions[ApiKey.ELECT_LEADERS] = (0, 2)
    with Admin(cluster.bootstrap) as admin:
        admin.create_topics([NewTopic("a", 1), NewTopic("b", 1)])

        def partitions() -> Iterator[TopicPartition]:
            yield from (TopicPartition(topic.name, 0) for topic in admin.list_topics())

        wanted = {TopicPartition("a", 0): None, TopicPartition("b", 0): None}
        assert admin.elect_leaders(ElectionType.PREFERRED, partitions()) == wanted
        assert admin.elect_leaders(ElectionType.PREFERRED, partitions=partitions()) == wanted


def test_leaving_the_block_waits_for_all(cluster: FakeCluster) -> None:
    cluster.create("t")
    heard: list[object] = []
    with Producer(
        cluster.bootstrap, linger_ms=60_000, on_delivery=lambda error, sent: heard.append(error)
    ) as producer:
        deliveries = [producer.send("t", b"%d" % number) for number in range(100)]
    assert all(delivery.done() for delivery in deliveries)
    assert heard == [None] * 100
    assert values(cluster, "t") == [b"%d" % number for number in range(100)]
    producer.close()
    with pytest.raises(ClientClosed):
        producer.send("t", b"x")
    with pytest.raises(ClientClosed):
        producer.flush()


def test_seconds_are_not_taken_for_milliseconds(cluster: FakeCluster) -> None:
    cluster.create("t")
    with Producer(cluster.bootstrap) as producer, Consumer(cluster.bootstrap) as consumer:
        consumer.assign([("t", 0)])
        for call in (producer.flush, producer.close, consumer.poll, consumer.close):
            with pytest.raises(TypeError, match="milliseconds"):
                call(0.5)  # type: ignore[arg-type]
        assert producer.send("t", b"x").result(5).offset == 0
        assert len(consumer.poll(5000)) == 1


def test_errors_come_where_they_belong(cluster: FakeCluster) -> None:
    with Producer(cluster.bootstrap, max_block_ms=50, max_request_size=100) as producer:
        with pytest.raises(MessageTooLarge) as caught:
            producer.send("t", b"x" * 101)
        for what_to_raise in ("max.request.size=100", "--producer-property", "max.message.bytes"):
            assert what_to_raise in str(caught.value)
        with pytest.raises(TypeError):
            producer.send("t", 5)  # type: ignore[arg-type]
        delivery = producer.send("nowhere", b"x")
        with pytest.raises(UnknownTopic):
            delivery.result(5)
    with pytest.raises(BootstrapError):
        Producer("127.0.0.1:1", bootstrap_timeout_ms=20)


@pytest.mark.parametrize(
    "bad",
    [
        {"headers": [("h", "text")]},
        {"headers": [(b"h", b"x")]},
        {"headers": [("\ud800", b"x")]},
        {"headers": [("h", 5)]},
        {"timestamp_ms": 1.5},
        {"timestamp_ms": -1},
        {"timestamp_ms": 1 << 63},
        {"partition": "0"},
        {"partition": -1},
        {"topic": b"t"},
        {"topic": ""},
        {"value": "text"},
    ],
)
def test_what_no_record_can_be_is_refused_and_harms_no_other(
    cluster: FakeCluster, bad: dict[str, Any]
) -> None:
    cluster.create("t")
    with Producer(cluster.bootstrap) as producer:
        sent: list[SyncDelivery[RecordMetadata]] = [producer.send("t", b"before")]
        with pytest.raises((TypeError, ValueError)):
            producer.send(**{"topic": "t", "value": b"v", **bad})
        sent.append(producer.send("t", b"after"))
        producer.flush(20_000)
        assert [delivery.result(0).topic for delivery in sent] == ["t", "t"]


def test_sending_waits_for_room_and_gives_up(cluster: FakeCluster) -> None:
    cluster.create("t")
    with Producer(cluster.bootstrap, buffer_memory=5_000) as producer:
        for number in range(500):
            producer.send("t", b"%03d" % number + b"x" * 100)
    assert len(values(cluster, "t")) == 500
    cluster.fault = first_times(1000, Silence())
    producer = Producer(cluster.bootstrap, buffer_memory=1_000, max_block_ms=50)
    producer.send("t", b"x" * 2_000)
    with pytest.raises(BufferFull):
        producer.send("t", b"y")
    with pytest.raises(TimeoutError):
        producer.flush(timeout_ms=20)
    producer.close(timeout_ms=20)


def test_many_threads_may_send(cluster: FakeCluster) -> None:
    cluster.create("t")
    with Producer(cluster.bootstrap, buffer_memory=20_000) as producer:

        def send(name: bytes) -> None:
            for number in range(300):
                producer.send("t", b"%s-%03d" % (name, number))

        threads = [threading.Thread(target=send, args=(name,)) for name in (b"a", b"b", b"c")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    got = values(cluster, "t")
    for name in (b"a", b"b", b"c"):
        mine = [value for value in got if value is not None and value.startswith(name)]
        assert mine == [b"%s-%03d" % (name, number) for number in range(300)]


def test_a_callback_must_not_wait(cluster: FakeCluster) -> None:
    cluster.create("t")
    caught: list[BaseException] = []
    with Producer(cluster.bootstrap) as producer:

        def wait(error: object, sent: object) -> None:
            try:
                producer.flush()
            except RuntimeError as refusal:
                caught.append(refusal)

        producer.send("t", b"x", on_delivery=wait).result(5)
        producer.flush()
    assert "callback must not wait" in str(caught[0])


@contextlib.contextmanager
def script(cluster: FakeCluster, body: str) -> Iterator[subprocess.Popen[str]]:
    """Runs in a process of its own, and no longer than the test."""
    # A shell starts what it runs in the background deaf to Ctrl-C, and so all that comes of it.
    ears = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    code = f"{ears}from minikafka import *\nservers = {cluster.bootstrap!r}\n{body}"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_fork_is_told(cluster: FakeCluster) -> None:
    cluster.create("t")
    body = (
        "import os\n"
        "with Producer(servers) as producer, Consumer(servers) as consumer:\n"
        "    calls = [lambda: producer.send('t', b'x'), producer.flush, consumer.poll,\n"
        "             lambda: consumer.assign([('t', 0)])]\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        told = 0\n"
        "        for call in calls:\n"
        "            try:\n                call()\n"
        "            except ForkedClient:\n                told += 1\n"
        "        os._exit(told)\n"
        "    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "    producer.send('t', b'after').result(5)\n"
    )
    with script(cluster, body) as process:
        out, err = process.communicate(timeout=20)
        assert (out, process.returncode) == ("4\n", 0), err
    assert values(cluster, "t") == [b"after"]


def test_ctrl_c_ends_a_wait(cluster: FakeCluster) -> None:
    cluster.create("t")
    body = (
        "consumer = Consumer(servers)\n"
        "consumer.assign([('t', 0)])\n"
        "consumer.position(('t', 0))\n"
        "try:\n    print('waiting', flush=True)\n    consumer.poll(600_000)\n"
        "except KeyboardInterrupt:\n    print('interrupted')\n"
        "consumer.close()\n"
    )
    with script(cluster, body) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        assert (out, process.returncode) == ("interrupted\n", 0), err


def test_what_was_sent_and_not_flushed_is_flushed_at_exit(cluster: FakeCluster) -> None:
    cluster.create("t")
    body = "producer = Producer(servers, linger_ms=60_000)\nproducer.send('t', b'last words')\n"
    with script(cluster, body) as process:
        _, err = process.communicate(timeout=20)
        assert process.returncode == 0, err
        assert "not closed before exit" in err
    assert values(cluster, "t") == [b"last words"]


def test_a_dead_cluster_does_not_hold_up_the_exit(cluster: FakeCluster) -> None:
    cluster.create("t")
    cluster.fault = first_times(1000, Silence(), ApiKey.PRODUCE)
    body = "producer = Producer(servers)\nproducer.send('t', b'x')\nproducer.close(100)\n"
    with script(cluster, body) as process:
        _, err = process.communicate(timeout=20)
        assert process.returncode == 0
        assert "1 records were not acknowledged" in err


def test_closing_says_how_many_records_still_waited_for_their_topic(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    with Producer(cluster.bootstrap, allow_auto_create_topics=False) as producer:
        deliveries = [producer.send("nobody-created-it", b"x") for _ in range(100)]
        producer.close(1)
    assert "100 records were not acknowledged when the producer was closed" in caplog.text
    with pytest.raises(ClientClosed):
        deliveries[-1].result(0)


def test_a_record_for_a_partition_that_does_not_exist_is_said_to_be_lost(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.create("t")
    with Producer(cluster.bootstrap) as producer:
        producer.partitions_for("t")
        lost = producer.send("t", b"x", partition=7)
        with pytest.raises(UnknownTopic):
            lost.result(10)
    assert "1 records were not delivered: t-7: it has" in caplog.text
