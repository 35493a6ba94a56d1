"""Dead letters of the sink: rows that cannot be records of their topic go to another topic.

They are written by the producer of the task's other rows, and so in the same transaction where the
sink writes exactly once. Their headers are KIP-1191's, as those of a consumer with retries, so that
`minikafka dlq` reads them. Which rows are refused is found out by rows.py.
"""

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa

from ..client.config import ProducerConfig, configured
from ..client.consumer.retry_headers import DLQ, MESSAGE_BYTES, TRUNCATED
from ..client.producer.accumulator import RECORD_OVERHEAD, checked_size
from ..client.producer.columns import Columns
from ..client.sync_producer import Producer, SyncBatchDelivery
from ..protocol.records.batch_header import HEADER_SIZE
from ..protocol.records.record_batch import Headers
from .cluster import cluster_for
from .sink_options import SinkOptions

OVERHEAD: Final = HEADER_SIZE + RECORD_OVERHEAD
"""The bytes of a batch of one record beside its key, value and headers, at most."""


class DeadLetters:
    """The dead letters of one task."""

    def __init__(
        self, producer: Producer, topic: str, most_bytes: Callable[[str], int], most_sent: int
    ) -> None:
        """`most_bytes` asks for a topic's max.message.bytes; `most_sent` is max.request.size."""
        self._producer = producer
        self._topic = topic
        self._most_bytes = most_bytes
        self._most_sent = most_sent
        self._limits: dict[str, int] = {}

    def limit_of(self, topic: str) -> int:
        """Return how many bytes key, value and headers of a record may have together.

        Raise UnknownTopic if there is no such topic, and asking for it does not create it.
        """
        if topic not in self._limits:
            self._producer.partitions_for(topic)
            self._limits[topic] = min(self._most_sent, self._most_bytes(topic) - OVERHEAD)
        return self._limits[topic]

    def bury(
        self, batch: pa.RecordBatch, refused: Mapping[int, str], topic: str | None
    ) -> SyncBatchDelivery:
        """Write these rows of a batch, each with the reason for which it is refused.

        `topic` is that of every row, or None if each names its own. A row that is too large for
        dead letters too loses its value, and if need be its headers and its key.
        """
        keys: list[bytes | None] = []
        values: list[bytes | None] = []
        headers: list[Headers | None] = []
        now_ms = int(time.time() * 1000)
        limit = self.limit_of(self._topic)
        for row, why in sorted(refused.items()):
            fields = {name: batch.column(name)[row].as_py() for name in batch.schema.names}
            key, value = _bytes(fields.get("key")), _bytes(fields["value"])
            own = [(each["key"] or "", each["value"]) for each in fields.get("headers") or ()]
            told = _story(fields, topic, why, now_ms)
            if _size(key, value, [*own, *told]) > limit:
                value, told = None, [*told, (TRUNCATED, b"true")]
                own = own if _size(key, value, [*own, *told]) <= limit else []
                key = key if _size(key, value, [*own, *told]) <= limit else None
            keys.append(key)
            values.append(value)
            headers.append([*own, *told])
        return self._producer.send_batch(self._topic, Columns(values, keys, headers=headers))


def _story(
    fields: Mapping[str, Any], topic: str | None, why: str, now_ms: int
) -> list[tuple[str, bytes | None]]:
    said = {
        "topic": topic or fields.get("topic") or "",
        "partition": "" if fields.get("partition") is None else str(fields["partition"]),
        "message": why.encode()[:MESSAGE_BYTES].decode(errors="ignore"),
        "exception": "minikafka.spark.rows.RowError",
        "timestamp": str(now_ms),
    }
    return [(DLQ + name, text.encode()) for name, text in said.items() if text]


def _bytes(field: str | bytes | None) -> bytes | None:
    return field.encode() if isinstance(field, str) else field


def _size(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    return checked_size((0, key, value, headers), sys.maxsize) - RECORD_OVERHEAD


def dead_letters_of(options: SinkOptions, producer: Producer) -> DeadLetters | None:
    """Return where a task writes what is refused; None if that fails the task."""
    if options.dead_letters is None:
        return None
    most_sent = configured(ProducerConfig, None, options.client).max_request_size
    most_bytes = cluster_for(options.client).most_bytes
    return DeadLetters(producer, options.dead_letters, most_bytes, most_sent)
