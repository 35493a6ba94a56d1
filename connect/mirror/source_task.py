"""The task that reads partitions of the source and hands their records out for the target.

It assigns its partitions and joins no group. Records keep partition, timestamp, key, value and
headers. A gap, which is records that were lost before they were mirrored, is never passed in
silence: see `on.gap`. Never here: writing to the target, which the worker does.
"""

import contextlib
import json
import logging
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ...client.admin.admin import Admin
from ...client.admin.topic_types import TopicDescription
from ...client.consumer.consumer import Consumer
from ...client.errors import (
    BufferFull,
    ClientError,
    LogTruncated,
    OffsetOutOfRange,
    RequestTimedOut,
)
from ...client.partitions import name_of
from ...client.producer.producer import Producer
from ...client.records import RecordColumns, RecordMetadata
from ...protocol.types import ZERO_UUID, TopicPartition, uuid_to_text
from ..api import AsyncSourceTask, ConnectError, Props, SourceContext
from ..records import Header, SourceRecord
from .codec import OffsetSync
from .keys import SOURCE, client_settings
from .metrics import PartitionMetrics
from .policy import offset_syncs_of, policy_of
from .provenance import marked
from .topics import described
from .translation import SyncEmitter
from .upkeep import admin_settings

log = logging.getLogger(__name__)

ASSIGNED = "task.assigned.partitions"
"""The partitions of a task, as JSON: [[topic, number], ...]."""
MOST_UNACKNOWLEDGED = 100
"""The most offset syncs that wait for their acknowledgement; others wait and are replaced."""
CLOSE_MS = 5_000
NO_ID = uuid_to_text(ZERO_UUID)


@dataclass(slots=True)
class Route:
    """One partition on its way: its names at both ends, and the topic's id at the source."""

    partition: TopicPartition
    remote: str
    place: Mapping[str, Any]
    """The source partition of Connect's offsets, the same object in all records."""
    topic_id: str
    """The id of the topic at the source; empty if it is not there, or brokers have no ids."""
    metrics: PartitionMetrics
    behind: int = -1
    """The offset behind the newest record that was read; -1 before the first."""

    def passed(self, offset: int) -> SourceRecord:
        """Return the place of an offset that has nothing to be written."""
        return SourceRecord(
            topic="",
            value=None,
            source_partition=self.place,
            source_offset={"offset": offset, "topicId": self.topic_id},
        )


class OffsetSyncWriter:
    """Writes offset syncs; a sync that fails is written again, unless a newer one is there."""

    def __init__(self, settings: Mapping[str, str], topic: str, lag_max: int) -> None:
        self.failed_count = 0
        self._topic = topic
        self._emitter = SyncEmitter(lag_max)
        self._producer: Producer[bytes, bytes] = Producer.from_config(settings)
        self._waiting = 0

    async def start(self) -> None:
        """Connect; raise BootstrapError if that fails."""
        await self._producer.start()

    def on_mirrored(self, sync: OffsetSync) -> None:
        """Take the places of a mirrored record, and write what is due."""
        self._emitter.on_mirrored(sync)
        self.write()

    def on_commit(self) -> None:
        """Write the newest place of each partition."""
        self._emitter.on_commit()
        self.write()

    def write(self) -> None:
        """Send what is due, as far as there is room."""
        while self._waiting < MOST_UNACKNOWLEDGED and (sync := self._emitter.next_due()):
            done = partial(self._on_delivery, sync)
            try:
                self._producer.send(
                    self._topic, sync.value(), sync.key(), partition=0, on_delivery=done
                )
            except BufferFull:
                self._emitter.again(sync)
                return
            self._waiting += 1

    def _on_delivery(
        self, sync: OffsetSync, error: ClientError | None, _: RecordMetadata | None
    ) -> None:
        self._waiting -= 1
        if error is not None:
            self.failed_count += 1
            self._emitter.again(sync)
            log.warning("offset sync of %s not written: %s", name_of(sync.partition), error)

    async def close(self) -> None:
        """Write what is left, for 5 s at most, and disconnect."""
        self.on_commit()
        await self._producer.close(CLOSE_MS)


class MirrorSourceTask(AsyncSourceTask):
    """Reads its partitions of the source, from behind what was mirrored."""

    async def start(self, props: Props, context: SourceContext) -> None:
        """Connect to the source and find the positions. Raise ConnectError for a gap (`on.gap`)."""
        await super().start(props, context)
        self._settings = SOURCE.parse(props)
        self._on_gap: str = self._settings["on.gap"]
        self._poll_ms = min(self._settings["consumer.poll.timeout.ms"], context.poll_timeout_ms)
        consumer = client_settings(props, "source", "consumer")
        self._first = consumer.pop("auto.offset.reset", "earliest")
        consumer.pop("group.id", None)
        consumer |= {"auto.offset.reset": "none", "enable.auto.commit": "false"}
        self._consumer: Consumer[bytes, bytes] = Consumer.from_config(consumer)
        self._syncs = self._sync_writer()
        self._admin = Admin.from_config(admin_settings(props, "source"))
        self._ids: tuple[str, str] | None = None
        self._routes: dict[TopicPartition, Route] = {}
        try:
            await self._admin.start()
            await self._make_routes()
            if self._settings["mirror.provenance.header"]:
                self._ids = await self._cluster_ids()
            if self._syncs is not None:
                await self._syncs.start()
            await self._consumer.start()
            self._consumer.assign(self._routes)
            for route in self._routes.values():
                self._begin(route)
        except BaseException:
            await self.stop()
            raise

    def _sync_writer(self) -> OffsetSyncWriter | None:
        settings = self._settings
        if not settings["emit.offset-syncs.enabled"]:
            return None
        end, topic = offset_syncs_of(settings)
        producer = client_settings(self.props, end, "producer")
        return OffsetSyncWriter(producer, topic, settings["offset.lag.max"])

    async def _make_routes(self) -> None:
        partitions = [TopicPartition(*each) for each in json.loads(self.props[ASSIGNED])]
        policy, alias = policy_of(self._settings), self._settings["source.cluster.alias"]
        found = await described(self._admin, dict.fromkeys(each.topic for each in partitions))
        for partition in partitions:
            topic, number = partition
            place = {"cluster": alias, "partition": number, "topic": topic}
            topic_id = _id_of(found.get(topic))
            metrics = PartitionMetrics(_now_ms())
            route = Route(partition, policy.remote(alias, topic), place, topic_id, metrics)
            self._routes[partition] = route

    async def _cluster_ids(self) -> tuple[str, str]:
        source = (await self._admin.describe_cluster()).cluster_id
        async with Admin.from_config(admin_settings(self.props, "target")) as target:
            return source, (await target.describe_cluster()).cluster_id

    def _begin(self, route: Route) -> None:
        """Seek behind what was mirrored, or to where a partition begins that never was."""
        known = self.context.offsets.read(route.place)
        if known is None:
            self._seek_to(route, self._first)
        elif route.topic_id and (known.get("topicId") or route.topic_id) != route.topic_id:
            self._pass_gap(route, "the topic was deleted and made anew")
        else:
            self._consumer.seek(route.partition, int(known["offset"]) + 1)

    def _seek_to(self, route: Route, where: str) -> None:
        if where == "latest":
            self._consumer.seek_to_end(route.partition)
        else:
            self._consumer.seek_to_beginning(route.partition)

    def _pass_gap(self, route: Route, why: str) -> None:
        """Do as `on.gap` says about records that cannot be mirrored any more."""
        route.metrics.gap_count += 1
        route.behind = -1
        where = f"{self._settings['source.cluster.alias']}: {name_of(route.partition)}: {why}"
        if self._on_gap == "fail":
            raise ConnectError(
                f"{where}: records were lost before they were mirrored. Set on.gap=earliest (or "
                "latest) to go on with what is there, or reset the offsets of this connector"
            )
        log.warning("%s; on.gap=%s", where, self._on_gap)
        self._seek_to(route, self._on_gap)

    # -- reading

    async def records(self) -> AsyncIterator[Sequence[SourceRecord]]:
        """Yield the records of each poll, in order within a partition; perhaps none.

        With each answer, also an empty one, the worker tells what became of earlier records.
        """
        while True:
            try:
                polled = await self._consumer.poll_columns(self._poll_ms)
                batch = [] if polled else await self._ends()
            except (OffsetOutOfRange, LogTruncated) as error:
                await self._on_lost(error)
                continue
            for found in polled:
                batch += self._records_of(found)
            yield batch

    async def _ends(self) -> list[SourceRecord]:
        """Return places behind ends of transactions, which nothing tells from records once gone."""
        places = []
        for partition, route in self._routes.items():
            with contextlib.suppress(RequestTimedOut):
                position = await self._consumer.position(partition, timeout_ms=0)
                if 0 <= route.behind < position:
                    route.behind = position
                    places.append(route.passed(position - 1))
        return places

    async def _on_lost(self, error: OffsetOutOfRange | LogTruncated) -> None:
        route = self._routes[error.partition]
        found = await described(self._admin, [route.partition.topic])
        topic_id = _id_of(found.get(route.partition.topic))
        is_anew = topic_id != route.topic_id
        for other in self._routes.values():
            if other.partition.topic == route.partition.topic:
                other.topic_id = topic_id
        self._pass_gap(route, "the topic was deleted and made anew" if is_anew else str(error))

    def _records_of(self, found: RecordColumns) -> list[SourceRecord]:
        route = self._routes[found.topic_partition]
        values, count = found.values, len(found.values)
        keys = found.keys or [None] * count
        metrics, now_ms = route.metrics, _now_ms()
        size = sum(map(len, filter(None, values))) + sum(map(len, filter(None, keys)))
        metrics.bytes.record(size, now_ms)
        metrics.age.record(max(now_ms - found.timestamps_ms[-1], 0), now_ms)
        headers = self._headers(found, count)
        topic, number, place, topic_id = route.remote, found.partition, route.place, route.topic_id
        rows = zip(found.offsets, found.timestamps_ms, keys, values, headers, strict=True)
        records = [
            SourceRecord(
                topic=topic,
                value=value,
                key=key,
                headers=kept,
                timestamp_ms=at_ms if at_ms >= 0 else None,
                source_partition=place,
                source_offset={"offset": offset, "topicId": topic_id},
                partition=number,
            )
            for offset, at_ms, key, value, kept in rows
            if kept is not None
        ]
        metrics.dropped_count += count - len(records)
        route.behind = found.offsets[-1] + 1
        if headers[-1] is None:
            records.append(route.passed(found.offsets[-1]))
        return records

    def _headers(self, found: RecordColumns, count: int) -> Sequence[tuple[Header, ...] | None]:
        """Return the headers of each record at the target; None of one that was there already."""
        if self._ids is None:
            if found.headers is None:
                return [()] * count
            return [tuple(Header(*pair) for pair in each) for each in found.headers]
        if found.headers is None:
            return [marked((), *self._ids)] * count
        return [marked(tuple(each), *self._ids) for each in found.headers]

    # -- what became of records

    async def commit_record(self, record: SourceRecord, metadata: Any | None) -> None:
        """Note where a record is at the target; None tells that it was filtered."""
        if metadata is None:
            return
        place = record.source_partition
        route = self._routes.get(TopicPartition(place["topic"], place["partition"]))
        if route is None:
            return
        metrics, now_ms = route.metrics, _now_ms()
        metrics.records.record(1, now_ms)
        if record.timestamp_ms is not None:
            metrics.latency.record(max(now_ms - record.timestamp_ms, 0), now_ms)
        if self._syncs is not None and metadata.offset >= 0:
            offset = record.source_offset["offset"]
            self._syncs.on_mirrored(OffsetSync(route.partition, offset, metadata.offset))

    async def commit(self) -> None:
        """Write an offset sync for each partition that has new records."""
        if self._syncs is not None:
            self._syncs.on_commit()

    def metrics(self) -> dict[TopicPartition, dict[str, float]]:
        """Return the metrics of each partition of the source, by MM2's names."""
        now_ms = _now_ms()
        return {where: route.metrics.read(now_ms) for where, route in self._routes.items()}

    async def stop(self) -> None:
        """Write the last offset syncs, and disconnect."""
        if self._syncs is not None:
            await self._syncs.close()
        await self._consumer.close()
        await self._admin.close()


def _id_of(topic: TopicDescription | None) -> str:
    return "" if topic is None or topic.topic_id == NO_ID else topic.topic_id


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
