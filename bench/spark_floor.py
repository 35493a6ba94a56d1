"""Transport-only floors for Spark: a source that replays a prebuilt batch, a sink that discards.

What they cost is Spark's own: planning, tasks, Arrow between the JVM and Python. Neither connects
anywhere.
"""

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from minikafka.spark.source import schema_of

BATCH_ROWS, BATCH_BYTES = 10_000, 1_000_000
"""Most rows and bytes of a replayed batch: about what the source that is measured makes."""
COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
TASKS = 2
KEYS = 50_000


def keys_and_values(record_bytes: int, rows: int = BATCH_ROWS) -> tuple[pa.Array, pa.Array]:
    """Make what every case sends or replays: keys of 10 bytes, values of `record_bytes`."""
    values = [os.urandom(record_bytes) for _ in range(100)]
    keys = [b"key-%06d" % (n * 7919 % KEYS) for n in range(rows)]
    return pa.array(keys, pa.binary()), pa.array(
        [values[n % 100] for n in range(rows)], pa.binary()
    )


class FloorSource(DataSource):
    """Options: rows, recordBytes."""

    @classmethod
    def name(cls) -> str:
        """What `format()` finds."""
        return "floor"

    def schema(self) -> StructType:
        """Give the columns of the source that is measured."""
        return schema_of(COLUMNS)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Replay."""
        return _Replay(schema, int(self.options["rows"]), int(self.options["recordBytes"]))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Discard."""
        return _Discard()


class _Replay(DataSourceReader):
    def __init__(self, schema: StructType, rows: int, record_bytes: int) -> None:
        self.schema, self.rows, self.record_bytes = schema, rows, record_bytes

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(each) for each in range(TASKS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        size = min(BATCH_ROWS, BATCH_BYTES // self.record_bytes)
        keys, values = keys_and_values(self.record_bytes, size)
        now_us = time.time_ns() // 1000
        columns: list[Any] = [
            keys,
            values,
            pa.repeat(pa.scalar("topic"), size),
            pa.array(np.full(size, partition.value, dtype=np.int32)),
            pa.array(np.arange(size)),
            pa.array(np.full(size, now_us), pa.timestamp("us", tz="UTC")),
            pa.array(np.zeros(size, dtype=np.int32)),
        ]
        schema = to_arrow_schema(self.schema, timezone="UTC")
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        for _ in range(self.rows // TASKS // size):
            yield batch


@dataclass
class _Counted(WriterCommitMessage):
    rows: int


class _Discard(DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _Counted(sum(batch.num_rows for batch in iterator))
