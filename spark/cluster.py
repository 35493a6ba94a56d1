"""Connections to a cluster, kept for as long as the Python worker lives.

Spark reuses its workers, so a task finds the clients that an earlier task opened. This module keeps
clients and their settings; other modules decide what to read or write. Only one thread at a time
may use a `Cluster`; a worker has only one.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import monotonic, sleep
from typing import Final, TypeVar

from ..client.admin.config_types import ConfigResource
from ..client.admin.sync_admin import Admin
from ..client.admin.topic_types import TopicDescription
from ..client.config import AdminConfig
from ..client.errors import (
    AdminError,
    BootstrapError,
    ClientError,
    ConnectError,
    ConnectionLost,
    LogTruncated,
    OffsetOutOfRange,
    RequestTimedOut,
)
from ..client.records import RawRecords
from ..client.sync_consumer import Consumer
from ..client.sync_producer import Producer
from ..protocol.errors import ErrorCode, ProtocolError
from ..protocol.messages.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from ..protocol.types import TopicPartition
from .offsets import DataLoss
from .options import Offsets
from .source_options import Patience
from .worker_clients import WorkerClients, known_to

POLL_MS: Final = 1000
SUSPICIOUS_SECONDS: Final = 5.0
"""After this time without records, a read asks whether the log still reaches the planned end."""
MISSING_SECONDS: Final = 5.0
"""The time for which a missing topic is asked for again, because a broker may not know it yet."""
DEFAULTS: Final = {
    "client.id": "minikafka-spark",
    # Workers live long, so a partition added to a topic must become known soon.
    "metadata.max.age.ms": "10000",
}
SOURCE: Final = {
    "auto.offset.reset": "none",
    "enable.auto.commit": "false",
    "fetch.max.bytes": str(32 << 20),
    "max.partition.fetch.bytes": str(8 << 20),
    # The records of a range exist. A fetch that waits beyond the range's end is over when the next
    # one begins.
    "fetch.max.wait.ms": "50",
}
SINK: Final = {
    # Rows come in tens of thousands, and larger batches cost client and broker less for each.
    "batch.size": str(256 << 10),
}
MOST_BYTES: Final = "max.message.bytes"
UNKNOWN_TOPIC: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
DEFAULT_MOST_BYTES: Final = 1_048_588
"""The default of Kafka's brokers, where one does not say it."""
ASKING: Final = {"default.api.timeout.ms": "15000", "bootstrap.timeout.ms": "10000"}
UNANSWERED: Final = (RequestTimedOut, ConnectError, ConnectionLost, BootstrapError)

T = TypeVar("T")

Partitions = Mapping[str, Sequence[int]]
_clusters: "WorkerClients[tuple[Patience, tuple[tuple[str, str], ...]], Cluster]" = WorkerClients()
USUAL: Final = Patience()


def cluster_for(settings: Mapping[str, str], patience: Patience = USUAL) -> "Cluster":
    """Find or make the clients for these settings; a forked process gets clients of its own."""
    key = (patience, tuple(sorted(settings.items())))
    return _clusters.get(key, lambda: Cluster(settings, patience))


class Cluster:
    """The clients of one worker for one set of settings, opened on use."""

    def __init__(self, settings: Mapping[str, str], patience: Patience = USUAL) -> None:
        self._settings = {**DEFAULTS, **settings}
        self._patience = patience
        self._isolation = int(settings.get("isolation.level") == "read_committed")
        self._admin: Admin | None = None
        self._consumer: Consumer | None = None
        self._producer: Producer | None = None
        self._reads = 0

    def close(self) -> None:
        """Close the clients that were opened."""
        for client in (self._admin, self._consumer, self._producer):
            if client is not None:
                client.close()
        self._admin = self._consumer = self._producer = None

    def producer(self) -> Producer:
        """Return the producer, opened on first use; acks=all unless the settings say otherwise."""
        if self._producer is None:
            self._producer = Producer.from_config({**SINK, **self._settings})
        return self._producer

    def describe(
        self, topics: Sequence[str], expected: Partitions | None = None
    ) -> dict[str, TopicDescription]:
        """Ask the cluster, not a cache, for topics; those that do not exist are left out.

        If a topic or partition in `expected` is missing (by default, if a topic is), ask again for
        a while, because the broker that answered may be behind.
        """
        wanted = dict.fromkeys(topics, ()) if expected is None else expected
        deadline = monotonic() + MISSING_SECONDS
        while True:
            found = self._described(topics)
            complete = all(
                name in found and set(indexes) <= set(_indexes(found[name]))
                for name, indexes in wanted.items()
                if name in topics
            )
            if complete or monotonic() > deadline:
                return found
            sleep(0.1)

    def most_bytes(self, topic: str) -> int:
        """Ask for the largest batch that a topic takes, in bytes.

        If it is missing, ask again for a while: a broker may not know yet of one just created.
        """
        resource = ConfigResource.topic(topic)
        deadline = monotonic() + MISSING_SECONDS
        while True:
            try:
                told = self._ask(lambda a: a.describe_configs([resource], keys=[MOST_BYTES]))
            except AdminError as error:
                answers = error.errors.values()
                is_missing = all(each.code == UNKNOWN_TOPIC for each in answers)
                if not is_missing or monotonic() > deadline:
                    raise
                sleep(0.1)
            else:
                return int(told[resource][MOST_BYTES].value or DEFAULT_MOST_BYTES)

    def topics_matching(self, pattern: re.Pattern[str]) -> list[str]:
        """List the topics whose names contain a match of the pattern."""
        internal = self._settings.get("exclude.internal.topics", "true").lower() == "false"
        listed = self._ask(lambda admin: admin.list_topics(include_internal=internal))
        return [topic.name for topic in listed if pattern.search(topic.name)]

    def earliest(self, partitions: Partitions) -> Offsets:
        """Ask for the first readable offset of each partition."""
        return self.at_times(_everywhere(partitions, EARLIEST_TIMESTAMP))

    def latest(self, partitions: Partitions) -> Offsets:
        """Ask for the offset after the last visible record of each partition."""
        return self.at_times(_everywhere(partitions, LATEST_TIMESTAMP))

    def at_times(self, times_ms: Offsets) -> Offsets:
        """Ask for the offset of the first record at or after a time in each partition.

        It is -1 if there is no such record. Under read_committed nothing at or after the first open
        transaction is seen.
        """
        asked = {
            TopicPartition(t, p): time_ms for t, by in times_ms.items() for p, time_ms in by.items()
        }
        answers = self._ask(lambda a: a.list_offsets(asked, isolation_level=self._isolation))
        found: Offsets = {topic: {} for topic in times_ms}
        for (topic, partition), listed in answers.items():
            found[topic][partition] = listed.offset
        return found

    def read(self, partition: TopicPartition, start: int, end: int) -> Iterator[RawRecords]:
        """Read whole batches until `end` is reached; one read at a time.

        Raises OffsetOutOfRange if the log does not hold `start` any more, or not yet, LogTruncated
        if its records were replaced, and DataLoss if the log no longer reaches `end`. Raises
        TimeoutError if the log reaches `end` but no records arrive.
        """
        reader = self._reader()
        self._reads += 1
        this = self._reads
        reader.assign([partition])
        reader.seek(partition, start)
        reader.resume(partition)
        position = start
        heard = monotonic()
        try:
            while position < end:
                arrived = reader.poll_raw(timeout_ms=POLL_MS)
                for raw in arrived:
                    position = raw.next_position
                    yield raw
                    if position >= end:
                        return
                if arrived:
                    heard = monotonic()
                else:
                    self._check_silence(partition, position, end, monotonic() - heard)
        except (OffsetOutOfRange, LogTruncated):
            raise  # The error is the log's, and the consumer can still be used.
        except (TimeoutError, ClientError, ProtocolError):
            # The next read begins without the broken consumer, whatever the error was.
            if self._consumer is reader:
                self._consumer = None
            reader.close()
            raise
        finally:
            # A read that was left unfinished may end after the next one began. Its fetch beyond the
            # end is left to time out, because cancelling it would cost the connection.
            if self._reads == this and self._consumer is reader:
                reader.pause(partition)

    def _check_silence(
        self, partition: TopicPartition, position: int, end: int, silent_seconds: float
    ) -> None:
        if silent_seconds < min(SUSPICIOUS_SECONDS, self._patience.poll_timeout_ms / 1000):
            return
        topic, index = partition
        where = {topic: (index,)}
        described = self.describe([topic], where)
        if topic not in described or index not in _indexes(described[topic]):
            raise DataLoss(f"{topic}-{index} is gone, and was to be read from {position} to {end}")
        last = self.latest(where)[topic][index]
        if last < end:
            raise DataLoss(f"{topic}-{index} now ends at {last}, and was to be read to {end}")
        most_ms = self._patience.poll_timeout_ms
        if silent_seconds * 1000 > most_ms:
            raise TimeoutError(
                f"{topic}-{index}: nothing arrived from offset {position} on for {most_ms} ms "
                f"(kafkaConsumer.pollTimeoutMs), though the log reaches {last}"
            )

    def _described(self, topics: Sequence[str]) -> dict[str, TopicDescription]:
        try:
            return self._ask(lambda admin: admin.describe_topics(topics))
        except AdminError as error:
            if any(answer.code != UNKNOWN_TOPIC for answer in error.errors.values()):
                raise
            known = [name for name in topics if name not in error.errors]
        return self._described(known) if known else {}

    def _reader(self) -> Consumer:
        if self._consumer is None:
            self._consumer = Consumer.from_config({**SOURCE, **self._settings})
        return self._consumer

    def _ask(self, question: Callable[[Admin], T]) -> T:
        """Ask the admin client, and ask again if no broker answers, because one may have stopped.

        Raise the client's error after the retries of `patience`.
        """
        left = self._patience.retries
        while True:
            try:
                return question(self._asking())
            except UNANSWERED:
                if left == 0:
                    raise
                left -= 1
                sleep(self._patience.retry_interval_ms / 1000)

    def _asking(self) -> Admin:
        if self._admin is None:
            self._admin = Admin.from_config({**ASKING, **known_to(AdminConfig, self._settings)})
        return self._admin


def _everywhere(partitions: Partitions, timestamp: int) -> Offsets:
    return {topic: dict.fromkeys(by, timestamp) for topic, by in partitions.items()}


def _indexes(topic: TopicDescription) -> list[int]:
    return [partition.partition for partition in topic.partitions]
