"""A steady writer that remembers when each record was acknowledged: our client, or librdkafka.

Both at their defaults (acks=all, idempotent); a thread each, a record every few milliseconds to
partition 0. What they remember says how long writing stood still, and later what was lost.
"""

import itertools
import threading
import time
from collections.abc import Iterator

import confluent_kafka

from minikafka import Consumer, Producer, TopicPartition

RATE = 200
RECORD_BYTES = 100
SETTLE_SECONDS = 120.0


class Steady:
    """A writer in a thread of its own, from `start` to `stop`."""

    name = ""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic = topic
        self.times: list[float] = []
        """When each acknowledgement came (time.perf_counter)."""
        self.offsets: dict[int, bytes] = {}
        """What was acknowledged at each offset."""
        self.failed: list[str] = []
        self._bootstrap = bootstrap
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self.name)

    def __enter__(self) -> "Steady":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Settle all that was sent, and end."""
        self._stopped.set()
        self._thread.join(SETTLE_SECONDS)

    def wait_for_more(self, count: int, since: float = 0.0, within_seconds: float = 90.0) -> bool:
        """Wait until so many records were acknowledged after a time; False when time is over."""
        until = time.perf_counter() + within_seconds
        while time.perf_counter() < until:
            if len(self.times) >= count and self.times[-count] > since:
                return True
            time.sleep(0.005)
        return False

    def longest_gap(self, since: float, until: float) -> float:
        """Seconds without an acknowledgement, at the worst, between two times."""
        inside = [time for time in self.times if since < time < until]
        return max(b - a for a, b in itertools.pairwise([since, *inside, until]))

    def settled(self, error: object, offset: int, value: bytes) -> None:
        """Take in one delivery report."""
        if error is None:
            self.times.append(time.perf_counter())
            self.offsets[offset] = value
        else:
            self.failed.append(str(error))

    def _values(self) -> Iterator[bytes]:
        start = time.perf_counter()

        def value(number: int) -> bytes:
            time.sleep(max(0.0, start + number / RATE - time.perf_counter()))
            return f"{self.name} {number}".encode().ljust(RECORD_BYTES)

        return map(value, itertools.takewhile(self._goes_on, itertools.count()))

    def _goes_on(self, _: int) -> bool:
        return not self._stopped.is_set()

    def _run(self) -> None:
        raise NotImplementedError


class Ours(Steady):
    """Our own producer."""

    name = "ours"

    def _run(self) -> None:
        with Producer(self._bootstrap, client_id=self.name) as producer:
            for value in self._values():

                def on_delivery(error: object, metadata: object, value: bytes = value) -> None:
                    self.settled(error, getattr(metadata, "offset", -1), value)

                producer.send(self.topic, value, partition=0, on_delivery=on_delivery)


class Librdkafka(Steady):
    """confluent-kafka, unmodified."""

    name = "librdkafka"

    def _run(self) -> None:
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "client.id": self.name,
                "enable.idempotence": True,
                "log_level": 0,
            }
        )

        def on_delivery(error: object, message: confluent_kafka.Message) -> None:
            self.settled(error, message.offset() or 0, message.value() or b"")

        for value in self._values():
            producer.produce(self.topic, value, partition=0, on_delivery=on_delivery)
            producer.poll(0)
        producer.flush(SETTLE_SECONDS)


def lost_and_duplicated(bootstrap: str, topic: str, writers: list[Steady]) -> tuple[int, int]:
    """Read the topic's first partition, and compare it with what was acknowledged."""
    place = TopicPartition(topic, 0)
    log: dict[int, bytes] = {}
    with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        end = consumer.end_offsets([place])[place]
        consumer.assign([place])
        while consumer.position(place) < end:
            for record in consumer.poll(timeout_ms=1000, max_records=20_000):
                log[record.offset] = record.value or b""
    lost = sum(
        log.get(offset) != value for writer in writers for offset, value in writer.offsets.items()
    )
    return lost, len(log) - len(dict.fromkeys(log.values()))
