"""Blackhole: a sink that counts records and their bytes, and throws them away."""

import logging
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...protocol.types import TopicPartition
from ..api import ColumnSinkTask, Props, SinkConnector, SinkContext
from ..config_def import ConfigDef
from ..records import SinkRecord
from .keys import whole

if TYPE_CHECKING:
    import pyarrow

log = logging.getLogger(__name__)


class BlackholeTask(ColumnSinkTask):
    """Counts; whole batches of columns where no record has to be made for anybody else."""

    records = 0
    bytes = 0
    """Bytes of keys and values that are text or bytes; other values count nothing."""

    def start(self, props: Props, context: SinkContext) -> None:
        """Begin at zero."""
        super().start(props, context)
        self._every_ms: int = Blackhole.config.parse(props)["log.interval.ms"]
        self._name = props.get("name", "blackhole")
        self._said_at = time.monotonic()

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Count records."""
        self.records += len(records)
        self.bytes += sum([_size(record.key) + _size(record.value) for record in records])

    def put_columns(self, partition: TopicPartition, batch: "pyarrow.RecordBatch") -> None:
        """Count the rows of a batch."""
        self.records += batch.num_rows
        self.bytes += sum(_bytes_in(batch.column(name)) for name in ("key", "value"))

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Say in the log how many there were, now and then."""
        now = time.monotonic()
        if self._every_ms and (now - self._said_at) * 1000 >= self._every_ms:
            self._said_at = now
            self._say()

    def stop(self) -> None:
        """Say in the log how many there were in all."""
        self._say()

    def _say(self) -> None:
        log.info("%s: %d records, %d bytes", self._name, self.records, self.bytes)


class Blackhole(SinkConnector):
    """Tasks that count what comes, to try a pipeline or to measure one."""

    task = BlackholeTask
    config = ConfigDef(
        [whole("log.interval.ms", "How often the log tells the count; 0: when it ends.", 60_000)]
    )

    def task_configs(self, max_tasks: int) -> Sequence[Props]:
        """Return as many tasks as there may be."""
        return [self.props] * max_tasks


def _size(value: Any) -> int:
    return len(value) if isinstance(value, str | bytes) else 0


def _bytes_in(column: "pyarrow.Array") -> int:
    """Return the bytes of a column of binaries, from its offsets, without a look at the values."""
    _, offsets, _ = column.buffers()
    if offsets is None or not len(column):
        return 0
    ends = memoryview(offsets).cast("i")
    return int(ends[column.offset + len(column)] - ends[column.offset])
