"""Deletes committed offsets that are unused for the retention time or belong to deleted topics.

One deadline on the timer wheel serves all groups. `group.deletion` decides what to delete.
"""

import logging
from collections.abc import Callable, Iterator, Sequence

from ...protocol.coordinator_records import GroupMetadataRecord, OffsetCommitRecord
from ...protocol.errors import ErrorCode
from ...runtime.runtime import Runtime
from ..deadlines import Deadline, Deadlines
from .group import deletion
from .group.config import GroupConfig
from .group.state import GroupsState
from .shard import Done, Shard
from .shards import Shards

GroupShard = Shard[GroupsState]
AppendRecord = OffsetCommitRecord | GroupMetadataRecord
Append = Callable[[GroupShard, Sequence[AppendRecord], Done], bool]

MINUTE_MS = 60_000
BYTES_AT_ONCE = 128 << 10
"""The most bytes of tombstones in one batch, well below a usual max.message.bytes."""
RECORD_BYTES = 32
"""The most bytes that a tombstone takes besides the names in its key."""

log = logging.getLogger(__name__)


class OffsetUpkeep:
    """Checks the groups that this broker coordinates at intervals, and deletes old offsets."""

    def __init__(
        self,
        runtime: Runtime,
        deadlines: Deadlines,
        config: GroupConfig,
        shards: Shards[GroupsState],
        append: Append,
    ) -> None:
        """`append` writes records and replays them; it returns False if they were refused."""
        self._runtime = runtime
        self._deadlines = deadlines
        self._config = config
        self._shards = shards
        self._append = append
        self._deadline: Deadline | None = None

    def begin(self) -> None:
        """Start the checks, unless they are running already."""
        if self._deadline is None:
            self._expire_later()

    def close(self) -> None:
        """Stop the checks, because the broker stops."""
        if self._deadline is not None:
            self._deadline.cancel()

    def expire(self, shard: GroupShard) -> None:
        """Delete a shard's offsets that were unused for the retention time."""
        state, wall_ms = shard.state, self._runtime.wall_ms()
        state.forget_blank()
        state.forget_written(shard.partition.high_watermark)
        retention_ms = self._config.offsets_retention_minutes * MINUTE_MS
        records: list[AppendRecord] = []
        for group_id in list(state.groups):
            records += deletion.expire(state, group_id, wall_ms=wall_ms, retention_ms=retention_ms)
        self._write(shard, records)

    def forget_topics(self, topics: Sequence[str]) -> None:
        """Delete the offsets that groups committed in topics that are deleted."""
        if not topics:
            return
        gone = dict.fromkeys(topics)
        for shard in self._shards:
            self._write(shard, deletion.delete_topics(shard.state, gone))

    def _expire_later(self) -> None:
        interval_ms = self._config.offsets_retention_check_interval_ms
        self._deadline = self._deadlines.after(interval_ms, self._on_time)

    def _on_time(self) -> None:
        for shard in list(self._shards):
            self.expire(shard)
        self._expire_later()

    def forget(self, shard: GroupShard, records: Sequence[AppendRecord], done: Done) -> None:
        """Write tombstones in batches that the log accepts; `done` gets the last one's result.

        If a batch is refused, `done` gets that error at once. A group's own tombstone comes last,
        so that the group can be deleted again if a failover comes in between.
        """
        *before, last = in_batches(records)
        for batch in before:
            told: list[ErrorCode] = []
            if not self._append(shard, batch, told.append):
                done(told[0])
                return
        self._append(shard, last, done)

    def _write(self, shard: GroupShard, records: Sequence[AppendRecord]) -> None:
        def done(error: ErrorCode) -> None:
            if error:
                log.warning("%r: %d tombstones: %s", shard, len(records), error.name)

        if records:
            self.forget(shard, records, done)


def in_batches(records: Sequence[AppendRecord]) -> Iterator[list[AppendRecord]]:
    """Divide tombstones into batches of at most BYTES_AT_ONCE, however long the names are."""
    batch: list[AppendRecord] = []
    size = 0
    for record in records:
        topic = record.key.topic if isinstance(record, OffsetCommitRecord) else ""
        length = RECORD_BYTES + len(record.key.group.encode()) + len(topic)
        if batch and size + length > BYTES_AT_ONCE:
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += length
    if batch:
        yield batch
