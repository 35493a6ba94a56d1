"""The sink: the writers that Spark calls, in batch jobs and in streaming queries.

At least once: each task writes its rows with acks=all and succeeds only when all are acknowledged;
if Spark runs a task again, its rows are written again. exactly_once.py writes exactly once. This
module checks the columns of a row; rows.py turns rows into records.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import uuid4

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
)

from . import exactly_once
from .cluster import cluster_for
from .options import OptionError
from .refused_rows import dead_letters_of
from .rows import RowWriter
from .sink_options import Delivery, SinkOptions

_TEXT = (StringType, BinaryType)


@dataclass
class Written(WriterCommitMessage):
    """The number of records that one task wrote."""

    records: int


def check_columns(schema: StructType, options: SinkOptions) -> None:
    """Raise OptionError for columns that the sink does not know or cannot write.

    Spark calls this before any job starts.
    """
    types = {field.name: field.dataType for field in schema}
    if len(types) < len(schema):
        raise OptionError("columns", ", ".join(schema.names), "a name is there twice")
    for name, data_type in types.items():
        if name not in ("key", "value", "headers", "topic", "partition"):
            raise OptionError(
                "columns", name, "a row has key, value, headers, topic and partition, no more"
            )
        if not _fits(name, data_type):
            raise OptionError("columns", f"{name} {data_type.simpleString()}", _allowed(name))
    if "value" not in types:
        raise OptionError("columns", ", ".join(types), "a column 'value' is needed")
    if "topic" not in types and options.topic is None:
        raise OptionError("topic", None, "give the option topic, or a column 'topic'")


def _fits(name: str, data_type: DataType) -> bool:
    if name == "partition":
        return isinstance(data_type, IntegerType)
    if name == "topic":
        return isinstance(data_type, StringType)
    if name == "headers":
        element = data_type.elementType if isinstance(data_type, ArrayType) else None
        return isinstance(element, StructType) and [
            (f.name, type(f.dataType)) for f in element
        ] == [("key", StringType), ("value", BinaryType)]
    return isinstance(data_type, _TEXT)


def _allowed(name: str) -> str:
    return {
        "partition": "an int is needed",
        "topic": "a string is needed",
        "headers": "array<struct<key string, value binary>> is needed",
    }.get(name, "a string or binary is needed")


class _Writing:
    """The part of a task's and the driver's work that batch and streaming writers share."""

    def __init__(self, options: SinkOptions) -> None:
        self.options = options
        self._is_exact = options.delivery is Delivery.EXACTLY_ONCE

    def _job(self, task: exactly_once.Task) -> exactly_once.Job:
        raise NotImplementedError

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
        """Write a task's rows and wait until all are acknowledged; raise if one was not."""
        if self._is_exact:
            task = exactly_once.Task.current()
            return exactly_once.write(self.options, self._job(task), task, iterator)
        producer = cluster_for(self.options.client).producer()
        dead_letters = dead_letters_of(self.options, producer)
        rows = RowWriter(producer, self.options.topic, dead_letters)
        count = 0
        for batch in iterator:
            rows.write(batch, count)
            count += batch.num_rows
        rows.finish()
        return Written(count)

    def _commit(self, batch_id: int, messages: list[WriterCommitMessage | None]) -> None:
        # At least once needs no commit: every record was acknowledged before its task succeeded.
        if self._is_exact:
            exactly_once.commit(self.options, batch_id, messages)

    def _abort(self, messages: list[WriterCommitMessage | None]) -> None:
        # At least once: acknowledged records stay in the topic.
        if self._is_exact:
            exactly_once.abort(self.options, messages)


class BatchWriter(_Writing, DataSourceArrowWriter):
    """Writes the rows of a batch job."""

    def __init__(self, options: SinkOptions) -> None:
        super().__init__(options)
        # Spark pickles this writer for the tasks and again for the commit, so all share one id.
        self._job_id = uuid4().hex

    def _job(self, task: exactly_once.Task) -> exactly_once.Job:
        return exactly_once.Job.of_batch(self.options, self._job_id, task)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make the job's rows visible under exactly_once; at least once needs no commit."""
        self._commit(self.options.batch_id or 0, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Abort the job's rows under exactly_once; at least once leaves them in the topic."""
        self._abort(messages)


class StreamWriter(_Writing, DataSourceStreamArrowWriter):
    """Writes the rows of a streaming query."""

    def _job(self, task: exactly_once.Task) -> exactly_once.Job:
        return exactly_once.Job.of_stream(self.options, task)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Make a micro-batch's rows visible under exactly_once; else do nothing."""
        self._commit(batchId, messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Abort a micro-batch's rows under exactly_once; else leave them in the topic."""
        self._abort(messages)
