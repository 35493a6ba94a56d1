"""ObjectSink: records become files of an object store or a file system, each in exactly one file.

The files are the only memory: where reading goes on is read off the newest file of each partition
(`object_parts`). Offsets of the group are committed behind visible files, for lag.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ...protocol.types import TopicPartition
from ..api import ColumnSinkTask, ConnectError, Props, Retry, SinkConnector, SinkContext
from ..config_def import INT64_MAX, ConfigKey, ConfigType
from ..records import SinkRecord
from .failures import Patience, report
from .keys import choice, whole
from .object_formats import FORMATS, Rows
from .object_parts import PartitionFiles, Rules
from .object_store import STORE, ObjectStore
from .ruled import RuledDef

_COMPRESSIONS = ("none", "gzip", "snappy", "zstd")


def _faults(settings: Mapping[str, Any]) -> Mapping[str, str]:
    if settings["format"] == "jsonl" and settings["compression"] in ("snappy", "zstd"):
        return {"compression": "files of JSON lines are compressed with gzip, or not"}
    return {}


OBJECT_SINK = RuledDef(
    [
        *STORE.keys.values(),
        choice(
            "format",
            "`parquet`: columns offset, timestamp_ms, key, value, headers; `jsonl`: an object with "
            "these fields in each line; `raw`: each value as a file of its own.",
            ("parquet", "jsonl", "raw"),
        ),
        ConfigKey(
            "compression",
            ConfigType.STRING,
            "Of Parquet any of these; of JSON lines `none` or `gzip`; raw values are not changed.",
            "none",
            choices=_COMPRESSIONS,
        ),
        whole("flush.size", "The records of a file.", 100000, 1),
        whole(
            "flush.bytes",
            "A file ends with the record that brings keys and values to this many bytes. As much "
            "memory is taken for each partition.",
            16 * 2**20,
            1,
            2**30,
        ),
        whole(
            "rotate.interval.ms",
            "A record whose time is this much after that of the file's first one begins another "
            "file; -1: none does. Only a record ends a file, no clock: what comes last stays "
            "invisible until more comes.",
            -1,
            -1,
            INT64_MAX,
        ),
        whole(
            "filename.offset.zero.pad.width",
            "The digits of the offset in the name of a file, filled with zeros.",
            10,
            1,
            20,
        ),
    ],
    _faults,
)


class ObjectSinkTask(ColumnSinkTask):
    """Gathers rows of each partition, and writes the files that are complete."""

    def start(self, props: Props, context: SinkContext) -> None:
        """Open the store."""
        super().start(props, context)
        settings = OBJECT_SINK.parse(props)
        try:
            self._store = ObjectStore.of(props)
        except (ImportError, ValueError) as error:
            raise ConnectError(f"store.url cannot be used: {error}") from None
        name = settings["format"]
        if name == "jsonl" and settings["compression"] == "gzip":
            name = "jsonl.gz"
        self._format = FORMATS[name]
        self._rules = Rules.of(self._format, settings)
        self._patience = Patience(settings["max.retries"], settings["retry.backoff.ms"])
        self._parts: dict[TopicPartition, PartitionFiles] = {}

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        """Go on behind the newest file of each partition."""
        for each in partitions:
            part = PartitionFiles(each, self._store, self._rules)
            try:
                end = part.find_end()
            except ConnectError:
                raise
            except Exception as error:
                raise ConnectError(
                    f"the files of {each.topic}-{each.partition} cannot be listed: "
                    f"{type(error).__name__}: {error}"
                ) from None
            self._parts[each] = part
            if end is not None:
                self.context.seek(each, end)

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Take records, and write the files that they complete."""
        self._settle()
        for partition, mine in groupby(records, key=lambda each: each.origin):
            after = self._parts[partition].next
            fresh = [each for each in mine if each.offset >= after]
            for _, group in groupby(fresh, key=_kind):
                for rows in self._rows(list(group)):
                    self._take(partition, rows)

    def put_columns(self, partition: TopicPartition, batch: pa.RecordBatch) -> None:
        """Take the records of a batch, and write the files that they complete."""
        self._settle()
        after = self._parts[partition].next
        if batch.num_rows and batch.column("offset")[0].as_py() < after:
            batch = batch.filter(pc.greater_equal(batch.column("offset"), after))
        if batch.num_rows:
            self._take(partition, self._format.rows_of_columns(batch))

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Return the offsets behind visible files."""
        safe = {}
        for each, offset in offsets.items():
            part = self._parts.get(each)
            if part is None:
                continue
            behind = offset if part.is_empty else part.safe
            if behind is not None:
                safe[each] = min(behind, offset)
        return safe

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """Forget what is in no visible file: it is read again."""
        for each in partitions:
            self._parts.pop(each, None)

    def _rows(self, records: Sequence[SinkRecord]) -> Iterator[Rows]:
        """Yield rows of records of one schema; those that have no form are reported."""
        try:
            yield self._format.rows_of_records(records)
        except (ValueError, TypeError, ConnectError, pa.ArrowException) as error:
            if len(records) > 1:
                for each in records:
                    yield from self._rows([each])
                return
            record = records[0]
            why = f"the record at {_named(record.origin)}, offset {record.offset}: {error}"
            report(self.context, record, ConnectError(why))

    def _settle(self) -> None:
        """Write files that were complete when the store failed."""
        for partition, part in self._parts.items():
            self._move(
                partition, self._asked(f"{_named(partition)} cannot be written", part.settle)
            )

    def _take(self, partition: TopicPartition, rows: Rows) -> None:
        part = self._parts[partition]
        before = part.visible
        moved = self._asked(f"{_named(partition)} cannot be written", lambda: part.take(rows))
        self._move(partition, moved)
        if part.visible != before:
            self.context.request_commit()

    def _move(self, partition: TopicPartition, offset: int | None) -> None:
        """Read on elsewhere, behind a file of another task."""
        if offset is not None:
            self.context.seek(partition, offset)

    def _asked(self, what: str, ask: Callable[[], int | None]) -> int | None:
        """Ask the store; whatever its driver raises is tried again for a while."""
        try:
            answer = ask()
        except (ConnectError, Retry):
            raise
        except Exception as error:
            raise self._patience.after(f"{what}: {type(error).__name__}: {error}") from None
        self._patience.calm()
        return answer


def _named(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


def _kind(record: SinkRecord) -> tuple[Any, ...]:
    """Return what records must share to be rows of one batch."""
    return (
        record.key_schema,
        record.value_schema,
        *[
            "none" if each is None else "bytes" if isinstance(each, bytes) else "other"
            for each in (record.key, record.value)
        ],
    )


class ObjectSink(SinkConnector):
    """Writes topics into files."""

    task = ObjectSinkTask
    config = OBJECT_SINK

    def task_configs(self, max_tasks: int) -> Sequence[Props]:
        """Return as many tasks as there may be: they share the partitions."""
        return [self.props] * max_tasks

    def alter_offsets(self, props: Props, offsets: Mapping[Any, Mapping[str, Any] | None]) -> bool:
        """Refuse other offsets than none: the files say where reading goes on."""
        if any(offset is not None for offset in offsets.values()):
            raise ConnectError(
                "the newest file of each partition says where reading goes on; to write records "
                "again, remove the files that have them, from the newest back"
            )
        return True
