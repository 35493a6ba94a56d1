"""Faults that examples cause on purpose: a task that fails, a broker that is killed."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from ...client.admin.sync_admin import Admin
from ...deploy.local_cluster import LocalCluster
from ...protocol.messages.list_offsets import LATEST_TIMESTAMP
from ...protocol.types import TopicPartition

if TYPE_CHECKING:
    from pyarrow import RecordBatch

WRITTEN_SECONDS = 60.0
FIRST_BATCH_SECONDS = 300.0


def fail_once(frame: DataFrame, marker: Path, bootstrap: str, target: str) -> DataFrame:
    """Let one task of a query fail, once: when each partition of the topic `target` has records.

    The task fails after WRITTEN_SECONDS even if a partition has none. The failing task creates the
    file `marker`.
    """
    path = str(marker)

    def fail(batches: "Iterator[RecordBatch]") -> "Iterator[RecordBatch]":
        rows = 0
        for batch in batches:
            rows += batch.num_rows
            # In small pieces, because the rest in this worker's buffer is sent only with later
            # rows.
            for first in range(0, batch.num_rows, 500):
                yield batch.slice(first, 500)
        if rows and _is_first(path):
            _wait_until_written(bootstrap, target)
            raise RuntimeError("this task was told to fail once")

    return frame.mapInArrow(fail, frame.schema)


def _is_first(marker: str) -> bool:
    try:
        with open(marker, "x"):
            return True
    except FileExistsError:
        return False


def _wait_until_written(bootstrap: str, topic: str) -> None:
    """Wait until each partition has records, committed or not; give up after a while."""
    deadline = time.monotonic() + WRITTEN_SECONDS
    with Admin(bootstrap) as admin:
        indexes = [p.partition for p in admin.describe_topics([topic])[topic].partitions]
        ends = {TopicPartition(topic, index): LATEST_TIMESTAMP for index in indexes}
        while not all(end.offset for end in admin.list_offsets(ends).values()):
            if time.monotonic() > deadline:
                return
            time.sleep(0.05)


def batches_done(query: StreamingQuery) -> int:
    """Count the finished micro-batches that had rows."""
    return len({each.batchId for each in query.recentProgress if each.numInputRows})


def kill_leader(cluster: LocalCluster, topic: str) -> int:
    """Kill the broker that leads partition 0 with SIGKILL, and return its id."""
    with Admin(cluster.bootstrap) as admin:
        leader = admin.describe_topics([topic])[topic].partitions[0].leader_id
    cluster.kill(leader)
    return leader


def kill_under(query: StreamingQuery, cluster: LocalCluster, topic: str) -> tuple[int, int]:
    """Kill the leader after the first micro-batch; return its id and the batches so far.

    Raise TimeoutError if none ends in FIRST_BATCH_SECONDS.
    """
    deadline = time.monotonic() + FIRST_BATCH_SECONDS
    while query.isActive and not batches_done(query):
        if time.monotonic() > deadline:
            status = query.status
            query.stop()
            raise TimeoutError(f"no micro-batch ended in {FIRST_BATCH_SECONDS:.0f} s: {status}")
        time.sleep(0.05)
    return kill_leader(cluster, topic), batches_done(query)
