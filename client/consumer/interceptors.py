"""Functions of the user that see records before a poll returns them, and commits once made.

A contract only; nothing here reads or commits.
"""

from collections.abc import Mapping
from typing import Generic

from ...protocol.types import TopicPartition
from ..group_types import OffsetAndMetadata
from ..records import ConsumerRecord
from ..serialization import K, V


class ConsumerInterceptor(Generic[K, V]):
    """Subclass it and override what you want to see. What it raises, the call under way raises."""

    def on_consume(self, records: list[ConsumerRecord[K, V]]) -> list[ConsumerRecord[K, V]]:
        """Return the records that a poll shall return instead of `records`."""
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Hear which offsets were committed."""
