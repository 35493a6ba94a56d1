"""The interface of the user's interceptors: they see each record sent, and its result (KIP-42)."""

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
    """The base class of a user's interceptors; its own methods do nothing.

    The methods run on the producer's loop; in the sync producer `on_send` runs in the thread that
    calls `send`.
    """

    def on_send(self, record: OutgoingRecord[K, V]) -> OutgoingRecord[K, V]:
        """Return the record to send instead; the next interceptor gets the returned record.

        `send` raises an exception of this method, and then nothing is sent.
        """
        return record

    def on_acknowledgement(
        self, error: ClientError | None, metadata: RecordMetadata | None
    ) -> None:
        """Called when a record is acknowledged or has failed. Must be quick: it blocks the loop."""

    def close(self) -> None:
        """Called when the producer is closed."""


def intercepted(
    interceptors: Sequence[ProducerInterceptor[K, V]], record: OutgoingRecord[K, V]
) -> OutgoingRecord[K, V]:
    """Return the record after `on_send` of all interceptors."""
    for interceptor in interceptors:
        record = interceptor.on_send(record)
    return record
