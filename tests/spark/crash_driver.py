"""A driver program that is to fail: runs the queries it is told of, those of a line at once.

Its sink is the product's, with a misfortune around one of its calls, which happens once. A flag is
an empty file in the folder of the query: `reached` says that the misfortune is under way, `go` that
it is over.

    [{"query": ..., "source": ..., "target": ..., "misfortune": ..., "kind": ..., "options": {}}]
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from minikafka import Admin
from minikafka.spark.data_source import MinikafkaDataSource
from minikafka.spark.examples.flights import jobs

WAIT_SECONDS = 120
TOO_SLOW = "Python worker failed to connect back"
"""Spark gives a worker 10 s to start, whatever its settings: too few on a machine under load."""


class Misfortune:
    """What happens, where, and once."""

    def __init__(self, kind: str, folder: str, servers: str) -> None:
        self._kind = kind
        self._folder = Path(folder)
        self._servers = servers

    def strikes(self, *kinds: str) -> bool:
        """Is it one of these, and has it not happened yet?"""
        if self._kind not in kinds:
            return False
        try:
            (self._folder / "happened").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def reach_and_wait(self) -> None:
        (self._folder / "reached").touch()
        deadline = time.monotonic() + WAIT_SECONDS
        while not (self._folder / "go").exists():
            if time.monotonic() > deadline:
                raise TimeoutError(f"nobody said go for {self._kind}")
            time.sleep(0.02)

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give a task its rows; half of its first batch is written when something happens."""
        for batch in batches:
            if batch.num_rows > 1 and self._is_first_attempt():
                half = batch.num_rows // 2
                yield batch.slice(0, half)
                if self.strikes("task fails"):
                    raise RuntimeError("the task fails as it was told to")
                if self.strikes("pause in task"):
                    self.reach_and_wait()
                yield batch.slice(half)
            else:
                yield batch

    def _is_first_attempt(self) -> bool:
        context = TaskContext.get()
        return context is not None and context.attemptNumber() == 0

    def before_commit(self, messages: Sequence[Any]) -> None:
        if self.strikes("pause before commit"):
            self.reach_and_wait()
        if self.strikes("transactions time out"):
            names = [each.transaction.transactional_id for each in messages if each.transaction]
            deadline = time.monotonic() + WAIT_SECONDS
            with Admin(self._servers) as admin:
                while any(
                    each.state == "Ongoing" for each in admin.describe_transactions(names).values()
                ):
                    if time.monotonic() > deadline:
                        raise TimeoutError(f"still open: {names}")
                    time.sleep(0.1)

    def after_commit(self) -> None:
        if self.strikes("pause after commit"):
            self.reach_and_wait()
        if self.strikes("commit raises"):
            raise RuntimeError("the commit raises as it was told to")


class Unlucky(DataSource):
    """The product's sink, and a misfortune."""

    @classmethod
    def name(cls) -> str:
        return "unlucky"

    def _parts(self) -> tuple[MinikafkaDataSource, Misfortune]:
        options = dict(self.options)
        kind, folder = options.pop("misfortune"), options.pop("folder")
        servers = options["kafka.bootstrap.servers"]
        return MinikafkaDataSource(options), Misfortune(kind, folder, servers)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        source, misfortune = self._parts()
        return UnluckyStream(source.streamWriter(schema, overwrite), misfortune)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        source, misfortune = self._parts()
        return UnluckyBatch(source.writer(schema, overwrite), misfortune)


class UnluckyStream(DataSourceStreamArrowWriter):
    def __init__(self, real: Any, misfortune: Misfortune) -> None:
        self._real = real
        self._misfortune = misfortune

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        message: WriterCommitMessage = self._real.write(self._misfortune.rows(iterator))
        return message

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._misfortune.before_commit(messages)
        self._real.commit(messages, batchId)
        self._misfortune.after_commit()

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._real.abort(messages, batchId)


class UnluckyBatch(DataSourceArrowWriter):
    def __init__(self, real: Any, misfortune: Misfortune) -> None:
        self._real = real
        self._misfortune = misfortune

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        message: WriterCommitMessage = self._real.write(self._misfortune.rows(iterator))
        return message

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._misfortune.before_commit(messages)
        self._real.commit(messages)
        self._misfortune.after_commit()

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._real.abort(messages)


def session(log: Path) -> SparkSession:
    """Start Spark with little memory, and a second attempt for a task that fails."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = (
        SparkSession.builder.master("local[2,2]")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.shuffle.partitions", 2)
        .config("spark.ui.enabled", False)
        .config("spark.ui.showConsoleProgress", False)
    )
    with jobs.output_to(log):
        return builder.getOrCreate()


def begin(
    spark: SparkSession, servers: str, folder: Path, told: dict[str, Any]
) -> StreamingQuery | None:
    """Start a query over what there is; a job is run to its end."""
    mine = folder / told["query"]
    mine.mkdir(exist_ok=True)
    options = {
        "kafka.bootstrap.servers": servers,
        "topic": told["target"],
        "delivery": "exactly_once",
        "misfortune": told["misfortune"],
        "folder": str(mine),
        **told["options"],
    }
    source = {"kafka.bootstrap.servers": servers, "subscribe": told["source"]}
    if told["kind"] == "batch":
        frame = spark.read.format("minikafka").options(**source).load().select("value")
        frame.write.format("unlucky").options(**options).mode("append").save()
        return None
    stream = spark.readStream.format("minikafka").options(
        **source, startingOffsets="earliest", maxOffsetsPerTrigger="30"
    )
    frame = stream.load().select("key", "value", "partition")
    if told["kind"] == "foreach batch":

        def write(rows: DataFrame, batch_id: int) -> None:
            each = {**options, "batchId": str(batch_id)}
            rows.write.format("unlucky").options(**each).mode("append").save()

        writing = frame.writeStream.foreachBatch(write)
    else:
        writing = frame.writeStream.format("unlucky").options(**options)
    checkpoint = str(mine / "checkpoint")
    return writing.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()


def run(spark: SparkSession, servers: str, folder: Path, told: list[dict[str, Any]]) -> list[Any]:
    """Run them all; give why each failed, None if it did not."""
    starts = [partial(begin, spark, servers, folder, each) for each in told]
    queries = [start() for start in starts]
    return [why_it_failed(query, start) for query, start in zip(queries, starts, strict=True)]


def why_it_failed(
    query: StreamingQuery | None, start: Callable[[], StreamingQuery | None], attempts: int = 5
) -> str | None:
    """Wait for the end of a query, which begins again if only its workers were slow."""
    try:
        if query is not None:
            query.awaitTermination()
    except PySparkException as failure:
        if TOO_SLOW in str(failure) and attempts > 1:
            return why_it_failed(start(), start, attempts - 1)
        return str(failure)
    return None


def main() -> None:
    """Serve the lines of standard input."""
    servers, folder = sys.argv[1], Path(sys.argv[2])
    spark = session(folder / f"spark-{os.getpid()}.log")
    spark.dataSource.register(Unlucky)
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(run(spark, servers, folder, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
