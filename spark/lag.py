"""The lag of streaming queries: records, bytes and seconds of each partition.

`LagListener` receives Spark's progress reports, computes lag and publishes it; LogEnds asks the
cluster. Neither changes the query or the cluster.

    spark.streams.addListener(LagListener("localhost:9092"))
"""

import atexit
import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from ..protocol.types import TopicPartition
from ..runtime.errors import MinikafkaError
from . import offsets as arithmetic
from .log_ends import LogEnd, LogEnds
from .options import Offsets

log = logging.getLogger(__name__)

EVERY_SECONDS: Final = 5.0
MOST_ENDED: Final = 100
"""The number of ended queries whose last measurement is kept."""
CLOSE_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """The position of a query in one partition, and the records left to read."""

    topic: str
    partition: int
    position: int
    """The query has finished everything before this offset."""
    latest: int
    """The log's end offset, after its last record."""
    bytes: int | None = None
    """Unread bytes, estimated as records times the mean stored record size; None if not known."""
    seconds: float | None = None
    """Age in seconds of the oldest unread record, by its timestamp; None if it is not known."""

    @property
    def records(self) -> int:
        """Number of unread offsets, which include markers and gaps left by compaction."""
        return max(0, self.latest - self.position)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class QueryLag:
    """The lag of one query, as of one moment."""

    query_id: str
    name: str | None
    batch_id: int
    """The newest micro-batch that is finished."""
    measured_ms: int
    """Wall time of the measurement, in ms."""
    is_active: bool
    partitions: tuple[PartitionLag, ...]
    """Partitions by name. If two sources read one, the source that is further behind counts."""

    @property
    def records(self) -> int:
        """Unread records of all partitions."""
        return sum(each.records for each in self.partitions)

    @property
    def bytes(self) -> int | None:
        """Unread bytes of all partitions; None if a partition's are not known."""
        known = [each.bytes for each in self.partitions if each.bytes is not None]
        return sum(known) if len(known) == len(self.partitions) else None

    @property
    def seconds(self) -> float | None:
        """Age in seconds of the oldest unread record of all partitions; None if none is known."""
        known = [each.seconds for each in self.partitions if each.seconds is not None]
        return max(known, default=None)

    def metrics(self) -> dict[str, float]:
        """Return the figures by the names of Spark's Kafka connector, as far as they are known.

        `estimatedTotalBytesBehindLatest` is Databricks' name; `maxSecondsBehindLatest` is ours.
        """
        behind = [each.records for each in self.partitions] or [0]
        found: dict[str, float] = {
            "minOffsetsBehindLatest": min(behind),
            "maxOffsetsBehindLatest": max(behind),
            "avgOffsetsBehindLatest": sum(behind) / len(behind),
        }
        if self.bytes is not None:
            found["estimatedTotalBytesBehindLatest"] = self.bytes
        if self.seconds is not None:
            found["maxSecondsBehindLatest"] = self.seconds
        return found

    @property
    def amount(self) -> str:
        """The lag as text, as far as known: `1,200 records, 0.3 MB, 4.5 s`."""
        parts = [f"{self.records:,} records"]
        if self.bytes is not None:
            parts.append(f"{self.bytes / 1e6:,.1f} MB")
        if self.seconds is not None:
            parts.append(f"{self.seconds:,.1f} s")
        return ", ".join(parts)

    def __str__(self) -> str:
        text = f"query {self.name or self.query_id} is {self.amount} behind"
        worst = max(self.partitions, key=lambda each: each.records, default=None)
        if worst is None or worst.records == 0 or len(self.partitions) == 1:
            return text
        return f"{text}, most in {worst} ({worst.records:,})"


def behind(
    positions: Offsets, latest: Offsets, ends: Mapping[TopicPartition, LogEnd], now_ms: int
) -> tuple[PartitionLag, ...]:
    """Combine a query's positions with the ends that Spark and the cluster report.

    The cluster's report is newer and is used if there is one. For a partition that the query has
    not begun to read, the position is its first offset.
    """
    found: list[PartitionLag] = []
    for topic in sorted({*positions, *latest}):
        read, last = positions.get(topic, {}), latest.get(topic, {})
        for partition in sorted({*read, *last}):
            end = ends.get(TopicPartition(topic, partition))
            position = read.get(partition, 0 if end is None else end.first)
            if end is None:
                reached = last.get(partition, position)
                found.append(PartitionLag(topic, partition, position, max(reached, position)))
            else:
                found.append(_measured(PartitionLag(topic, partition, position, 0), end, now_ms))
    return tuple(found)


def _measured(lag: PartitionLag, end: LogEnd, now_ms: int) -> PartitionLag:
    lag = replace(lag, latest=max(end.latest, lag.position))
    if lag.records == 0:
        return replace(lag, bytes=0, seconds=0.0)
    # Deleted records count as offsets behind, but they have no bytes any more.
    left = end.latest - max(lag.position, end.first)
    size = end.size_bytes
    oldest = end.oldest_unread_ms
    return replace(
        lag,
        bytes=None if size is None else round(size * left / max(1, end.latest - end.first)),
        seconds=None if oldest is None else max(0.0, (now_ms - oldest) / 1000),
    )


def progress_offsets(progress: Mapping[str, Any]) -> tuple[Offsets, Offsets] | None:
    """Read a query's positions and its topics' ends from one of Spark's progress reports.

    Return None if none of its sources reads topics. If two sources read one partition, the lower
    position counts.
    """
    positions: Offsets = {}
    latest: Offsets = {}
    for source in progress["sources"]:
        at = _offsets(source["endOffset"])
        if at is None:
            continue
        for topic, by in at.items():
            known = positions.setdefault(topic, {})
            for partition, offset in by.items():
                known[partition] = min(offset, known.get(partition, offset))
        for topic, by in (_offsets(source["latestOffset"]) or {}).items():
            latest.setdefault(topic, {}).update(by)
    return (positions, latest) if positions else None


def _offsets(text: str | None) -> Offsets | None:
    """Read offsets of topics; None if the text is another source's."""
    try:
        value = json.loads(text or "null")
    except json.JSONDecodeError:
        return None
    if not isinstance(value, dict) or not value:
        return None
    for by in value.values():
        if not isinstance(by, dict) or not all(
            partition.isdecimal() and type(offset) is int for partition, offset in by.items()
        ):
            return None
    return arithmetic.from_json(value)


@dataclass
class _Query:
    """One query: its newest progress, and the time of its next measurement."""

    query_id: str
    name: str | None
    batch_id: int
    positions: Offsets
    latest: Offsets
    due_at: float = 0.0
    """Monotonic seconds at which the query is measured next."""
    has_ended: bool = False


class LagListener(StreamingQueryListener):
    """Publishes the lag of a session's queries for as long as they run.

        listener = LagListener("localhost:9092")
        spark.streams.addListener(listener)
        ...
        listener.snapshot()["my-query"].metrics()

    With `bootstrap_servers` a separate thread asks the cluster after a query's first micro-batch,
    then every `every_seconds`, even while a micro-batch hangs and Spark reports nothing, and once
    more when the query has ended. Without `bootstrap_servers` the records are those that Spark
    reports with each micro-batch; bytes and seconds stay unknown.

    Each lag is kept for `snapshot`, logged as a line by `minikafka.spark.lag` (INFO), and passed to
    `on_lag`, which is called in the measuring thread and may take its time.

    Queries that read no topics are ignored. For a topic that this cluster does not have, only
    Spark's reports are used. `settings` are settings of our consumer, by their names in Kafka, such
    as the `isolation.level` with which the queries read.
    """

    def __init__(
        self,
        bootstrap_servers: str | None = None,
        *,
        every_seconds: float = EVERY_SECONDS,
        on_lag: Callable[[QueryLag], None] | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._every_seconds = every_seconds
        self._on_lag = on_lag
        self._ends = None
        if bootstrap_servers is not None:
            known = {**(settings or {}), "bootstrap.servers": bootstrap_servers}
            self._ends = LogEnds(known)
        self._changed = threading.Condition()
        self._queries: dict[str, _Query] = {}
        self._lags: dict[str, QueryLag] = {}
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._complaint = ""

    # -- what Spark calls

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Do nothing, because the query has no position before its first micro-batch."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Record the query's progress, without waiting for a cluster."""
        progress = event.progress
        found = progress_offsets(progress)
        if found is None:
            return
        query_id = str(progress.id)
        query = _Query(query_id, progress.name, progress.batchId, *found)
        if self._ends is None:
            self._publish(query, {})
        with self._changed:
            known = self._queries.get(query_id)
            query.due_at = 0.0 if known is None else known.due_at
            self._queries[query_id] = query
            self._measure_from_now_on()

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Do nothing, because measuring goes on while a query is idle."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Measure once more; the query's last lag is kept after that."""
        with self._changed:
            query = self._queries.get(str(event.id))
            if query is None:
                return
            query.has_ended = True
            self._measure_from_now_on()
            if self._ends is None:
                del self._queries[query.query_id]
        if self._ends is None:
            self._publish(query, {})

    # -- what users call

    def snapshot(self) -> dict[str, QueryLag]:
        """Return the newest lag of each query, by its name, or by its id if it has no name.

        Queries that ended keep their last lag (`is_active` is false); the newest hundred are kept.
        """
        with self._changed:
            return {lag.name or lag.query_id: lag for lag in self._lags.values()}

    def close(self) -> None:
        """Stop measuring and close the connections. Remove the listener from Spark first."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(CLOSE_SECONDS)
        with self._changed:
            ended = [query for query in self._queries.values() if query.has_ended]
            for query in ended:
                del self._queries[query.query_id]
        for query in ended:  # there was no time to measure them once more
            self._publish(query, {})
        atexit.unregister(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- measuring

    def _measure_from_now_on(self) -> None:
        """Wake the measuring thread, or start it."""
        self._changed.notify_all()
        if self._ends is None or self._is_closed:
            return
        if self._thread is None:
            atexit.register(self.close)
            self._thread = threading.Thread(target=self._run, name="minikafka-lag", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        assert self._ends is not None
        try:
            while (query := self._next_due()) is not None:
                try:
                    self._publish(query, self._measured(self._ends, query))
                except Exception:
                    # The error is not the cluster's, which `_measured` handles, but a bug: only
                    # this one measurement is lost.
                    log.exception("the lag of query %s was not measured", query.query_id)
                    if query.has_ended:
                        self._publish(query, {})
        finally:
            self._ends.close()

    def _next_due(self) -> _Query | None:
        """Wait for a query that is due, and return it; None once closed."""
        with self._changed:
            while not self._is_closed:
                now = time.monotonic()
                waiting = sorted(
                    self._queries.values(), key=lambda each: (not each.has_ended, each.due_at)
                )
                query = waiting[0] if waiting else None
                if query is not None and query.has_ended:
                    return self._queries.pop(query.query_id)
                if query is not None and query.due_at <= now:
                    query.due_at = now + self._every_seconds
                    return replace(query)
                self._changed.wait(None if query is None else query.due_at - now)
            return None

    def _measured(self, ends: LogEnds, query: _Query) -> dict[TopicPartition, LogEnd]:
        # A partition that the query has not begun will be read from its first offset.
        wanted = {topic: dict.fromkeys(by, 0) for topic, by in query.latest.items()}
        for topic, by in query.positions.items():
            wanted.setdefault(topic, {}).update(by)
        try:
            found = ends.measure(wanted)
        except (MinikafkaError, OSError) as error:
            if str(error) != self._complaint:
                self._complaint = str(error)
                log.warning("lag is told from Spark's reports only for now: %s", error)
            return {}
        self._complaint = ""
        return found

    def _publish(self, query: _Query, ends: Mapping[TopicPartition, LogEnd]) -> None:
        now_ms = time.time_ns() // 1_000_000
        lag = QueryLag(
            query.query_id,
            query.name,
            query.batch_id,
            now_ms,
            not query.has_ended,
            behind(query.positions, query.latest, ends, now_ms),
        )
        with self._changed:
            self._lags.pop(query.query_id, None)
            self._lags[query.query_id] = lag
            ended = [each.query_id for each in self._lags.values() if not each.is_active]
            for query_id in ended[:-MOST_ENDED]:
                del self._lags[query_id]
        log.info("%s", lag)
        if self._on_lag is not None:
            try:
                self._on_lag(lag)
            except Exception:
                # An error in the user's function must not stop the measuring.
                log.exception("on_lag failed for query %s", lag.name or lag.query_id)
