"""Connections to a cluster, kept for as long as the Python worker lives.

Spark reuses its workers, so a task finds the clients that an earlier one opened. Owns clients and
their settings; what to read or write is decided elsewhere. One thread at a time, as in a worker.
"""

import atexit
import time
from collections.abc import Iterator, Mapping
from typing import Final

from ..client.records import RawRecords
from ..client.sync import Consumer, Producer
from ..protocol.types import TopicPartition
from .offsets import DataLoss
from .options import Offsets

MOST_CLUSTERS: Final = 8
POLL_MS: Final = 1000
SILENCE_SECONDS: Final = 120.0
"""How long a read waits for records that are known to be there (kafkaConsumer.pollTimeoutMs)."""
DEFAULTS: Final = {"client.id": "minikafka-spark"}
SOURCE: Final = {
    "auto.offset.reset": "none",
    "fetch.max.bytes": str(32 << 20),
    "max.partition.fetch.bytes": str(8 << 20),
}

Partitions = Mapping[str, tuple[int, ...]]
_clusters: dict[tuple[tuple[str, str], ...], "Cluster"] = {}


def cluster_for(settings: Mapping[str, str]) -> "Cluster":
    """Find or make the clients for these settings."""
    key = tuple(sorted(settings.items()))
    cluster = _clusters.pop(key, None) or Cluster(settings)
    _clusters[key] = cluster
    if len(_clusters) > MOST_CLUSTERS:
        _clusters.pop(next(iter(_clusters))).close()
    return cluster


@atexit.register
def _close_all() -> None:
    while _clusters:
        _clusters.popitem()[1].close()


class Cluster:
    """The clients of one worker for one set of settings, opened on use."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = {**DEFAULTS, **settings}
        self._consumer: Consumer | None = None
        self._producer: Producer | None = None

    def producer(self) -> Producer:
        """Give the producer; acks=all unless the settings say otherwise."""
        if self._producer is None:
            self._producer = Producer.from_config(self._settings)
        return self._producer

    def close(self) -> None:
        """Close what was opened."""
        if self._consumer is not None:
            self._consumer.close()
        if self._producer is not None:
            self._producer.close()
        self._consumer = self._producer = None

    def partitions_of(self, topics: tuple[str, ...]) -> Partitions:
        """List the partitions of topics; UnknownTopic names one that does not exist."""
        return {topic: tuple(self._reader().partitions_for(topic)) for topic in topics}

    def earliest(self, partitions: Partitions) -> Offsets:
        """Ask for the first readable offset of each partition."""
        return _nested(self._reader().beginning_offsets(_flat(partitions)))

    def latest(self, partitions: Partitions) -> Offsets:
        """Ask for the offset after the last visible record of each partition."""
        return _nested(self._reader().end_offsets(_flat(partitions)))

    def read(self, partition: TopicPartition, start: int, end: int) -> Iterator[RawRecords]:
        """Read whole batches until `end` is reached.

        OffsetOutOfRange when `start` is no longer (or not yet) in the log, DataLoss when nothing
        arrives although there should be records.
        """
        reader = self._reader()
        reader.assign([partition])
        reader.seek(partition, start)
        position = start
        heard = time.monotonic()
        try:
            while position < end:
                for raw in reader.poll_raw(timeout_ms=POLL_MS):
                    heard = time.monotonic()
                    position = raw.next_position
                    yield raw
                    if position >= end:
                        break
                if time.monotonic() - heard > SILENCE_SECONDS:
                    topic, index = partition
                    raise DataLoss(
                        f"{topic}-{index}: nothing arrived from offset {position} on for "
                        f"{SILENCE_SECONDS:.0f} s, though the log should reach {end}"
                    )
        finally:
            reader.assign([])

    def _reader(self) -> Consumer:
        if self._consumer is None:
            self._consumer = Consumer.from_config({**SOURCE, **self._settings})
        return self._consumer


def _flat(partitions: Partitions) -> list[TopicPartition]:
    return [
        TopicPartition(topic, index) for topic, indexes in partitions.items() for index in indexes
    ]


def _nested(offsets: Mapping[TopicPartition, int]) -> Offsets:
    found: Offsets = {}
    for (topic, partition), offset in offsets.items():
        found.setdefault(topic, {})[partition] = offset
    return found
