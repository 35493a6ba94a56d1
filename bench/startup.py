"""From nothing to work: `minikafka up` to the first acks=all acknowledgement, imports, help."""

import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from minikafka import Admin, NewTopic, Producer

COMMAND = str(Path(sys.executable).parent / "minikafka")
ROUNDS = 5


class Startup(NamedTuple):
    """Seconds, the median of some rounds."""

    up_to_ready: float
    up_to_first_ack: float
    import_package: float
    help: float


def measure() -> Startup:
    """Start three brokers and a controller, create a topic, write one record."""
    rounds = [_first_ack() for _ in range(ROUNDS)]
    return Startup(
        statistics.median(ready for ready, _ in rounds),
        statistics.median(ack for _, ack in rounds),
        _median_of([sys.executable, "-c", "import minikafka"]),
        _median_of([COMMAND, "--help"]),
    )


def _first_ack() -> tuple[float, float]:
    start = time.perf_counter()
    up = subprocess.Popen(
        [COMMAND, "up", "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert up.stdout is not None
        line = up.stdout.readline()
        ready = time.perf_counter() - start
        bootstrap = line.partition("bootstrap.servers=")[2].strip()
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_topics([NewTopic("first", 1, 3)])
        with Producer(bootstrap_servers=bootstrap, linger_ms=0) as producer:
            producer.send("first", b"hello").result()
            acknowledged = time.perf_counter() - start
    finally:
        os.kill(up.pid, signal.SIGTERM)
        up.wait()
        if up.stdout is not None:
            up.stdout.close()
    return ready, acknowledged


def _median_of(command: list[str]) -> float:
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return statistics.median(times)
