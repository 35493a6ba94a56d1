"""MirrorHeartbeat: writes a record at the target at intervals, so that a flow can be watched.

Mirrored onward, the newest heartbeat tells at any cluster how far behind it is (KIP-382).
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import ClassVar

from ..api import AsyncSourceTask, Props, SourceContext
from ..records import SourceRecord
from .codec import Heartbeat
from .connector import MirrorConnector
from .keys import HEARTBEAT
from .policy import HEARTBEATS
from .upkeep import make_compacted

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


class MirrorHeartbeat(MirrorConnector):
    """Makes the topic of heartbeats at the target. It has one task, even of a flow without data."""

    config = HEARTBEAT
    task = MirrorHeartbeatTask
    switches = ("emit.heartbeats.enabled",)
    ends = ("target",)
    dealt = "task.index"
    place: ClassVar[Mapping[str, type]] = {SOURCE_FIELD: str, TARGET_FIELD: str}

    async def prepare(self) -> None:
        """Make the topic of heartbeats."""
        replicas = self.settings["heartbeats.topic.replication.factor"]
        await make_compacted(self.upkeep.target, HEARTBEATS, replicas)

    async def find(self) -> list[int]:
        """Return the one task."""
        return [0]
