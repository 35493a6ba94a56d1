"""Functions of the user that see each record on its way out, and its outcome (KIP-42)."""

from collections.abc import Sequence
from typing import Generic, NamedTuple

from ...protocol.records.record_batch import Headers
from ..errors import ClientError
from ..records import RecordMetadata
from ..serialization import K, V


class OutgoingRecord(NamedTuple, Generic[K, V]):
    """A record as it was given to `send`, before it is serialized."""

    topic: str
    value: V | None
    key: K | None
    partition: int | None
    timestamp_ms: int | None
    headers: Headers


class ProducerInterceptor(Generic[K, V]):
    """The base of a user's interceptors; its methods do nothing. They run on the producer's loop.

    In the sync producer `on_send` runs in the thread that sends.
    """

    def on_send(self, record: OutgoingRecord[K, V]) -> OutgoingRecord[K, V]:
        """Give the record to send; several interceptors are called one after the other.

        What it raises, `send` raises, and nothing is sent.
        """
        return record

    def on_acknowledgement(
        self, error: ClientError | None, metadata: RecordMetadata | None
    ) -> None:
        """Hear that one record is acknowledged or failed. Must be quick: nothing else runs."""

    def close(self) -> None:
        """Hear that the producer is closed."""


def intercepted(
    interceptors: Sequence[ProducerInterceptor[K, V]], record: OutgoingRecord[K, V]
) -> OutgoingRecord[K, V]:
    """The record as all interceptors together want it."""
    for interceptor in interceptors:
        record = interceptor.on_send(record)
    return record
