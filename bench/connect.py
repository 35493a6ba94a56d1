"""Connect: lines a second into a topic and out of it, the start of a connector, an idle worker."""

import http.client
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from minikafka import Admin, NewTopic, TopicPartition
from minikafka.deploy.local_cluster import LocalCluster

from .meters import cpu_seconds, pss_mib

TOPIC: Final = "lines"
LINES: Final = 1_000_000
LINE: Final = b"x" * 99 + b"\n"
WAIT_SECONDS: Final = 120.0
POLL_SECONDS: Final = 0.02


class Moved(NamedTuple):
    """What it took to move all lines one way."""

    records_per_second: float
    """By the clock: three brokers' work or one's, and the worker's, on this machine."""
    records_per_cpu_second: float
    """Of the worker's own CPU."""


class Found(NamedTuple):
    """What was measured of one standalone worker beside one broker."""

    source: Moved
    sink: Moved
    idle_mib: float
    """The worker's memory (PSS) before it has a connector."""
    start_seconds: float
    """From POST /connectors to the state RUNNING of its task."""


class Rest:
    """A worker's REST API."""

    def __init__(self, port: int) -> None:
        self._port = port

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Return the status and the JSON of the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        text = None if body is None else json.dumps(body)
        connection.request(method, path, text, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        read = answer.read()
        connection.close()
        return answer.status, json.loads(read) if read else None

    def create(self, name: str, config: dict[str, str]) -> None:
        """Create a connector, and wait until its task runs."""
        status, told = self.ask("POST", "/connectors", {"name": name, "config": config})
        if status != 201:
            raise RuntimeError(f"{name}: {told}")
        _until(lambda: self._states(name) == ["RUNNING"], f"{name} runs")

    def _states(self, name: str) -> list[str]:
        status, told = self.ask("GET", f"/connectors/{name}/status")
        return [each["state"] for each in told["tasks"]] if status == 200 else []


def _until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.perf_counter() + WAIT_SECONDS
    while not holds():
        if time.perf_counter() > deadline:
            raise TimeoutError(f"not within {WAIT_SECONDS:.0f} s: {what}")
        time.sleep(POLL_SECONDS)


def measure(lines: int = LINES) -> Found:
    """Move lines of 100 bytes from a file to a topic of one partition, and to another file."""
    with (
        tempfile.TemporaryDirectory(prefix="minikafka-bench-") as folder,
        LocalCluster(brokers=1) as cluster,
        Admin(cluster.bootstrap) as admin,
    ):
        admin.create_topics([NewTopic(TOPIC, 1, 1)])
        here = Path(folder)
        (here / "in.txt").write_bytes(LINE * lines)
        with _worker(here, cluster.bootstrap) as (process, rest):
            idle_mib = pss_mib(process.pid)
            began = time.perf_counter()
            rest.create("idle", {"connector.class": "Datagen", "topic": "idle", "rate": "1"})
            start_seconds = time.perf_counter() - began
            rest.ask("DELETE", "/connectors/idle")

            def written() -> bool:
                place = TopicPartition(TOPIC, 0)
                return admin.list_offsets({place: -1})[place].offset >= lines

            def read() -> bool:
                out = here / "out.txt"
                return out.exists() and out.stat().st_size >= lines * len(LINE)

            source = {"connector.class": "FileStreamSource", "file": str(here / "in.txt")}
            moved = _move(
                process.pid, lines, lambda: rest.create("in", source | {"topic": TOPIC}), written
            )
            rest.ask("DELETE", "/connectors/in")
            sink = {"connector.class": "FileStreamSink", "file": str(here / "out.txt")}
            back = _move(
                process.pid, lines, lambda: rest.create("out", sink | {"topics": TOPIC}), read
            )
    return Found(moved, back, idle_mib, start_seconds)


def _move(pid: int, lines: int, start: Callable[[], None], is_done: Callable[[], bool]) -> Moved:
    began, spent = time.perf_counter(), cpu_seconds(pid)
    start()
    _until(is_done, "all lines are there")
    took = time.perf_counter() - began
    return Moved(lines / took, lines / (cpu_seconds(pid) - spent))


@contextmanager
def _worker(folder: Path, bootstrap: str) -> Iterator[tuple[subprocess.Popen[str], Rest]]:
    properties = folder / "worker.properties"
    settings = {
        "bootstrap.servers": bootstrap,
        "key.converter": "StringConverter",
        "value.converter": "StringConverter",
        "offset.storage.file.filename": str(folder / "offsets.jsonl"),
        "offset.flush.interval.ms": "1000",
        "listeners": "http://127.0.0.1:0",
    }
    properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    command = [
        sys.executable,
        "-m",
        "minikafka",
        "connect-standalone",
        str(properties),
        "--ready-fd",
        "1",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            ready = json.loads(process.stdout.readline())
            yield process, Rest(int(ready["rest"][0].rstrip("/").rpartition(":")[2]))
        finally:
            process.terminate()


# The page.


def checks(results: dict[str, Any]) -> list[tuple[str, str, float, bool]]:
    """Compare with the targets; nothing where Connect was not measured."""
    found = results.get("connect")
    if found is None:
        return []
    into, out = found["source"], found["sink"]
    each = "records of 100 B for a second of a worker's CPU"
    return [
        (f"FileStreamSource, {each}", "≥ 100,000", into[1], into[1] >= 100_000),
        (f"FileStreamSink, {each}", "≥ 100,000", out[1], out[1] >= 100_000),
        ("an idle Connect worker (MiB)", "≤ 60", found["idle_mib"], found["idle_mib"] <= 60),
        (
            "REST create to a running task (s)",
            "≤ 2",
            found["start_seconds"],
            found["start_seconds"] <= 2,
        ),
    ]


def section(results: dict[str, Any]) -> list[str]:
    """Write Connect's part of the page."""
    found = results.get("connect")
    if found is None:
        return []
    into, out = found["source"], found["sink"]
    return [
        "",
        "## Connect",
        "",
        "One standalone worker beside one broker, lines of 100 B and one partition. From a file",
        f"into the topic: {into[0]:,.0f} records/s, {into[1]:,.0f} for each second of the worker's",
        f"CPU; from the topic into a file: {out[0]:,.0f} and {out[1]:,.0f}. The worker takes",
        f"{found['idle_mib']:.0f} MiB before it has a connector, and a connector that is created",
        f"over REST runs after {found['start_seconds']:.2f} s.",
    ]
