"""Asks a cluster where logs end, and for the size and age of what a query has not read.

This module owns its clients and asks; lag.py computes the lag. It is used by one thread at a time.
"""

import logging
import time
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from ..client.admin.sync_admin import Admin
from ..client.config import AdminConfig, ConsumerConfig, configured
from ..client.errors import AdminError, OffsetOutOfRange
from ..client.sync_consumer import Consumer
from ..protocol.types import TopicPartition
from ..runtime.config import settings_of
from ..runtime.errors import MinikafkaError
from .options import Offsets
from .worker_clients import known_to

log = logging.getLogger(__name__)

ANSWER_MS: Final = 5_000
"""The time limit for one request to the cluster."""
OLDEST_SECONDS: Final = 5.0
"""The time limit for reading the first unread records of all partitions."""
CONSUMER: Final = {
    "client.id": "minikafka-spark-lag",
    "auto.offset.reset": "none",
    "max.poll.records": "1",
    # A whole batch is returned however small this limit is, and more than one is not wanted.
    "max.partition.fetch.bytes": "4096",
}
ADMIN: Final = {
    "client.id": "minikafka-spark-lag",
    "default.api.timeout.ms": str(ANSWER_MS),
}


class LogEnd(NamedTuple):
    """The bounds of one partition's log, as the cluster reports them."""

    first: int
    latest: int
    """The end of the log for a reader of this isolation level."""
    size_bytes: int | None
    """The size of the whole log as stored; None if the cluster does not report it."""
    oldest_unread_ms: int | None
    """Timestamp of the first record that the query has not read; None if it is not known."""


class LogEnds:
    """Measures logs with its own clients, opened on first use.

    Raises ConfigError for a bad setting.
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        admin_only = {row.key for row in settings_of(AdminConfig)} - {
            row.key for row in settings_of(ConsumerConfig)
        }
        # Each client ignores the other's settings, so a misspelt name must be refused here.
        configured(ConsumerConfig, None, {k: v for k, v in settings.items() if k not in admin_only})
        self._settings = settings
        self._clients: tuple[Admin, Consumer] | None = None

    def close(self) -> None:
        """Close the clients that were opened."""
        if self._clients is not None:
            for client in self._clients:
                client.close()
        self._clients = None

    def measure(self, positions: Offsets) -> dict[TopicPartition, LogEnd]:
        """Measure the partitions in `positions`, the offsets up to which the query has read them.

        Asks for leaders (describe topics), ends (ListOffsets), sizes (DescribeLogDirs), and one
        batch of each partition that is behind, for its age. Partitions that this cluster does not
        have, or that have no leader now, are left out. Raises the errors of the clients.
        """
        admin, consumer = self._opened()
        leaders = {
            partition: leader
            for partition, leader in _leaders(admin, positions).items()
            if partition.partition in positions[partition.topic]
        }
        if not leaders:
            return {}
        first = consumer.beginning_offsets(leaders, timeout_ms=ANSWER_MS)
        latest = consumer.end_offsets(leaders, timeout_ms=ANSWER_MS)
        unread: dict[TopicPartition, int] = {}
        for partition in leaders:
            position = max(positions[partition.topic][partition.partition], first[partition])
            if position < latest[partition]:
                unread[partition] = position
        sizes = _sizes(admin, leaders)
        oldest = _oldest(consumer, unread)
        return {
            partition: LogEnd(
                first[partition], latest[partition], sizes.get(partition), oldest.get(partition)
            )
            for partition in leaders
        }

    def _opened(self) -> tuple[Admin, Consumer]:
        if self._clients is None:
            admin = Admin.from_config({**known_to(AdminConfig, self._settings), **ADMIN})
            try:
                settings = known_to(ConsumerConfig, self._settings)
                consumer = Consumer.from_config({**settings, **CONSUMER})
            except BaseException:
                admin.close()
                raise
            self._clients = admin, consumer
        return self._clients


def _leaders(admin: Admin, topics: Iterable[str]) -> dict[TopicPartition, int]:
    """Return the leaders of partitions that have one; skip topics with an error."""
    names = list(topics)
    try:
        described = admin.describe_topics(names)
    except AdminError as error:
        left = [name for name in names if name not in error.errors]
        return _leaders(admin, left) if len(left) < len(names) else {}
    return {
        TopicPartition(name, each.partition): each.leader_id
        for name, topic in described.items()
        for each in topic.partitions
        if each.leader_id >= 0
    }


def _sizes(admin: Admin, leaders: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return each log's size at its leader; brokers that do not answer are left out."""
    found: dict[TopicPartition, int] = {}
    for broker in sorted({*leaders.values()}):
        led = [partition for partition, leader in leaders.items() if leader == broker]
        try:
            described = admin.describe_log_dirs([broker], led)
        except MinikafkaError as error:  # not allowed, too old or just gone
            log.debug("broker %s does not tell the sizes of its logs: %s", broker, error)
            continue
        for directory in described[broker].values():
            for partition, replica in directory.replicas.items():
                if not replica.is_future:
                    found[partition] = replica.size
    return found


def _oldest(consumer: Consumer, unread: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return the timestamp, in ms, of the first record at or after each offset.

    Partitions whose record does not arrive in time, or has no timestamp, are left out.
    """
    found: dict[TopicPartition, int] = {}
    awaited = dict(unread)
    deadline = time.monotonic() + OLDEST_SECONDS
    consumer.assign(list(unread))
    try:
        for partition, offset in unread.items():
            consumer.seek(partition, offset)
        while awaited and time.monotonic() < deadline:
            for record in consumer.poll(500):
                partition = TopicPartition(record.topic, record.partition)
                awaited.pop(partition, None)
                consumer.pause(partition)
                if record.timestamp_ms >= 0:
                    found[partition] = record.timestamp_ms
    except OffsetOutOfRange:
        pass  # deleted at this moment; the next measurement shows it
    finally:
        consumer.assign([])
    return found
