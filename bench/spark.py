"""The Spark source and sink: against transport-only floors, against Spark's own micro-batches.

Each part runs in a Spark of its own (spark_worker.py) beside one broker. CPU is that of the driver,
the JVM and the Python workers; ratios are of pairs of jobs that ran one after the other.
"""

import importlib.metadata
import importlib.util
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from minikafka.deploy.local_cluster import LocalCluster

ROUNDS = 5
SIZES = (100, 1000)
ROWS = {100: (2_000_000, 800_000), 1000: (400_000, 200_000)}
"""Rows that source and sink jobs are about, by the size of a value."""
OVERHEAD_SECONDS = 10.0
OVERHEAD_ROUNDS = 3
"""Of which the first does not count: the JVM warms up."""
KINDS = ("spark", "at_least_once", "exactly_once")
STREAM_SECONDS = 600.0
"""How long memory is watched, unless the command line says otherwise."""
SETTLED_SHARE = 0.3
"""The first part of a stream, in which the JVM's heap and the workers' pools fill."""
SOURCE_TARGET, SINK_TARGET, OVERHEAD_TARGET_MS = 0.6, 0.5, 150.0

Rows = list[tuple[str, str]]


def measure(stream_seconds: float = STREAM_SECONDS) -> dict[str, Any]:
    """Measure throughput at both sizes, the cost of a micro-batch, and memory over a stream."""
    throughput = []
    for record_bytes in SIZES:
        source_rows, sink_rows = ROWS[record_bytes]
        throughput += _run(
            part="throughput",
            record_bytes=record_bytes,
            source_rows=source_rows,
            sink_rows=sink_rows,
            rounds=ROUNDS,
        )
    overhead = _run(part="overhead", seconds=OVERHEAD_SECONDS, kinds=KINDS, rounds=OVERHEAD_ROUNDS)
    memory = _run(part="memory", seconds=stream_seconds, delivery="exactly_once")
    return {
        "pyspark": importlib.metadata.version("pyspark"),
        "own_connector": _own_connector(),
        "throughput": throughput,
        "overhead": overhead,
        "memory": {**memory, "growth": _growth(memory["samples"])},
    }


def _run(**task: Any) -> Any:
    """Run a part in a Spark of its own, beside a broker of its own."""
    root = str(Path(__file__).parent.parent)
    with LocalCluster(brokers=1) as cluster:
        worker = subprocess.run(
            [sys.executable, "-m", "bench.spark_worker", json.dumps(task | _at(cluster))],
            cwd=root,
            env={**os.environ, "PYTHONPATH": root},  # Spark's workers import the floors
            stdout=subprocess.PIPE,
            check=True,
        )
    return json.loads(worker.stdout)


def _at(cluster: LocalCluster) -> dict[str, str]:
    return {"bootstrap": cluster.bootstrap}


def _own_connector() -> bool:
    """Is the jar of Spark's own Kafka connector here?"""
    spec = importlib.util.find_spec("pyspark")
    folders = spec.submodule_search_locations if spec else None
    return any(
        jar for each in folders or () for jar in Path(each, "jars").glob("spark-sql-kafka*.jar")
    )


def _growth(samples: list[dict[str, float]]) -> dict[str, float]:
    """Say how many MiB a minute each kind of process grows by, once things have settled."""
    later = samples[int(len(samples) * SETTLED_SHARE) :]
    if len(later) < 2:
        return {}
    minutes = [each["at"] / 60 for each in later]
    return {
        kind: statistics.linear_regression(minutes, [each[kind] for each in later]).slope
        for kind in ("workers", "jvm")
    }


# The page.


def checks(results: dict[str, Any]) -> list[tuple[str, str, float, bool]]:
    """Against the targets; nothing where Spark was not measured."""
    found = results.get("spark")
    if found is None:
        return []
    targets = {"source": SOURCE_TARGET, "sink": SINK_TARGET}
    lines = [
        (
            f"Spark {row['what']}, {row['record_bytes']} B, rows per CPU second, of the floor",
            f"≥ {targets[row['what']]}",
            row["of_floor"],
            row["of_floor"] >= targets[row["what"]],
        )
        for row in found["throughput"]
    ]
    for kind, more in _overheads(found).items():
        what = f"Spark micro-batch, source and sink {kind}, over Spark's own (median ms)"
        lines.append((what, f"≤ {OVERHEAD_TARGET_MS:.0f}", more, more <= OVERHEAD_TARGET_MS))
    return lines


def _overheads(found: dict[str, Any]) -> dict[str, float]:
    medians = {kind: each["median_ms"] for kind, each in found["overhead"].items()}
    own = medians.pop("spark")
    return {kind: median - own for kind, median in medians.items()}


def section(results: dict[str, Any]) -> list[str]:
    """Write the section of the page; nothing where Spark was not measured."""
    found = results.get("spark")
    if found is None:
        return []
    own = "is there, and was not measured" if found["own_connector"] else "is not there"
    return [
        "",
        "## Spark",
        "",
        f"PySpark {found['pyspark']}, local[2], one broker. Floors are transport only: a source",
        "that replays a prebuilt Arrow batch, a sink that discards. Rows per second of CPU, of the",
        "driver, the JVM and the Python workers; the broker's is not counted. The ratio is the",
        "median of pairs that ran one after the other.",
        f"The jar of Spark's own Kafka connector {own}.",
        "",
        "| what | bytes | rows/CPU s | floor's | rows/s | floor's | of the floor | spread |",
        "|---|---|---|---|---|---|---|---|",
        *map(_throughput_line, found["throughput"]),
        "",
        "Micro-batches of about 20 rows, without a pause in between:",
        "",
        "| source and sink | median ms | over Spark's own | micro-batches |",
        "|---|---|---|---|",
        *_overhead_lines(found),
        "",
        *_memory_lines(found["memory"]),
    ]


def _throughput_line(row: dict[str, Any]) -> str:
    cells = (
        row["what"],
        row["record_bytes"],
        *(
            f"{row[name]:,.0f}"
            for name in (
                "rows_per_cpu_second",
                "floor_rows_per_cpu_second",
                "rows_per_second",
                "floor_rows_per_second",
            )
        ),
        f"{row['of_floor']:.2f}",
        f"{min(row['ratios']):.2f} to {max(row['ratios']):.2f}",
    )
    return "| " + " | ".join(map(str, cells)) + " |"


def _overhead_lines(found: dict[str, Any]) -> list[str]:
    names = {"spark": "Spark's own: rate-micro-batch to noop"}
    more = _overheads(found)
    return [
        f"| {names.get(kind, f'ours, {kind}')} | {each['median_ms']:.0f} "
        f"| {f'{more[kind]:.0f}' if kind in more else ''} | {each['micro_batches']} |"
        for kind, each in found["overhead"].items()
    ]


def _memory_lines(memory: dict[str, Any]) -> list[str]:
    samples = memory["samples"]
    first = samples[int(len(samples) * SETTLED_SHARE)]
    last = samples[-1]
    names = {"workers": "Python workers, all together", "jvm": "JVM (driver and executor)"}
    return [
        f"Memory (PSS) over a stream of {memory['seconds'] / 60:.0f} minutes, exactly once, "
        f"{memory['micro_batches']:,} micro-batches:",
        "",
        f"| what | after {first['at'] / 60:.1f} min, MiB | at the end, MiB | most, MiB "
        "| growth between, MiB/min |",
        "|---|---|---|---|---|",
        *(
            f"| {name} | {first[kind]:.0f} | {last[kind]:.0f} "
            f"| {max(each[kind] for each in samples):.0f} "
            f"| {memory['growth'].get(kind, 0.0):+.1f} |"
            for kind, name in names.items()
        ),
    ]


def say(found: dict[str, Any]) -> list[str]:
    """Say what a run found, for the terminal."""
    return [
        *section({"spark": found})[9:],
        *(
            f"{what}: {figure:.2f} (target {target}){'' if met else ', MISSED'}"
            for what, target, figure, met in checks({"spark": found})
        ),
    ]
