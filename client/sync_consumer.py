"""The consumer for ordinary code: the asyncio consumer on a loop in a thread of its own.

Each method runs its twin there and waits here; only iterating keeps something: the records of a
poll that were not handed out yet. Nothing here knows the protocol.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Unpack

from ..protocol.types import TopicPartition
from .config import ConsumerSettings, Servers
from .consumer import consumer as aio_consumer
from .consumer.questions import DEFAULT_TIMEOUT_MS, Partition
from .errors import ClientClosed
from .records import ConsumerRecord, OffsetAndTimestamp, RawRecords
from .sync_loop import SyncClient


class Consumer(SyncClient[aio_consumer.Consumer]):
    """Reads records of topics; see `minikafka.aio.Consumer` for what reading means.

        with Consumer("localhost:9092", auto_offset_reset="earliest") as consumer:
            consumer.subscribe(["flights"])
            for record in consumer:
                print(record.partition, record.offset, record.key, record.value)

    Reaches the cluster when it is made: ConfigError, BootstrapError. For one thread at a time.
    """

    def __init__(
        self, bootstrap_servers: Servers | None = None, **settings: Unpack[ConsumerSettings]
    ) -> None:
        self._iterated: deque[ConsumerRecord] = deque()
        super().__init__("consumer", aio_consumer.Consumer(bootstrap_servers, **settings))

    def assign(self, partitions: Iterable[Partition]) -> None:
        """Read exactly these partitions from now on."""
        wanted = list(partitions)
        self._iterated.clear()
        self._thread.call(lambda: self._twin.assign(wanted))

    def subscribe(self, topics: Sequence[str], *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> None:
        """Read all partitions of these topics from now on, alone (there is no group)."""
        self._iterated.clear()
        self._thread.run(self._twin.subscribe(topics, timeout_ms=timeout_ms))

    def assignment(self) -> list[TopicPartition]:
        """List the partitions being read."""
        return self._thread.call(self._twin.assignment)

    def pause(self, *partitions: Partition) -> None:
        """Leave these partitions out of polls, without losing the position."""
        self._thread.call(lambda: self._twin.pause(*partitions))

    def resume(self, *partitions: Partition) -> None:
        """Include paused partitions again."""
        self._thread.call(lambda: self._twin.resume(*partitions))

    def seek(self, partition: Partition, offset: int) -> None:
        """Go on at `offset`; one outside the log is handled by auto_offset_reset."""
        self._iterated.clear()
        self._thread.call(lambda: self._twin.seek(partition, offset))

    def seek_to_beginning(self, *partitions: Partition) -> None:
        """Go on at the first record of these partitions, or of all."""
        self._iterated.clear()
        self._thread.call(lambda: self._twin.seek_to_beginning(*partitions))

    def seek_to_end(self, *partitions: Partition) -> None:
        """Go on behind the last record of these partitions, or of all."""
        self._iterated.clear()
        self._thread.call(lambda: self._twin.seek_to_end(*partitions))

    def position(self, partition: Partition, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> int:
        """Give the offset of the next record that a poll will return."""
        return self._thread.run(self._twin.position(partition, timeout_ms=timeout_ms))

    def poll(self, timeout_ms: int = 0, max_records: int | None = None) -> list[ConsumerRecord]:
        """Return what has arrived, waiting up to `timeout_ms` for the first record."""
        return self._thread.run(self._twin.poll(timeout_ms, max_records))

    def poll_raw(self, timeout_ms: int = 0) -> list[RawRecords]:
        """Return what has arrived as whole record batches, neither decoded nor checked."""
        return self._thread.run(self._twin.poll_raw(timeout_ms))

    def __iter__(self) -> Iterator[ConsumerRecord]:
        return self

    def __next__(self) -> ConsumerRecord:
        while not self._iterated:
            try:
                self._iterated.extend(self.poll(DEFAULT_TIMEOUT_MS))
            except ClientClosed:
                raise StopIteration from None
        return self._iterated.popleft()

    def partitions_for(self, topic: str, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> list[int]:
        """List a topic's partitions."""
        return self._thread.run(self._twin.partitions_for(topic, timeout_ms=timeout_ms))

    def beginning_offsets(
        self, partitions: Iterable[Partition], *, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> dict[TopicPartition, int]:
        """Look up the first offset of each partition; does not move positions."""
        wanted = list(partitions)
        return self._thread.run(self._twin.beginning_offsets(wanted, timeout_ms=timeout_ms))

    def end_offsets(
        self, partitions: Iterable[Partition], *, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> dict[TopicPartition, int]:
        """Look up the offset behind the last readable record of each partition."""
        wanted = list(partitions)
        return self._thread.run(self._twin.end_offsets(wanted, timeout_ms=timeout_ms))

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int], *, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Look up the first record at or after each time, in ms since the epoch."""
        return self._thread.run(self._twin.offsets_for_times(times, timeout_ms=timeout_ms))

    def high_watermark(self, partition: Partition) -> int | None:
        """Give the high watermark as of the newest fetch; None before the first."""
        return self._thread.call(lambda: self._twin.high_watermark(partition))

    def lag(self, partition: Partition) -> int | None:
        """Count the records between position and high watermark as of the newest fetch."""
        return self._thread.call(lambda: self._twin.lag(partition))
