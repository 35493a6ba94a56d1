"""One client process of the workload: a writer or a reader, with our client or librdkafka.

    python -m tests.chaos.client write ours NAME HISTORY BOOTSTRAP FIRST_VALUE
    python -m tests.chaos.client read librdkafka NAME HISTORY BOOTSTRAP

Writes what it does to its history (see history.py) and ends when its standard input does: a writer
after all it sent is settled, a reader after it has read up to the offsets it is given there.
"""

import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka

from minikafka import Consumer, Producer, TopicPartition
from minikafka.client.errors import ClientError, DeliveryFailed
from minikafka.protocol.errors import ErrorCode

TOPIC = "chaos"
PARTITIONS = 4
BURST_SECONDS = 0.02
"""Seconds between bursts of one record for every partition."""
RECORD_BYTES = 100
TOO_LARGE_BYTES = 120_000
MAX_MESSAGE_BYTES = 100_000
TOO_LARGE_EVERY = 100
"""Bursts between records that the cluster must refuse: their values may never be read."""
SETTLE_SECONDS = 130.0
READ_SECONDS = 60.0


class Journal:
    """The history of this client; a line is in the file when the call returns."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, kind: str, *words: object) -> None:
        """Append a line."""
        os.write(self._fd, f"{kind} {' '.join(map(str, words))}\n".encode())

    def timed(self, kind: str, *words: object) -> None:
        """Append a line with the time."""
        self.write(kind, time.monotonic_ns(), *words)

    def settled(self, partition: int, value: int, offset: int, why: str, refused: bool) -> None:
        """A send ended; `why` is empty where it was acknowledged."""
        if not why:
            self.timed("a", partition, value, offset)
        else:
            self.timed("f" if refused else "u", partition, value, why.replace("\n", " "))


def payload(value: int, size: int = RECORD_BYTES) -> bytes:
    return b"%d " % value + bytes(size)


def value_of(record: bytes) -> int:
    return int(record.partition(b" ")[0])


def bursts(first_value: int) -> Iterator[range]:
    """Give values at a steady rate until standard input ends."""
    value, due = first_value, time.monotonic()
    while not select.select([sys.stdin], [], [], max(0.0, due - time.monotonic()))[0]:
        yield range(value, value + PARTITIONS)
        value += PARTITIONS
        due += BURST_SECONDS


def write_with_ours(name: str, journal: Journal, bootstrap: str, first_value: int) -> None:
    def settle(partition: int, value: int) -> Callable[[object, object], None]:
        def on_delivery(error: object, metadata: object) -> None:
            refused = (
                isinstance(error, DeliveryFailed)
                and error.error.code is ErrorCode.MESSAGE_TOO_LARGE
            )
            why = "" if error is None else f"{type(error).__name__} {error}"
            journal.settled(partition, value, getattr(metadata, "offset", -1), why, refused)

        return on_delivery

    producer = _patiently(lambda: Producer(bootstrap, client_id=name, linger_ms=0))
    if producer is None:
        return
    for number, burst in enumerate(bursts(first_value)):
        for value in burst:
            partition = value % PARTITIONS
            journal.timed("i", partition, value)
            size = RECORD_BYTES
            if value == burst[0] and number % TOO_LARGE_EVERY == TOO_LARGE_EVERY - 1:
                size = TOO_LARGE_BYTES
            send = settle(partition, value)
            try:
                producer.send(TOPIC, payload(value, size), partition=partition, on_delivery=send)
            except ClientError as error:
                journal.settled(partition, value, -1, str(error), refused=False)
    producer.close(int(SETTLE_SECONDS * 1000))


def write_with_librdkafka(name: str, journal: Journal, bootstrap: str, first_value: int) -> None:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": name,
            "enable.idempotence": True,
            "log_level": 0,
        }
    )

    def on_delivery(error: object, message: confluent_kafka.Message) -> None:
        partition, offset = message.partition(), message.offset()
        why = "" if error is None else str(error)
        where = -1 if offset is None else offset
        journal.settled(partition or 0, value_of(message.value() or b""), where, why, False)

    for burst in bursts(first_value):
        for value in burst:
            partition = value % PARTITIONS
            journal.timed("i", partition, value)
            producer.produce(TOPIC, payload(value), partition=partition, on_delivery=on_delivery)
        producer.poll(0)
    producer.flush(SETTLE_SECONDS)


def _patiently(make: Callable[[], Producer]) -> Producer | None:
    """Try until there is a cluster to reach, or nothing more to do."""
    while not select.select([sys.stdin], [], [], 0)[0]:
        try:
            return make()
        except ClientError:
            continue
    return None


class Ends:
    """The end offsets for a reader, unknown until they come on standard input."""

    def __init__(self) -> None:
        self._ends: dict[int, int] | None = None
        self._until = 0.0

    def reached(self, positions: dict[int, int]) -> bool:
        """Is everything read, or time over?"""
        if self._ends is None and select.select([sys.stdin], [], [], 0)[0]:
            words = (word.partition(":") for word in sys.stdin.readline().split())
            self._ends = {int(partition): int(end) for partition, _, end in words}
            self._until = time.monotonic() + READ_SECONDS
        return self._ends is not None and (
            all(positions[partition] >= end for partition, end in self._ends.items())
            or time.monotonic() > self._until
        )


def read_with_ours(name: str, journal: Journal, bootstrap: str) -> None:
    positions = dict.fromkeys(range(PARTITIONS), 0)
    ends = Ends()
    while not ends.reached(positions):
        try:
            with Consumer(bootstrap, client_id=name, auto_offset_reset="none") as consumer:
                _read_ours(consumer, journal, positions, ends)
        except ClientError as error:
            # Nobody to be reached is no anomaly; a position that is gone is one.
            if "Offset" in type(error).__name__:
                journal.timed("e", type(error).__name__, error)


def _read_ours(consumer: Consumer, journal: Journal, positions: dict[int, int], ends: Ends) -> None:
    places = {TopicPartition(TOPIC, partition): partition for partition in positions}
    consumer.assign(places)
    for place, partition in places.items():
        consumer.seek(place, positions[partition])
        journal.write("s", partition, positions[partition])
    while not ends.reached(positions):
        found: dict[int, list[str]] = {}
        for record in consumer.poll(timeout_ms=200):
            pair = f"{record.offset}:{value_of(record.value or b'')}"
            found.setdefault(record.partition, []).append(pair)
            positions[record.partition] = record.offset + 1
        for partition, pairs in found.items():
            journal.timed("r", partition, *pairs)


def read_with_librdkafka(name: str, journal: Journal, bootstrap: str) -> None:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": name,
            "group.id": name,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "log_level": 0,
        }
    )
    positions = dict.fromkeys(range(PARTITIONS), 0)
    ends = Ends()
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, p, 0) for p in positions])
    for partition in positions:
        journal.write("s", partition, 0)
    while not ends.reached(positions):
        found: dict[int, list[str]] = {}
        for message in consumer.consume(500, 0.2):
            error, where, offset = message.error(), message.partition(), message.offset()
            if error is not None:
                if error.code() == confluent_kafka.KafkaError._AUTO_OFFSET_RESET:
                    journal.timed("e", where, str(error).replace("\n", " "))
                continue
            assert where is not None
            assert offset is not None
            found.setdefault(where, []).append(f"{offset}:{value_of(message.value() or b'')}")
            positions[where] = offset + 1
        for partition, pairs in found.items():
            journal.timed("r", partition, *pairs)
    consumer.close()


def main() -> None:
    """Run the client that the command line names."""
    role, kind, name, history, bootstrap, *rest = sys.argv[1:]
    journal = Journal(Path(history))
    if role == "write":
        write = write_with_ours if kind == "ours" else write_with_librdkafka
        write(name, journal, bootstrap, int(rest[0]))
    else:
        read = read_with_ours if kind == "ours" else read_with_librdkafka
        read(name, journal, bootstrap)


if __name__ == "__main__":
    main()
