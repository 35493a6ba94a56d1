"""MirrorHeartbeat: writes a record at the target at intervals, so that a flow can be watched.

Mirrored onward, the newest heartbeat tells at any cluster how far behind it is (KIP-382).
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from ..api import AsyncSourceTask, ConnectorContext, Props, SourceConnector, SourceContext
from ..records import SourceRecord
from .codec import Heartbeat
from .keys import HEARTBEAT
from .policy import HEARTBEATS
from .source import check_offsets
from .upkeep import Upkeep, make_compacted

SOURCE_FIELD, TARGET_FIELD = "sourceClusterAlias", "targetClusterAlias"


class MirrorHeartbeatTask(AsyncSourceTask):
    """Writes the heartbeats."""

    async def start(self, props: Props, context: SourceContext) -> None:
        """Take the names of the clusters."""
        await super().start(props, context)
        settings = HEARTBEAT.parse(props)
        self._ends = settings["source.cluster.alias"], settings["target.cluster.alias"]
        self._every_s: int = settings["emit.heartbeats.interval.seconds"]

    async def records(self) -> AsyncIterator[Sequence[SourceRecord]]:
        """Yield a heartbeat now and after every interval."""
        source, target = self._ends
        place = {SOURCE_FIELD: source, TARGET_FIELD: target}
        while True:
            beat = Heartbeat(source, target, time.time_ns() // 1_000_000)
            yield [
                SourceRecord(
                    topic=HEARTBEATS,
                    partition=0,
                    key=beat.key(),
                    value=beat.value(),
                    timestamp_ms=beat.timestamp_ms,
                    source_partition=place,
                    source_offset={"offset": 0},
                )
            ]
            await asyncio.sleep(self._every_s)


class MirrorHeartbeat(SourceConnector):
    """Makes the topic of heartbeats at the target. It has one task, even of a flow without data."""

    config = HEARTBEAT
    task = MirrorHeartbeatTask

    def start(self, props: Props, context: ConnectorContext) -> None:
        """Create the topic unless it is there; raise BadConfig, and AdminError if it is refused."""
        super().start(props, context)
        self._settings = settings = HEARTBEAT.parse(props)
        if settings["emit.heartbeats.enabled"]:
            upkeep = Upkeep(props, context)
            replicas = settings["heartbeats.topic.replication.factor"]
            upkeep.begin(
                lambda: make_compacted(upkeep.target, HEARTBEATS, replicas),
                settings["admin.timeout.ms"] / 1000,
            )
            upkeep.stop()

    def task_configs(self, max_tasks: int) -> Sequence[Props]:
        """Return one task, or none if heartbeats are off."""
        return [self.props] if self._settings["emit.heartbeats.enabled"] else []

    def alter_offsets(self, props: Props, offsets: Mapping[Any, Mapping[str, Any] | None]) -> bool:
        """Take offsets of partitions with the names of both clusters; the task uses none."""
        check_offsets(offsets, {SOURCE_FIELD: str, TARGET_FIELD: str})
        return True
