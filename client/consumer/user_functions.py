"""The user's own functions that records pass through: deserializers and interceptors.

Nothing here reads or commits. What an interceptor raises, the call under way raises.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
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
        """Tell the interceptors what was committed."""
        for interceptor in self.interceptors:
            interceptor.on_commit(offsets)

    def deserialize(
        self, state: PartitionState, found: Sequence[ConsumerRecord[bytes, bytes]]
    ) -> list[ConsumerRecord[K, V]]:
        """Deserialize the keys and values in records of one partition.

        Ends before a record whose deserializer fails, and puts the position back there: the next
        poll begins with that record. BadRecord if it is the first.
        """
        read: list[ConsumerRecord[K, V]] = []
        with self._failing(state, found, read):
            for record in found:
                read.append(self._deserialized(record))
        return read

    @contextlib.contextmanager
    def _failing(
        self, state: PartitionState, found: Sequence[ConsumerRecord], read: Sequence[object]
    ) -> Iterator[None]:
        with contextlib.ExitStack() as stack:

            @stack.push
            def on_exit(kind: object, error: BaseException | None, trace: object) -> bool:
                # A deserializer may raise anything; only an Exception is about the record.
                if not isinstance(error, Exception):
                    return False
                bad = found[len(read)]
                state.jump(bad.offset, state.position_epoch)
                if not read:
                    raise BadRecord(bad.topic_partition, bad.offset, error) from error
                return True

            yield

    def _deserialized(self, record: ConsumerRecord[bytes, bytes]) -> ConsumerRecord[K, V]:
        key: Any = record.key
        value: Any = record.value
        if key is not None and self._key_deserializer is not None:
            key = self._key_deserializer(key)
        if value is not None and self._value_deserializer is not None:
            value = self._value_deserializer(value)
        read: Any = record._replace(key=key, value=value)
        return cast("ConsumerRecord[K, V]", read)
