"""The user's functions that process records and commits: deserializers and interceptors.

These functions neither fetch nor commit. An interceptor's exception is raised by the poll or commit
that called the interceptor.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Generic, cast

from ...protocol.types import TopicPartition
from ..errors import BadRecord
from ..group_types import OffsetAndMetadata
from ..records import ConsumerRecord
from ..serialization import Deserializer, K, V
from .interceptors import ConsumerInterceptor
from .positions import PartitionState


class UserFunctions(Generic[K, V]):
    """Deserializers and interceptors of one consumer."""

    def __init__(
        self,
        key_deserializer: Deserializer[K] | None,
        value_deserializer: Deserializer[V] | None,
        interceptors: Sequence[ConsumerInterceptor[K, V]],
    ) -> None:
        self.interceptors = list(interceptors)
        self.has_deserializers = key_deserializer is not None or value_deserializer is not None
        self._key_deserializer = key_deserializer
        self._value_deserializer = value_deserializer

    def tell_committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Call `on_commit` of each interceptor."""
        for interceptor in self.interceptors:
            interceptor.on_commit(offsets)

    def deserialize(
        self, state: PartitionState, found: Sequence[ConsumerRecord[bytes, bytes]]
    ) -> list[ConsumerRecord[K, V]]:
        """Deserialize the keys and values in records of one partition.

        If a deserializer fails, return the records before the failed one, and move the position
        back to the failed one, so that the next poll begins with it. Raise BadRecord if the failed
        record is the first.
        """
        read: list[ConsumerRecord[K, V]] = []
        for record in found:
            try:
                read.append(self.read(record))
            except Exception as error:
                state.jump(record.offset, state.position_epoch)
                if not read:
                    raise BadRecord(record.topic_partition, record.offset, error) from error
                break
        return read

    def read(self, record: ConsumerRecord[bytes, bytes]) -> ConsumerRecord[K, V]:
        """Deserialize one record; raise what a deserializer raises."""
        key: Any = record.key
        value: Any = record.value
        if key is not None and self._key_deserializer is not None:
            key = self._key_deserializer(key)
        if value is not None and self._value_deserializer is not None:
            value = self._value_deserializer(value)
        read: Any = record._replace(key=key, value=value)
        return cast("ConsumerRecord[K, V]", read)
