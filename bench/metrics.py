"""The cost of metrics: a broker scraped each second beside one that serves none, and a scrape.

Short rounds of the two brokers take turns, and a ratio is the median of those within each pair of
rounds. A scrape is of a broker that leads many partitions.
"""

import socket
import statistics
import subprocess
import sys
import threading
import time
from typing import Any, NamedTuple

from minikafka import Admin, NewTopic
from minikafka.deploy.layout import Node
from minikafka.deploy.local_cluster import LocalCluster
from minikafka.protocol import codec
from minikafka.protocol.messages.api_versions import ApiVersionsRequest

from .load import replay
from .meters import cpu_seconds
from .requests import check_produced, fetch, produce

ROUNDS = 41
BYTES = 15_000_000
"""Produced in a round at most."""
REQUESTS = 6_000
"""Sent in a round at most."""
SCRAPE_EVERY_S = 1.0
TOPICS, PARTITIONS_OF_EACH = 1_000, 10
TOPICS_AT_ONCE = 100
SETTLE_SECONDS = 3.0
SCRAPES = 15
PINGS = 2_000
CASES = (
    ("produce, one record of 100 B, 64 in flight", 100, 0, 64, True),
    ("produce, one record of 100 B, alone", 100, 0, 1, True),
    ("produce, 16 KB batches of 1 KB, 16 in flight", 1000, 16_000, 16, True),
    ("fetch, one record of 100 B", 100, 0, 1, False),
    ("fetch, 16 KB batches of 1 KB", 1000, 16_000, 1, False),
)
_SCRAPE = """import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), 30) as peer:
    peer.sendall(b"GET /metrics HTTP/1.1\\r\\nHost: bench\\r\\n\\r\\n")
    size = 0
    while data := peer.recv(1 << 20):
        size += len(data)
print(size)
"""


class Cost(NamedTuple):
    """CPU of a request without metrics, and with them."""

    case: str
    cpu_us_without: float
    cpu_us_with: float
    ratio: float
    """The median of the ratios of rounds side by side."""


class Scraped(NamedTuple):
    """Scrapes of one broker; milliseconds are medians."""

    partitions: int
    megabytes: float
    first_cpu_ms: float
    """CPU of the first scrape, which makes all labels."""
    cpu_ms: float
    longest_wait_ms: float
    """The longest that a small request waited during a scrape: at least the longest slice."""
    longest_wait_idle_ms: float
    """The longest wait in as many requests without a scrape."""


def compare(rounds: int = ROUNDS) -> list[Cost]:
    """Measure every case."""
    with LocalCluster(brokers=1) as plain, LocalCluster(brokers=1, metrics=True) as served:
        is_over = threading.Event()
        scraper = threading.Thread(target=_scrape_until, args=(served.node(1), is_over))
        scraper.start()
        try:
            return [_compare(plain, served, case, rounds) for case in CASES]
        finally:
            is_over.set()
            scraper.join()


def _scrape_until(node: Node, is_over: threading.Event) -> None:
    while not is_over.wait(SCRAPE_EVERY_S):
        _scrape(node)


def _scrape(node: Node) -> int:
    """Scrape a broker once, in a process of its own, and count the bytes of the response."""
    with _scraping(node) as process:
        assert process.stdout is not None
        return int(process.stdout.read())


def _scraping(node: Node) -> subprocess.Popen[str]:
    assert node.metrics is not None
    host, _, port = node.metrics.rpartition(":")
    command = [sys.executable, "-S", "-E", "-c", _SCRAPE, host, port]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _compare(
    plain: LocalCluster, served: LocalCluster, case: tuple[str, int, int, int, bool], rounds: int
) -> Cost:
    name, record_bytes, batch_bytes, window, is_produce = case
    topic = "metered"
    request = produce(topic, record_bytes=record_bytes, batch_bytes=batch_bytes, acks=1)
    sides = (plain, served)
    for cluster in sides:
        with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            admin.create_topics([NewTopic(topic, 1, 1)])
        check_produced(_replay(cluster, request.frame, 1, 100))
    frame = request.frame if is_produce else fetch(topic, 0, max(batch_bytes, 1))
    count = min(REQUESTS, BYTES // len(request.frame))
    found: list[tuple[float, ...]] = []
    for turn in range(rounds):
        order = sides if turn % 2 else sides[::-1]
        cpu = {cluster: _cpu_us(cluster, frame, window, count) for cluster in order}
        found.append(tuple(cpu[cluster] for cluster in sides))
    for cluster in sides:
        with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            admin.delete_topics([topic])
    without, with_metrics = (statistics.median(each) for each in zip(*found, strict=True))
    return Cost(name, without, with_metrics, statistics.median(b / a for a, b in found))


def _replay(cluster: LocalCluster, frame: bytes, window: int, count: int) -> bytes:
    node = cluster.node(1)
    done = replay((node.host, node.port), frame, window=window, requests=count, seconds=30)
    return done.last_response


def _cpu_us(cluster: LocalCluster, frame: bytes, window: int, count: int) -> float:
    """Take the broker's CPU for each of `count` requests, in microseconds."""
    pid = cluster.pids["broker-1"]
    before = cpu_seconds(pid)
    _replay(cluster, frame, window, count)
    return (cpu_seconds(pid) - before) / count * 1e6


def scrape() -> Scraped:
    """Make a broker lead many partitions, and scrape it."""
    with LocalCluster(brokers=1, metrics=True) as cluster:
        names = [f"topic-{number}" for number in range(TOPICS)]
        with Admin(bootstrap_servers=cluster.bootstrap, request_timeout_ms=120_000) as admin:
            for first in range(0, TOPICS, TOPICS_AT_ONCE):
                some = names[first : first + TOPICS_AT_ONCE]
                admin.create_topics([NewTopic(name, PARTITIONS_OF_EACH, 1) for name in some])
        time.sleep(SETTLE_SECONDS)
        node, pid = cluster.node(1), cluster.pids["broker-1"]
        cpu_ms, size = [], 0
        for _ in range(SCRAPES + 1):
            before = cpu_seconds(pid)
            size = _scrape(node)
            cpu_ms.append((cpu_seconds(pid) - before) * 1e3)
        waits = [_longest_wait_ms(node, is_scraped=True) for _ in range(SCRAPES)]
        idle = [_longest_wait_ms(node, is_scraped=False) for _ in range(SCRAPES)]
    return Scraped(
        TOPICS * PARTITIONS_OF_EACH,
        size / 1e6,
        cpu_ms[0],
        statistics.median(cpu_ms[1:]),
        statistics.median(waits),
        statistics.median(idle),
    )


def _longest_wait_ms(node: Node, *, is_scraped: bool) -> float:
    """Send small requests one after the other: while the broker is scraped, or PINGS of them."""
    frame = b"".join(codec.frame_request(ApiVersionsRequest(), 0, 1, "bench"))
    process = _scraping(node) if is_scraped else None
    longest = 0.0
    with socket.create_connection((node.host, node.port)) as peer, peer.makefile("rb") as answers:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(PINGS):
            if process is not None and process.poll() is not None:
                break
            start = time.perf_counter()
            peer.sendall(frame)
            answers.read(int.from_bytes(answers.read(4), "big"))
            longest = max(longest, time.perf_counter() - start)
    if process is not None:
        process.communicate()
    return longest * 1e3


def checks(results: dict[str, Any]) -> list[tuple[str, str, float, bool]]:
    """Compare with the targets; nothing where metrics were not measured."""
    found = results.get("metrics")
    if found is None:
        return []
    scraped = found["scrape"]
    rows = [
        (f"CPU with metrics, of that without: {cost['case']}", "≤ 1.01", cost["ratio"], 1.01)
        for cost in found["costs"]
    ]
    of_many = f"{scraped['partitions']:,} partitions"
    rows += [
        (f"a scrape of {of_many}: CPU (ms)", "≤ 50", scraped["cpu_ms"], 50),
        (
            f"a scrape of {of_many}: longest wait of another request (ms)",
            "≤ 5",
            scraped["longest_wait_ms"],
            5,
        ),
    ]
    return [(name, target, value, value <= most) for name, target, value, most in rows]


def section(results: dict[str, Any]) -> list[str]:
    """Write the section of the page, if metrics were measured."""
    found = results.get("metrics")
    if found is None:
        return []
    scraped = found["scrape"]
    rows = [
        f"| {cost['case']} | {cost['cpu_us_without']:.2f} | {cost['cpu_us_with']:.2f} "
        f"| {cost['ratio']:.3f} |"
        for cost in found["costs"]
    ]
    return [
        "",
        "## Metrics",
        "",
        "CPU of a broker that is scraped each second, and of one that serves no metrics; rounds of",
        "the two take turns, and the ratio is the median of those within each pair. Where the",
        "machine has other work, two brokers without metrics differ by up to three percent.",
        "",
        "| case | us/request without | with | ratio |",
        "|---|---|---|---|",
        *rows,
        "",
        f"A scrape of a broker that leads {scraped['partitions']:,} partitions is "
        f"{scraped['megabytes']:.1f} MB and takes {scraped['cpu_ms']:.1f} ms of CPU, the",
        f"first one {scraped['first_cpu_ms']:.1f}. Meanwhile another request waited "
        f"{scraped['longest_wait_ms']:.1f} ms at most, and {scraped['longest_wait_idle_ms']:.1f} "
        "without a scrape (medians).",
    ]
