"""What a consumer can ask of topics without reading them: partitions and offsets.

Never moves a position.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from ...protocol.messages.fetch import READ_COMMITTED, READ_UNCOMMITTED
from ...protocol.messages.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from ...protocol.types import TopicPartition
from ..config import ConsumerConfig
from ..errors import ClientClosed
from ..metadata import Metadata
from ..offsets import list_offsets
from ..records import OffsetAndTimestamp

Partition = TopicPartition | tuple[str, int]
DEFAULT_TIMEOUT_MS: Final = 60_000


class Questions:
    """The part of a consumer that only asks."""

    config: ConsumerConfig
    _metadata: Metadata
    _is_closed: bool
    _is_started: bool

    def _check_usable(self) -> None:
        if self._is_closed:
            raise ClientClosed("the consumer is closed")
        if not self._is_started:
            raise ClientClosed("the consumer is not started")

    async def partitions_for(
        self, topic: str, *, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> list[int]:
        """List a topic's partitions; UnknownTopic if it does not exist after `timeout_ms`."""
        self._check_usable()
        await self._metadata.wait_for_topics([topic], timeout_ms)
        return sorted(self._metadata.view.topics[topic].partitions)

    async def beginning_offsets(
        self, partitions: Iterable[Partition], *, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> dict[TopicPartition, int]:
        """Look up the first offset of each partition; does not move positions."""
        wanted = {TopicPartition(*partition): EARLIEST_TIMESTAMP for partition in partitions}
        return await self._listed(wanted, timeout_ms)

    async def end_offsets(
        self, partitions: Iterable[Partition], *, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> dict[TopicPartition, int]:
        """Look up the offset behind the last readable record of each partition.

        That is the high watermark, or under read_committed the last stable offset.
        """
        wanted = {TopicPartition(*partition): LATEST_TIMESTAMP for partition in partitions}
        return await self._listed(wanted, timeout_ms)

    async def _listed(
        self, wanted: Mapping[TopicPartition, int], timeout_ms: int
    ) -> dict[TopicPartition, int]:
        self._check_usable()
        found = await list_offsets(
            self._metadata, wanted, timeout_ms=timeout_ms, isolation_level=self._isolation
        )
        return {partition: listed.offset for partition, listed in found.items()}

    @property
    def _isolation(self) -> int:
        committed = self.config.isolation_level == "read_committed"
        return READ_COMMITTED if committed else READ_UNCOMMITTED

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int], *, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Look up the first record at or after each time, in ms since the epoch.

        None where a partition has none so late.
        """
        self._check_usable()
        wanted = {TopicPartition(*partition): when for partition, when in times.items()}
        found = await list_offsets(
            self._metadata, wanted, timeout_ms=timeout_ms, isolation_level=self._isolation
        )
        return {
            tp: OffsetAndTimestamp(*listed) if listed.offset >= 0 else None
            for tp, listed in found.items()
        }
