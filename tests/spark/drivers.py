"""A driver of Spark without Spark: plans, runs tasks and commits, in the order a test says."""

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructType

from minikafka.spark.data_source import MinikafkaDataSource
from minikafka.spark.exactly_once import Prepared, Task
from tests.spark.fake_cluster import SERVERS

SCHEMA = StructType().add("value", StringType())


@dataclass
class Where:
    """Which task it is that runs."""

    task: Task = Task(0, 0, "query", "run-1")  # noqa: RUF009  (immutable)


@pytest.fixture
def where(monkeypatch: pytest.MonkeyPatch) -> Where:
    found = Where()
    monkeypatch.setattr(Task, "current", lambda: found.task)
    return found


class Driver:
    """One start of a query, or one job: plans and commits as Spark does, from fresh pickles."""

    def __init__(self, where: Where, run: str | None = "run-1", **options: str) -> None:
        self._where = where
        self._run = run
        given = {**SERVERS, "topic": "t", "delivery": "exactly_once", **options}
        self._source = MinikafkaDataSource(given)
        self._job = pickle.dumps(self._source.writer(SCHEMA, False))

    def _writer(self, is_stream: bool) -> Any:
        if is_stream:  # planned anew for each micro-batch, and again for the commit
            return pickle.loads(pickle.dumps(self._source.streamWriter(SCHEMA, False)))
        return pickle.loads(self._job)

    def task(
        self,
        *values: str | None,
        partition: int = 0,
        attempt: int = 0,
        is_stream: bool = True,
        fails: bool = False,
    ) -> Prepared:
        query = "query" if self._run is not None else None
        self._where.task = Task(partition, attempt, query, self._run)

        def batches() -> Iterator[pa.RecordBatch]:
            for value in values:
                yield pa.RecordBatch.from_pydict({"value": pa.array([value], pa.string())})
            if fails:
                raise RuntimeError("killed")

        prepared: Prepared = self._writer(is_stream).write(batches())
        # Messages travel to the driver.
        again: Prepared = pickle.loads(pickle.dumps(prepared))
        return again

    def commit(self, batch_id: int, *messages: Prepared) -> None:
        self._writer(True).commit(list(messages), batch_id)

    def abort(self, batch_id: int, *messages: Prepared | None) -> None:
        self._writer(True).abort(list(messages), batch_id)

    def commit_job(self, *messages: Prepared) -> None:
        self._writer(False).commit(list(messages))

    def abort_job(self, *messages: Prepared | None) -> None:
        self._writer(False).abort(list(messages))
