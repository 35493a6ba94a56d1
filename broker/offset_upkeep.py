"""Forgets offsets by itself: of nobody for too long, and of topics that are gone.

One deadline of the wheel for all groups. What is due is decided in `group.deletion`.
"""

import logging
from collections.abc import Callable, Sequence

from ..protocol.coordinator_records import GroupMetadataRecord, OffsetCommitRecord
from ..protocol.errors import ErrorCode
from ..runtime.runtime import Runtime
from .coordinator.shard import Done, Shard
from .coordinator.shards import Shards
from .deadlines import Deadline, Deadlines
from .group import deletion
from .group.config import GroupConfig
from .group.state import GroupsState

GroupShard = Shard[GroupsState]
AppendRecord = OffsetCommitRecord | GroupMetadataRecord
Append = Callable[[GroupShard, Sequence[AppendRecord], Done], bool]

MINUTE_MS = 60_000
RECORDS_AT_ONCE = 1_000
"""Tombstones of one batch."""

log = logging.getLogger(__name__)


class OffsetUpkeep:
    """Looks through the groups that are coordinated here."""

    def __init__(
        self,
        runtime: Runtime,
        deadlines: Deadlines,
        config: GroupConfig,
        shards: Shards[GroupsState],
        append: Append,
    ) -> None:
        """`append` writes records and replays them; False if they were refused."""
        self._runtime = runtime
        self._deadlines = deadlines
        self._config = config
        self._shards = shards
        self._append = append
        self._deadline: Deadline | None = None

    def begin(self) -> None:
        """There are groups: look after them from now on."""
        if self._deadline is None:
            self._expire_later()

    def close(self) -> None:
        """The broker stops."""
        if self._deadline is not None:
            self._deadline.cancel()

    def expire(self, shard: GroupShard) -> None:
        """Forget what nobody has used for the retention time."""
        state, wall_ms = shard.state, self._runtime.wall_ms()
        state.forget_blank()
        state.forget_written(shard.partition.high_watermark)
        retention_ms = self._config.offsets_retention_minutes * MINUTE_MS
        records: list[AppendRecord] = []
        for group_id in list(state.groups):
            records += deletion.expire(state, group_id, wall_ms=wall_ms, retention_ms=retention_ms)
        self._write(shard, records)

    def forget_topics(self, topics: Sequence[str]) -> None:
        """Topics are gone, and with them what was committed in them."""
        if not topics:
            return
        gone = dict.fromkeys(topics)
        for shard in self._shards:
            self._write(shard, deletion.delete_topics(shard.state, gone))

    def _expire_later(self) -> None:
        interval_ms = self._config.offsets_retention_check_interval_ms
        due_ms = self._runtime.monotonic_ms() + interval_ms
        self._deadline = self._deadlines.at(due_ms, self._on_time)

    def _on_time(self) -> None:
        for shard in list(self._shards):
            self.expire(shard)
        self._expire_later()

    def _write(self, shard: GroupShard, records: Sequence[AppendRecord]) -> None:
        for at in range(0, len(records), RECORDS_AT_ONCE):
            some = records[at : at + RECORDS_AT_ONCE]

            def done(error: ErrorCode, count: int = len(some)) -> None:
                if error:
                    log.warning("%r: %d tombstones: %s", shard, count, error.name)

            if not self._append(shard, some, done):
                return
