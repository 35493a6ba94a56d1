"""Quix Streams as pip gives it: counts, a join, windows, two members, recovery, docs/streams.md.

Exactly once under kills is scenario X-60, tests/system/test_streams.py.
"""

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from minikafka import (
    Admin,
    AdminError,
    ApiError,
    ConfigChange,
    ConfigResource,
    Consumer,
    NewTopic,
    TopicPartition,
)
from minikafka.protocol.records.record_batch import headers, records

from ..support.cluster import Cluster, running_cluster, wait_until
from . import quix
from .conftest import SETTINGS

pytestmark = pytest.mark.slow
PAGE = Path(__file__).parents[2] / "docs" / "streams.md"
ORDERS = 600
STEP_MS = 20
"""Of the orders' own time: the windows are of that time."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster of its own, because the library makes topics and groups by fixed names."""
    quix.python()
    with running_cluster(tmp_path / "cluster", brokers=1, broker_settings=SETTINGS) as cluster:
        yield cluster


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[Admin]:
    with Admin(cluster.bootstrap) as admin:
        yield admin


def feed(bootstrap: str, numbers: range, began_ms: int) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    for n in numbers:
        at = began_ms + n * STEP_MS
        where = quix.partition_of(n)
        producer.produce(quix.ORDERS, quix.order(n), quix.key_of(n), where, timestamp=at)
    assert producer.flush(30) == 0


def wait_for_counts(bootstrap: str, total: int) -> None:
    """Wait until every order is in the output that is committed."""
    wait_until(
        lambda: sum(map(len, quix.committed(bootstrap, quix.COUNTS).values())) >= total,
        within_s=90,
        every_s=0.3,
    )


def test_two_members_count_join_and_close_windows(
    cluster: Cluster, admin: Admin, tmp_path: Path
) -> None:
    admin.create_topics([NewTopic(name, quix.PARTITIONS, 1) for name in quix.TOPICS])
    began_ms = int(time.time() * 1000)
    quix.feed_names(cluster.bootstrap, began_ms - 1)
    where = cluster.bootstrap
    with (
        quix.Instance(where, tmp_path, 0, "at-least-once") as one,
        quix.Instance(where, tmp_path, 1, "at-least-once") as other,
    ):
        wait_until(lambda: members_with_partitions(admin) == 2, within_s=90, every_s=0.3)
        feed(where, range(ORDERS), began_ms)
        wait_for_counts(where, ORDERS)
        one.stop()
        other.stop()
    assert quix.committed(where, quix.COUNTS) == quix.expected_counts(ORDERS)
    found = quix.committed(where, quix.WINDOWS)
    assert found == quix.expected_windows(ORDERS, began_ms, STEP_MS)


def members_with_partitions(admin: Admin) -> int:
    try:
        group = admin.describe_groups([quix.GROUP])[quix.GROUP]
    except AdminError:
        return 0
    return sum(1 for member in group.members if member.assignment)


def test_x_62_recovery_from_a_compacted_changelog_that_ends_in_a_marker_ends(
    cluster: Cluster, admin: Admin, tmp_path: Path
) -> None:
    admin.create_topics([NewTopic(name, quix.PARTITIONS, 1) for name in quix.TOPICS])
    began_ms = int(time.time() * 1000)
    quix.feed_names(cluster.bootstrap, began_ms - 1)
    with quix.Instance(cluster.bootstrap, tmp_path, 0, "exactly-once") as one:
        wait_until(lambda: changelogs(admin), within_s=60)
        for name in changelogs(admin):
            resource = ConfigResource.topic(name)
            admin.incremental_alter_configs({resource: COMPACTED})
        for first in range(0, ORDERS, 200):
            feed(cluster.bootstrap, range(first, first + 200), began_ms)
            wait_for_counts(cluster.bootstrap, first + 200)
        one.stop()
        folder = cluster.broker(1).data
        changelog = next(name for name in changelogs(admin) if name.endswith("orders--default"))
        logs = [folder / f"{changelog}-{index}" for index in range(quix.PARTITIONS)]
        wait_until(lambda: all(map(is_compacted, logs)), within_s=60)
        shutil.rmtree(one.state)
        one.start()
        feed(cluster.bootstrap, range(ORDERS, 2 * ORDERS), began_ms)
        wait_for_counts(cluster.bootstrap, 2 * ORDERS)
        one.stop()
        assert "Recovery successful" in one.log()
    assert quix.committed(cluster.bootstrap, quix.COUNTS) == quix.expected_counts(2 * ORDERS)


COMPACTED = [
    ConfigChange("segment.bytes", "400"),
    ConfigChange("min.cleanable.dirty.ratio", "0"),
    ConfigChange("delete.retention.ms", "0"),
]


def changelogs(admin: Admin) -> list[str]:
    return [each.name for each in admin.list_topics() if each.name.startswith("changelog__")]


def read_all(bootstrap: str, topic: str) -> list[tuple[bytes | None, Any]]:
    """The records of a topic of one partition; none if there is no such topic yet."""
    place = TopicPartition(topic, 0)
    with Consumer(
        bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        try:
            end = consumer.end_offsets([place])[place]
        except ApiError:
            return []
        consumer.assign([place])
        found: list[tuple[bytes | None, Any]] = []
        while consumer.position(place) < end:
            polled = consumer.poll(timeout_ms=1000)
            found += [(one.key, json.loads(one.value or b"null")) for one in polled]
    return found


def is_compacted(directory: Path) -> bool:
    """Of each key one record is left in all segments but the newest, and a marker is the last."""
    last_is_marker = False
    keys: list[bytes | None] = []
    paths = sorted(directory.glob("*.log"))
    try:
        for path in paths:
            data = path.read_bytes()
            for position, header in headers(data):
                last_is_marker = header.is_control
                if path is not paths[-1] and not header.is_control:
                    keys += [one.key for one in records(data, position)]
    except FileNotFoundError:  # A segment was just removed.
        return False
    return last_is_marker and len(paths) > 1 and len(keys) == len(set(keys)) > 0


def test_the_example_of_the_page_runs(cluster: Cluster, tmp_path: Path) -> None:
    (program,) = re.findall(r"^```python\n(.+?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert quix.REQUIREMENTS.read_text().strip() in PAGE.read_text()
    path = tmp_path / "clicks.py"
    path.write_text(program.replace("127.0.0.1:9092", cluster.bootstrap))
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap})
    minute = 60_000
    start = int(time.time() * 1000) // minute * minute
    for at in (start, start + 1, start + 2, start + minute):
        producer.produce("clicks", b'{"page": "/"}', b"ann", timestamp=at)
    assert producer.flush(30) == 0
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([quix.python(), str(path)], cwd=tmp_path, stdout=log, stderr=log)
    try:
        found = wait_until(lambda: read_all(cluster.bootstrap, "clicks-per-minute"), within_s=60)
    except BaseException:
        print((tmp_path / "log").read_text()[-3000:])
        raise
    finally:
        process.terminate()
        process.wait(30)
    assert found == [(b"ann", {"start": start, "end": start + minute, "value": 3})]
