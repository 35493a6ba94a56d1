"""Quix Streams in an environment of its own, installed once outside the repository.

The environment is not that of the tests, because Quix Streams wants another confluent-kafka.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any, Final

import confluent_kafka
import pytest

from minikafka import Consumer, TopicPartition

from ..support.cluster import wait_until

SOURCE: Final = Path(__file__).parent / "streams"
APPLICATION: Final = SOURCE / "quix_app.py"
REQUIREMENTS: Final = SOURCE / "requirements.txt"
ORDERS, NAMES, COUNTS, WINDOWS = "orders", "names", "counts", "windows"
TOPICS: Final = (ORDERS, NAMES, COUNTS, WINDOWS)
GROUP: Final = "quix"
PARTITIONS: Final = 3
KEYS: Final = 12
WINDOW_MS: Final = 1000
INSTALL_WITHIN_S: Final = 180


@cache
def python() -> str:
    """Give the interpreter that has it; skip the test where it cannot be installed."""
    about = REQUIREMENTS.read_bytes() + sys.version.encode()
    cache_home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    place = cache_home / "minikafka-compat" / f"quix-{hashlib.sha256(about).hexdigest()[:16]}"
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=place.parent))
        try:
            _install(made)
            made.rename(place)
        except OSError:
            # Another run was quicker.
            shutil.rmtree(made)
        except BaseException:
            shutil.rmtree(made)
            raise
    return str(place / "bin" / "python")


def _install(place: Path) -> None:
    make = [sys.executable, "-m", "venv", "--without-pip", str(place)]
    subprocess.run(make, check=True, capture_output=True)
    pip = [sys.executable, "-m", "pip", "--python", str(place / "bin" / "python"), "install"]
    command = [*pip, "--quiet", "--disable-pip-version-check", "-r", str(REQUIREMENTS)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_WITHIN_S)
    except subprocess.TimeoutExpired:
        pytest.skip(f"pip install takes longer than {INSTALL_WITHIN_S} s")
    if done.returncode != 0:
        pytest.skip(f"pip cannot install Quix Streams: {done.stderr[-300:]}")


class Instance:
    """One process of the application; killed, stopped and started again at will."""

    def __init__(self, bootstrap: str, directory: Path, number: int, guarantee: str) -> None:
        self.name = f"quix-{number}"
        self.state = directory / f"{self.name}-state"
        self._log = directory / f"{self.name}.log"
        self._command = [python(), str(APPLICATION), bootstrap, str(self.state), str(number)]
        self._command.append(guarantee)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Instance":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.destroy()

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, idle_s: float | None = None) -> None:
        """Start it; with `idle_s` it ends once nothing came for so long."""
        command = [*self._command, *([] if idle_s is None else [str(idle_s)])]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self, within_s: float = 60) -> None:
        """Ask it to end, as Kubernetes does."""
        assert self._process is not None
        self._process.terminate()
        assert self._process.wait(within_s) == 0, self.log()

    def log(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    def destroy(self) -> None:
        if self.is_running:
            self.kill()


def key_of(number: int) -> bytes:
    return b"k%d" % (number % KEYS)


def partition_of(number: int) -> int:
    """Where the orders of its key are; the join wants the names there too."""
    return number % KEYS % PARTITIONS


def feed_names(bootstrap: str, at_ms: int) -> None:
    """Write the name of each key, for orders from `at_ms` on."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    for number in range(KEYS):
        value = json.dumps({"name": f"name of {key_of(number).decode()}"}).encode()
        where = partition_of(number)
        producer.produce(NAMES, value, key_of(number), partition=where, timestamp=at_ms)
    assert producer.flush(30) == 0


def order(number: int) -> bytes:
    return json.dumps({"number": number}).encode()


def expected_counts(total: int) -> dict[bytes, list[dict[str, Any]]]:
    """What the application makes of orders 0 to `total`, by key and in order."""
    return {
        key_of(k): [
            {"number": number, "count": at + 1, "name": f"name of {key_of(k).decode()}"}
            for at, number in enumerate(range(k, total, KEYS))
        ]
        for k in range(min(KEYS, total))
    }


def expected_windows(total: int, began_ms: int, step_ms: int) -> dict[bytes, list[dict[str, int]]]:
    """The windows that are closed, by key and in order: all but the last one of each key."""
    expected = {}
    for k in range(min(KEYS, total)):
        times = (began_ms + number * step_ms for number in range(k, total, KEYS))
        counted = Counter(time // WINDOW_MS * WINDOW_MS for time in times)
        expected[key_of(k)] = [
            {"start": start, "end": start + WINDOW_MS, "value": value}
            for start, value in sorted(counted.items())[:-1]
        ]
    return expected


def committed(bootstrap: str, topic: str) -> dict[bytes, list[dict[str, Any]]]:
    """The values that a reader of committed records finds, by key and in order."""
    places = [TopicPartition(topic, index) for index in range(PARTITIONS)]
    found: dict[bytes, list[dict[str, Any]]] = {}
    with Consumer(
        bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        ends = consumer.end_offsets(places)
        consumer.assign(places)
        while any(consumer.position(place) < ends[place] for place in places):
            for record in consumer.poll(timeout_ms=1000, max_records=20_000):
                assert record.key is not None
                assert record.value is not None
                found.setdefault(record.key, []).append(json.loads(record.value))
    return found


def wait_until_decided(bootstrap: str, topic: str) -> None:
    """Wait until no transaction is open in a topic."""
    places = [TopicPartition(topic, index) for index in range(PARTITIONS)]
    with (
        Consumer(bootstrap, isolation_level="read_committed") as decided,
        Consumer(bootstrap, isolation_level="read_uncommitted") as everything,
    ):
        wait_until(
            lambda: decided.end_offsets(places) == everything.end_offsets(places),
            within_s=60,
            every_s=0.2,
        )
