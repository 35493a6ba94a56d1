"""Rows of a table through Connect into files and another table, while everything is killed.

    python -m tests.system.connect_play --minutes 10 [--seed 7]

    SQLite -> SqlSource -> topic from-items -> ObjectSink -> Parquet
                                            -> SqlSink    -> SQLite

Three workers of a group run the connectors, exactly once, on three brokers. Workers, leaders of the
topic, coordinators of groups and of transactions and the controller are killed with kill -9, in an
order that the seed gives. At the end the topic, the files and the other table are compared with the
first table: each row once. The report is JSON; where something is wrong, it says what, the exit
code is 1, and logs and data stay in the directory that it names.
"""

import argparse
import json
import os
import random
import shutil
import sqlite3
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from minikafka import Admin, NewTopic
from minikafka.connect.cli.api import ConnectApi, Refused

from ..support.cluster import Cluster, free_ports, running_cluster, wait_until
from .exactly_once import (
    PARTITIONS,
    SETTINGS,
    Application,
    Killer,
    read_with_ours,
    wait_until_decided,
)

TABLE, TOPIC = "items", "from-items"
WORKERS = 3
RATE = 100
"""Rows a second."""
FILE_ROWS = 40
DONE_WITHIN_S = 240
SETTLED_S = 10
"""A row that comes twice comes within this time behind the last one."""

WORKER = {
    "group.id": "play",
    "config.storage.topic": "play-configs",
    "offset.storage.topic": "play-offsets",
    "status.storage.topic": "play-status",
    "offset.storage.partitions": "5",
    "key.converter": "JsonConverter",
    "value.converter": "JsonConverter",
    "exactly.once.source.support": "enabled",
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "1000",
    "scheduled.rebalance.max.delay.ms": "1000",
    "offset.flush.interval.ms": "500",
    "consumer.isolation.level": "read_committed",
    "consumer.session.timeout.ms": "6000",
    "minikafka.connect.task.restart.backoff.ms": "500",
}


class Table:
    """The table that rows come from; a thread adds to it until it is told to stop."""

    def __init__(self, file: Path) -> None:
        self.rows = 0
        self._file = file
        with closing(self._open()) as database:
            database.execute("PRAGMA journal_mode=WAL")
            database.execute(f"CREATE TABLE {TABLE} (id INTEGER PRIMARY KEY, text TEXT NOT NULL)")
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rows")
        self._thread.start()

    def add(self, count: int) -> None:
        """Add rows, in a transaction."""
        with closing(self._open()) as database, database:
            more = range(self.rows + 1, self.rows + count + 1)
            database.executemany(
                f"INSERT INTO {TABLE} VALUES (?, ?)", [(n, f"row {n}") for n in more]
            )
        self.rows += count

    def stop(self) -> int:
        """End the thread; return the number of rows."""
        self._stopped.set()
        self._thread.join(60)
        assert not self._thread.is_alive()
        return self.rows

    def _run(self) -> None:
        start = time.monotonic()
        while not self._stopped.wait(0.05):
            count = int((time.monotonic() - start) * RATE) - self.rows
            if count > 0:
                self.add(count)

    def _open(self) -> sqlite3.Connection:
        return sqlite3.connect(self._file, timeout=60)


def connectors(directory: Path) -> dict[str, dict[str, str]]:
    """Return the configuration of each connector, by its name."""
    sink = {"topics": TOPIC, "tasks.max": "2", "max.retries": "1000", "retry.backoff.ms": "200"}
    return {
        "source": {
            "connector.class": "SqlSource",
            "connection.url": f"sqlite:///{directory}/source.db",
            "connection.attempts": "100",
            "connection.backoff.ms": "200",
            "mode": "incrementing",
            "incrementing.delay.interval.ms": "500",
            "tables": TABLE,
            "topic.prefix": "from-",
            "poll.interval.ms": "100",
            "exactly.once.support": "required",
            "transforms": "key",
            "transforms.key.type": "ValueToKey",
            "transforms.key.fields": "id",
        },
        "files": {
            **sink,
            "connector.class": "ObjectSink",
            "store.url": f"file://{directory}/files",
            "format": "parquet",
            "flush.size": str(FILE_ROWS),
        },
        "rows": {
            **sink,
            "connector.class": "SqlSink",
            "connection.url": f"sqlite:///{directory}/target.db",
            "table.name.format": TABLE,
            "auto.create": "true",
        },
    }


def in_topic(bootstrap: str) -> Counter[int]:
    """Count the committed records of each row."""
    wait_until_decided(bootstrap, TOPIC)
    found = read_with_ours(bootstrap, TOPIC)
    return Counter(json.loads(value)["payload"]["id"] for part in found for value in part)


def in_files(directory: Path) -> Counter[int]:
    """Count each row in the Parquet files."""
    files = (directory / "files").glob(f"{TOPIC}/partition=*/*.parquet")
    columns = (pq.read_table(file, columns=["value"], partitioning=None) for file in files)
    return Counter(row["id"] for table in columns for row in table.column("value").to_pylist())


def in_table(directory: Path) -> Counter[int]:
    """Count each row in the target's table, which has no key that would hide doubles."""
    file = directory / "target.db"
    if not file.exists():
        return Counter()
    with closing(sqlite3.connect(file, timeout=60)) as database:
        try:
            return Counter(each for (each,) in database.execute(f"SELECT id FROM {TABLE}"))
        except sqlite3.OperationalError:
            return Counter()  # the table is not there yet


def play(directory: Path, seconds: float, seed: int) -> dict[str, Any]:
    """Run everything, check what came, and tell what was killed how often."""
    with (
        running_cluster(directory, brokers=3, broker_settings=SETTINGS) as cluster,
        Admin(cluster.bootstrap) as admin,
    ):
        safe = {"min.insync.replicas": "2"}
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3, configs=safe)])
        ports = free_ports(WORKERS)
        workers = [made(cluster, port) for port in ports]
        api = ConnectApi(f"http://127.0.0.1:{ports[0]}")
        table = Table(directory / "source.db")
        try:
            for each in workers:
                each.start()
            for name, config in connectors(directory).items():
                wait_until(partial(is_there, api, name, config), within_s=90, every_s=0.5)
            wait_until(lambda: in_files(directory) and in_table(directory), within_s=90)
            killer = Killer(cluster, admin, workers, random.Random(seed), [TOPIC])
            killer.run(seconds)
            rows = table.stop()
            seen = settled(cluster, table, rows)
            topic = in_topic(cluster.bootstrap)
        finally:
            table.stop()
            for each in workers:
                each.destroy()
    return {
        "rows": rows,
        "wrong": {
            name: wrong
            for name, found in {"topic": topic, **seen}.items()
            if (wrong := differences(found, rows))
        },
        "in the topic": topic.total(),
        **{f"in the {name}": found.total() for name, found in seen.items()},
        "killed": killer.killed,
    }


def made(cluster: Cluster, port: int) -> Application:
    """Return a worker with its file of properties."""
    file = cluster.directory / f"worker-{port}.properties"
    listener = f"http://127.0.0.1:{port}"
    properties = {**WORKER, "bootstrap.servers": cluster.bootstrap, "listeners": listener}
    file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    command = ("connect-distributed", str(file))
    return Application(cluster.directory, f"worker-{port}", "minikafka", *command)


def is_there(api: ConnectApi, name: str, config: dict[str, str]) -> bool:
    """Put a connector; return False if the worker cannot take it yet."""
    try:
        api.ask("PUT", "connectors", name, "config", body=config)
    except Refused:
        return False
    return True


def settled(cluster: Cluster, table: Table, rows: int) -> dict[str, Counter[int]]:
    """Wait until the first `rows` rows came everywhere, and for what comes twice; count them.

    A file is complete once more records come, so rows are added meanwhile. Those count only if
    they are doubled.
    """
    deadline = time.monotonic() + DONE_WITHIN_S
    is_complete = False
    while not is_complete and time.monotonic() < deadline:
        table.add(FILE_ROWS)
        time.sleep(1)
        is_complete = all(
            found.keys() >= set(range(1, rows + 1))
            for found in (in_files(cluster.directory), in_table(cluster.directory))
        )
    time.sleep(SETTLED_S)
    return {"files": in_files(cluster.directory), "table": in_table(cluster.directory)}


def differences(found: Counter[int], rows: int) -> str:
    """Say which rows are not there or there more than once; nothing if none."""
    missing = [row for row in range(1, rows + 1) if row not in found]
    doubled = sorted(row for row, count in found.items() if count > 1)
    parts = [
        f"{len(rows)} {what}, such as {rows[:5]}"
        for what, rows in (("missing", missing), ("more than once", doubled))
        if rows
    ]
    return "; ".join(parts)


def main() -> None:
    """Play for as long as told."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    seed = int.from_bytes(os.urandom(4)) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    directory = Path(tempfile.mkdtemp(prefix="minikafka-connect-"))
    try:
        told = play(directory, options.minutes * 60, seed)
    except AssertionError as error:
        told = {"wrong": str(error)}
    is_wrong = bool(told["wrong"])
    told |= {"logs and data": str(directory)} if is_wrong else {}
    print(json.dumps({"seed": seed, "minutes": options.minutes, **told}, indent=1))
    if is_wrong:
        sys.exit(1)
    shutil.rmtree(directory)


if __name__ == "__main__":
    main()
