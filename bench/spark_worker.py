"""What runs inside Spark: one part of the Spark section in a process of its own, answer on stdout.

    python -m bench.spark_worker '{"part": "throughput", "bootstrap": "...", ...}'

CPU is that of this process, the JVM and the Python workers together; never that of the brokers.
"""

import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from minikafka import Admin, Columns, NewTopic, Producer
from minikafka.spark.examples.flights import jobs

from .meters import descendants, pss_mib, tree_cpu_seconds
from .spark_floor import BATCH_ROWS, KEYS, TASKS, FloorSource, keys_and_values

DRIVER_MEMORY = "1g"
ROWS_PER_TRIGGER = 20
FEED_PAUSE_SECONDS = 0.02
FIRST_TRIGGERS = 5
SAMPLE_SECONDS = 5.0
STREAM_RECORD_BYTES = 200
STREAM_ROWS_PER_SECOND = 2000


@dataclass
class Bench:
    """Spark, and the cluster beside it."""

    spark: SparkSession
    bootstrap: str
    folder: Path

    def minikafka(self, made: Any, **options: str) -> Any:
        """Put our format and the cluster's address into a reader or writer."""
        servers = ("kafka.bootstrap.servers", self.bootstrap)
        return made.format("minikafka").option(*servers).options(**options)

    @contextmanager
    def topic(self, name: str) -> Iterator[str]:
        """A topic for as long as it is needed: what was written is not kept."""
        with Admin(self.bootstrap) as admin:
            admin.create_topics([NewTopic(name, TASKS, 1)])
            yield name
            admin.delete_topics([name])


def run_throughput(bench: Bench, task: dict[str, Any]) -> list[dict[str, Any]]:
    """Measure source and sink against their floors, one after the other, in pairs."""
    record_bytes, rounds = task["record_bytes"], task["rounds"]
    found = []
    for what, rows, floor, ours in (
        ("source", task["source_rows"], _replay, _read),
        ("sink", task["sink_rows"], _discard, _write),
    ):
        with bench.topic(f"{what}-{record_bytes}") as topic:
            if what == "source":
                _fill(bench, topic, rows, record_bytes)
            job = Job(bench, topic, rows, record_bytes)
            pairs = []
            for number in range(-1, rounds):
                order = (floor, ours) if number % 2 else (ours, floor)
                spent = {each: _spent(job, each) for each in order}
                if number >= 0:  # the first is for the JVM to warm up
                    pairs.append((spent[floor], spent[ours]))
        found.append(
            {"what": what, "record_bytes": record_bytes, "rows": rows, **_compared(pairs, rows)}
        )
    return found


@dataclass
class Job:
    """What one measured job needs."""

    bench: Bench
    topic: str
    rows: int
    record_bytes: int


def _spent(job: Job, run: Callable[[Job], None]) -> tuple[float, float]:
    before, began = tree_cpu_seconds(os.getpid()), time.perf_counter()
    run(job)
    return tree_cpu_seconds(os.getpid()) - before, time.perf_counter() - began


def _compared(pairs: list[Any], rows: int) -> dict[str, Any]:
    return {
        "floor_rows_per_cpu_second": rows / statistics.median(floor[0] for floor, _ in pairs),
        "rows_per_cpu_second": rows / statistics.median(ours[0] for _, ours in pairs),
        "rows_per_second": rows / statistics.median(ours[1] for _, ours in pairs),
        "floor_rows_per_second": rows / statistics.median(floor[1] for floor, _ in pairs),
        "ratios": [floor[0] / ours[0] for floor, ours in pairs],
        "of_floor": statistics.median(floor[0] / ours[0] for floor, ours in pairs),
    }


def _fill(bench: Bench, topic: str, rows: int, record_bytes: int) -> None:
    keys, values = keys_and_values(record_bytes)
    with Producer(bench.bootstrap) as producer:
        for number in range(rows // BATCH_ROWS):
            producer.send_batch(topic, Columns(values, keys), partition=number % TASKS)


def _replay(job: Job) -> None:
    options = {"rows": str(job.rows), "recordBytes": str(job.record_bytes)}
    _count_into_nothing(job, job.bench.spark.read.format("floor").options(**options).load())


def _read(job: Job) -> None:
    _count_into_nothing(job, job.bench.minikafka(job.bench.spark.read, subscribe=job.topic).load())


def _count_into_nothing(job: Job, frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _rows(job: Job) -> DataFrame:
    key = F.concat(F.lit("key-"), F.lpad((F.col("id") % KEYS).cast("string"), 6, "0"))
    frame = job.bench.spark.range(0, job.rows, 1, TASKS)
    return frame.select(
        key.cast("binary").alias("key"), F.lit(b"v" * job.record_bytes).alias("value")
    )


def _discard(job: Job) -> None:
    _rows(job).write.format("floor").mode("append").save()


def _write(job: Job) -> None:
    job.bench.minikafka(_rows(job).write, topic=job.topic).mode("append").save()


def run_overhead(bench: Bench, task: dict[str, Any]) -> dict[str, Any]:
    """Measure how long a micro-batch takes by Spark's own source and sink, and by ours."""
    found: dict[str, list[float]] = {kind: [] for kind in task["kinds"]}
    for number in range(task["rounds"]):
        for kind in task["kinds"]:
            query = Query(bench, kind, f"in-{kind}-{number}", f"out-{kind}-{number}")
            with bench.topic(query.source), bench.topic(query.sink), _fed(query, _trickle):
                triggers = _triggers(query, task["seconds"])
            if number > 0:  # the first round is for the JVM to warm up
                found[kind] += triggers
    return {
        kind: {"median_ms": statistics.median(each), "micro_batches": len(each)}
        for kind, each in found.items()
    }


@dataclass
class Query:
    """Spark's own source and sink ("spark"), or ours with a delivery."""

    bench: Bench
    kind: str
    source: str
    sink: str

    def start(self) -> Any:
        """Run it with no pause between micro-batches."""
        bench = self.bench
        checkpoint = tempfile.mkdtemp(dir=bench.folder)
        if self.kind == "spark":
            own = bench.spark.readStream.format("rate-micro-batch")
            own = own.option("rowsPerBatch", ROWS_PER_TRIGGER).option("numPartitions", TASKS)
            writer = own.load().writeStream.format("noop")
        else:
            options = {"subscribe": self.source, "startingOffsets": "earliest"}
            rows = bench.minikafka(bench.spark.readStream, **options).load().select("key", "value")
            writer = bench.minikafka(rows.writeStream, topic=self.sink, delivery=self.kind)
        checked = writer.option("checkpointLocation", checkpoint)
        return checked.trigger(processingTime="0 seconds").start()


def _triggers(wanted: Query, seconds: float) -> list[float]:
    """Say how many ms each micro-batch took, once the first are done."""
    query = wanted.start()
    try:
        _until(query, lambda: len(_progress(query)) > FIRST_TRIGGERS)
        first = _progress(query)[-1]["batchId"]
        time.sleep(seconds)
        done = [each for each in _progress(query) if each["batchId"] > first]
    finally:
        query.stop()
    return [each["durationMs"]["triggerExecution"] for each in done]


def _progress(query: Any) -> list[Any]:
    return [each for each in query.recentProgress if each["numInputRows"]]


def _until(query: Any, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not holds():
        if not query.isActive or time.monotonic() > deadline:
            raise RuntimeError(f"the query does not run: {query.exception() or query.status}")
        time.sleep(0.05)


def run_memory(bench: Bench, task: dict[str, Any]) -> dict[str, Any]:
    """Stream for long, and see what the Python workers and the JVM hold meanwhile."""
    samples: list[dict[str, float]] = []
    wanted = Query(bench, task["delivery"], "in", "out")
    with bench.topic("in"), bench.topic("out"), _fed(wanted, _steady):
        query = wanted.start()
        try:
            _until(query, lambda: len(_progress(query)) > FIRST_TRIGGERS)
            began = time.monotonic()
            while time.monotonic() < began + task["seconds"]:
                time.sleep(SAMPLE_SECONDS)
                _until(query, lambda: True)
                samples.append({"at": time.monotonic() - began, **_held()})
            batches = query.lastProgress["batchId"]
        finally:
            query.stop()
    return {"seconds": task["seconds"], "micro_batches": batches, "samples": samples}


def _held() -> dict[str, float]:
    """MiB of the JVM and of all Python workers."""
    held = {"jvm": 0.0, "workers": 0.0}
    for pid in descendants(os.getpid()):
        try:
            kind = "jvm" if Path(f"/proc/{pid}/comm").read_text().strip() == "java" else "workers"
            held[kind] += pss_mib(pid)
        except (FileNotFoundError, ProcessLookupError, ValueError):
            continue  # it has just ended
    return held


@contextmanager
def _fed(query: Query, feed: Callable[[Producer, str], None]) -> Iterator[None]:
    """Have records come in, a few at a time, for as long as the block runs."""
    over = threading.Event()

    def run() -> None:
        with Producer(query.bench.bootstrap) as producer:
            while not over.wait(FEED_PAUSE_SECONDS):
                feed(producer, query.source)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _trickle(producer: Producer, topic: str) -> None:
    for partition in range(TASKS):
        producer.send(topic, b"v" * 100, partition=partition)


def _steady(producer: Producer, topic: str) -> None:
    rows = int(STREAM_ROWS_PER_SECOND * FEED_PAUSE_SECONDS)
    producer.send_batch(topic, Columns([os.urandom(STREAM_RECORD_BYTES) for _ in range(rows)]))


PARTS: dict[str, Callable[[Bench, dict[str, Any]], Any]] = {
    "throughput": run_throughput,
    "overhead": run_overhead,
    "memory": run_memory,
}


def main() -> None:
    """Run the part that the argument asks for."""
    task = json.loads(sys.argv[1])
    folder = Path(tempfile.mkdtemp())
    spark = jobs.session(folder / "spark.log")
    spark.dataSource.register(FloorSource)
    try:
        found = PARTS[task["part"]](Bench(spark, task["bootstrap"], folder), task)
    finally:
        spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
