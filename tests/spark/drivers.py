"""A driver of Spark without Spark: plans, runs tasks and commits, in the order a test says."""

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructType

from minikafka import Consumer, TopicPartition
from minikafka.spark.data_source import MinikafkaDataSource
from minikafka.spark.exactly_once import Prepared, Task
from tests.spark.conftest import Broker
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


class Sink:
    """A topic of a real cluster, and drivers that write to it."""

    def __init__(self, broker: Broker, where: Where, name: str, **options: str) -> None:
        self._options = options
        self._broker = broker
        self._where = where
        self.topic = broker.create(name, 2)

    def driver(self, run: str | None, **options: str) -> Driver:
        given = {
            "kafka.bootstrap.servers": self._broker.bootstrap,
            "topic": self.topic,
            "sinkId": self.topic,
            **self._options,
            **options,
        }
        return Driver(self._where, run, **given)

    def visible(self) -> list[str]:
        """What a reader of committed records has, once nothing is open any more."""
        partitions = [TopicPartition(self.topic, p) for p in (0, 1)]
        ends = {
            where: listed.offset
            for where, listed in self._broker.admin.list_offsets(
                dict.fromkeys(partitions, -1)
            ).items()
        }
        found: list[str] = []
        with Consumer(
            self._broker.bootstrap,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        ) as consumer:
            consumer.assign(partitions)
            while any(consumer.position(where) < end for where, end in ends.items()):
                found += [(record.value or b"").decode() for record in consumer.poll(1000)]
        return sorted(found)


@pytest.fixture
def driver(where: Where) -> Driver:
    return Driver(where)
