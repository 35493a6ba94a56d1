"""The interface of the user's interceptors: they see polled records and committed offsets.

Interceptors neither fetch records nor commit offsets.
"""

from collections.abc import Mapping
from typing import Generic

from ...protocol.types import TopicPartition
from ..group_types import OffsetAndMetadata
from ..records import ConsumerRecord
from ..serialization import K, V


class ConsumerInterceptor(Generic[K, V]):
    """The base class of interceptors; override what you need.

    An exception of a method is raised by the `poll` or `commit` that called it.
    """

    def on_consume(self, records: list[ConsumerRecord[K, V]]) -> list[ConsumerRecord[K, V]]:
        """Return the records that the poll returns instead of `records`."""
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Called with the offsets of each successful commit."""
