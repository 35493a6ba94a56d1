"""Checks that acknowledged records are in the log: once, in order, at the acknowledged offsets."""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

import confluent_kafka

from minikafka import Consumer, Producer, TopicPartition

RATE = 9000
"""Records a second of each writer: a load that never pauses and leaves room for the brokers."""
BURST_SECONDS = 0.02


@dataclass
class Ledger:
    """The acknowledgements of one writer: partition -> offset -> value."""

    name: str
    acknowledged: defaultdict[int, dict[int, int]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    count: int = 0
    failures: list[str] = field(default_factory=list)

    def note(self, error: object, partition: int, offset: int, value: int) -> None:
        """Take in one delivery report."""
        if error is not None:
            self.failures.append(f"{value}: {error}")
            return
        assert offset not in self.acknowledged[partition], f"offset {offset} was given twice"
        self.acknowledged[partition][offset] = value
        self.count += 1


class Writer:
    """Writes unique increasing numbers to all partitions in turn, until told to stop."""

    def __init__(self, name: str, run: "Callable[[Writer], None]", partitions: int) -> None:
        self.ledger = Ledger(name)
        self.partitions = partitions
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=run, args=(self,), name=name)
        self._thread.start()

    def values(self) -> "list[int]":
        """Wait for the next burst and return its numbers; none when the run is over."""
        if self._stopped.is_set():
            return []
        start = getattr(self, "_start", None)
        if start is None:
            start = self._start = time.monotonic()
            self._next = 0
        due = start + (self._next + 1) / RATE
        time.sleep(max(0.0, due - time.monotonic(), BURST_SECONDS))
        behind = int((time.monotonic() - start) * RATE) - self._next
        burst = list(range(self._next, self._next + min(max(behind, 1), RATE // 10)))
        self._next = burst[-1] + 1
        return burst

    def stop(self) -> Ledger:
        """Wait until everything that was sent is settled."""
        self._stopped.set()
        self._thread.join(120)
        assert not self._thread.is_alive(), f"{self.ledger.name} does not settle"
        return self.ledger


def write_with_ours(bootstrap: str, topic: str) -> Callable[[Writer], None]:
    """Write through our own producer."""

    def run(writer: Writer) -> None:
        ledger = writer.ledger
        with Producer(bootstrap, client_id="ours") as producer:
            while burst := writer.values():
                for value in burst:

                    def on_delivery(error: object, metadata: object, value: int = value) -> None:
                        partition = getattr(metadata, "partition", -1)
                        ledger.note(error, partition, getattr(metadata, "offset", -1), value)

                    producer.send(
                        topic,
                        b"ours %d" % value,
                        partition=value % writer.partitions,
                        on_delivery=on_delivery,
                    )

    return run


def write_with_confluent(bootstrap: str, topic: str) -> Callable[[Writer], None]:
    """Write through confluent-kafka."""

    def run(writer: Writer) -> None:
        ledger = writer.ledger
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "queue.buffering.max.messages": 1_000_000,
                "log_level": 0,
            }
        )

        def on_delivery(error: object, message: confluent_kafka.Message) -> None:
            value = int((message.value() or b"").split()[1])
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            ledger.note(error, partition, offset, value)

        while burst := writer.values():
            for value in burst:
                producer.produce(
                    topic,
                    b"confluent %d" % value,
                    partition=value % writer.partitions,
                    on_delivery=on_delivery,
                )
            producer.poll(0)
        assert producer.flush(100) == 0

    return run


def check(bootstrap: str, topic: str, partitions: int, ledgers: list[Ledger]) -> None:
    """Read everything back and compare it with what was acknowledged."""
    log = read_all(bootstrap, topic, partitions)
    for ledger in ledgers:
        assert ledger.failures == []
        for partition in range(partitions):
            mine = [
                (offset, int(number))
                for offset, value in log[partition]
                for name, _, number in [value.decode().partition(" ")]
                if name == ledger.name
            ]
            found = dict(mine)
            missing = {
                offset: value
                for offset, value in ledger.acknowledged[partition].items()
                if found.get(offset) != value
            }
            assert missing == {}, f"{ledger.name}: acknowledged, but not in the log"
            twice = {value: n for value, n in Counter(v for _, v in mine).items() if n > 1}
            assert twice == {}, f"{ledger.name}: in the log more than once"
            values = [value for _, value in mine]
            assert values == sorted(values), f"{ledger.name}: out of order in {partition}"


def read_all(bootstrap: str, topic: str, partitions: int) -> dict[int, list[tuple[int, bytes]]]:
    """Read every record of a topic: partition -> (offset, value), in the order they came."""
    log: dict[int, list[tuple[int, bytes]]] = {p: [] for p in range(partitions)}
    places = [TopicPartition(topic, p) for p in range(partitions)]
    with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        ends = consumer.end_offsets(places)
        consumer.assign(places)
        while any(consumer.position(place) < ends[place] for place in places):
            for record in consumer.poll(timeout_ms=1000, max_records=20_000):
                log[record.partition].append((record.offset, record.value or b""))
    return log
