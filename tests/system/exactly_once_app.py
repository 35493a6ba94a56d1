"""An application that reads, processes and writes in transactions; it may be killed at any time.

    python -m tests.system.exactly_once_app ours|confluent BOOTSTRAP SOURCE SINK INSTANCE

What it writes is `process(value)`, to the partition that it read from. Several instances share a
group. Whatever its client refuses, it begins again from what is committed.
"""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException

from minikafka import Consumer, Producer, TopicPartition
from minikafka.client.errors import ClientError
from minikafka.protocol.errors import ApiError

SESSION_MS = 3000
BATCH = 200
HANGS_AFTER_S = 45.0
"""Well over what one step of a transaction may wait by its timeout, 30 s."""


def process(value: bytes) -> bytes:
    """What the application makes of a record."""
    return b"%s squared is %d" % (value, int(value) ** 2)


def run_ours(bootstrap: str, source: str, sink: str, instance: str) -> None:
    """One life of the application with our client; ends with an exception."""
    with (
        Consumer(
            bootstrap,
            group_id=sink,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=300,
        ) as consumer,
        Producer(bootstrap, transactional_id=f"{sink}-{instance}") as producer,
    ):
        consumer.subscribe([source])
        while True:
            records = consumer.poll(timeout_ms=200, max_records=BATCH)
            if not records:
                continue
            with producer.transaction():
                for record in records:
                    made = process(record.value or b"")
                    producer.send(sink, made, partition=record.partition)
                ends = {TopicPartition(r.topic, r.partition): r.offset + 1 for r in records}
                producer.send_offsets(ends, consumer.group_metadata())


def run_confluent(bootstrap: str, source: str, sink: str, instance: str) -> None:
    """One life of the application with confluent-kafka; ends with an exception."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": sink,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 300,
        }
    )
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": f"{sink}-{instance}", "linger.ms": 0}
    )
    try:
        producer.init_transactions(30)
        consumer.subscribe([source])
        while True:
            records = [one for one in consumer.consume(BATCH, 0.2) if one.error() is None]
            if records:
                with begun_again_if_it_hangs():
                    transact_confluent(consumer, producer, records, sink)
    finally:
        consumer.close()


@contextlib.contextmanager
def begun_again_if_it_hangs() -> Iterator[None]:
    """Do as a supervisor would with a process that does nothing any more.

    send_offsets_to_transaction of librdkafka 2.16.0 may wait for ever, whatever its timeout, for
    a coordinator of groups that was fenced and has left the metadata (librdkafka's issues 5456
    and 5511), whether the broker comes back or not.
    """
    watch = threading.Timer(HANGS_AFTER_S, begin_anew)
    watch.daemon = True
    watch.start()
    try:
        yield
    finally:
        watch.cancel()


def begin_anew() -> None:
    """Put a new process in the place of this one."""
    say("librdkafka does not return")
    os.execv(sys.executable, sys.orig_argv)


def transact_confluent(
    consumer: confluent_kafka.Consumer,
    producer: confluent_kafka.Producer,
    records: list[confluent_kafka.Message],
    sink: str,
) -> None:
    """One transaction; if it cannot be committed it is aborted, and raises."""
    producer.begin_transaction()
    ends: dict[tuple[str, int], int] = {}
    for record in records:
        topic, partition, offset = record.topic(), record.partition(), record.offset()
        assert topic is not None
        assert partition is not None
        assert offset is not None
        ends[topic, partition] = offset + 1
        producer.produce(sink, process(record.value() or b""), partition=partition)
    offsets = [confluent_kafka.TopicPartition(*place, end) for place, end in ends.items()]
    try:
        metadata = consumer.consumer_group_metadata()
        again(lambda: producer.send_offsets_to_transaction(offsets, metadata, 30))
        again(lambda: producer.commit_transaction(30))
    except KafkaException:
        with contextlib.suppress(KafkaException):
            producer.abort_transaction(10)
        raise


def again(step: Callable[[], object]) -> None:
    """Do it, and again where the client says that this may help."""
    for _ in range(20):
        try:
            step()
        except KafkaException as refused:
            error: KafkaError = refused.args[0]
            if not error.retriable():
                raise
        else:
            return
    raise KafkaException(KafkaError(KafkaError._TIMED_OUT))


def main() -> None:
    run = {"ours": run_ours, "confluent": run_confluent}[sys.argv[1]]
    while True:
        try:
            run(*sys.argv[2:6])
        except (ClientError, ApiError, KafkaException, OSError) as error:
            say(repr(error))
            time.sleep(0.2)


def say(why: str) -> None:
    """Note in the log that everything begins again."""
    print(f"{time.strftime('%H:%M:%S')} begins again: {why}", flush=True)


if __name__ == "__main__":
    main()
