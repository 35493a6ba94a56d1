"""`minikafka host`: what the brokers of all cores take together, beside one broker alone.

A partition on each broker is written by a generator of its own, on the same machine: the generators
spend little, but what they spend is missing to the brokers. Rounds of one broker and of all take
turns, and the ratio is the median of those of neighbouring rounds.
"""

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from minikafka import Admin, NewTopic
from minikafka.deploy.host_brokers import HostBrokers, plan, usable_cores
from minikafka.deploy.layout import read_properties
from minikafka.deploy.local_cluster import LocalCluster

from .requests import produce

ROOT = Path(__file__).parents[1]
ROUNDS = 7
SECONDS = 3.0
READY_WITHIN_S = 60.0
FIRST_ID = 11
CASES = (
    ("one record of 100 B, 64 in flight", 100, 0, 64),
    ("16 KB batches of 1 KB, 16 in flight", 1000, 16_000, 16),
)
_GENERATOR = """import sys
from pathlib import Path
from bench.load import replay
host, port, window, seconds, path = sys.argv[1:]
frame, most = Path(path).read_bytes(), 1 << 40
done = replay((host, int(port)), frame, window=int(window), requests=most, seconds=float(seconds))
print(done.requests / done.seconds)
"""


class Taken(NamedTuple):
    """Requests per second that one broker of the host takes, and all of them."""

    case: str
    brokers: int
    one: float
    all: float
    ratio: float
    """The median of the ratios of neighbouring rounds."""


def measure(rounds: int = ROUNDS) -> list[Taken]:
    """Measure each case on a host with a broker for each core, two at least."""
    count = max(2, usable_cores())
    with tempfile.TemporaryDirectory(prefix="minikafka-host-") as folder:
        directory = Path(folder)
        with LocalCluster(directory / "cluster", brokers=1) as cluster:
            (member,) = cluster.layout.brokers
            properties = {
                **read_properties(member),
                "node.id": str(FIRST_ID),
                "listeners": "PLAINTEXT://127.0.0.1:0",
                "log.dirs": str(directory / "data"),
            }
            file = directory / "server.properties"
            file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
            brokers = plan(properties, count, directory / "logs")
            host = HostBrokers(file, (), brokers)
            try:
                host.launch()
                host.wait_until_ready(READY_WITHIN_S)
                return [_compare(case, directory, cluster.bootstrap, rounds) for case in CASES]
            finally:
                host.stop(READY_WITHIN_S)


def _compare(
    case: tuple[str, int, int, int], directory: Path, bootstrap: str, rounds: int
) -> Taken:
    name, record_bytes, batch_bytes, window = case
    with Admin(bootstrap) as admin:
        described = admin.describe_cluster().brokers
        brokers = [broker for broker in described if broker.node_id >= FIRST_ID]
        topics = {broker.node_id: f"on-{broker.node_id}-{record_bytes}" for broker in brokers}
        admin.create_topics(
            [NewTopic(topic, assignments={0: [on]}) for on, topic in topics.items()]
        )
        commands = []
        for broker in brokers:
            topic = topics[broker.node_id]
            made = produce(topic, record_bytes=record_bytes, batch_bytes=batch_bytes, acks=1)
            path = directory / topic
            path.write_bytes(made.frame)
            words = (broker.host, broker.port, window, SECONDS, path)
            commands.append([sys.executable, "-c", _GENERATOR, *map(str, words)])
        one, all_ = [], []
        for _ in range(rounds):
            one.append(_rate(commands[:1]))
            all_.append(_rate(commands))
        admin.delete_topics([*topics.values()])
    ratios = [together / alone for alone, together in zip(one, all_, strict=True)]
    median = statistics.median
    return Taken(name, len(brokers), median(one), median(all_), median(ratios))


def _rate(commands: list[list[str]]) -> float:
    """Run generators side by side; return the sum of their rates."""
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        for command in commands
    ]
    try:
        return sum(float(each.communicate(timeout=10 * SECONDS)[0]) for each in running)
    finally:
        for each in running:
            each.kill()
            each.wait()


def section(results: dict[str, Any]) -> list[str]:
    """Write the part of the page about hosts."""
    rows = results.get("host")
    if rows is None:
        return []
    return [
        "",
        "## All cores of a host",
        "",
        "Requests per second that `minikafka host` takes with acks=1, by one of its brokers and by",
        "all of them; the generators, one for each broker, run on the same cores.",
        "",
        "| case | brokers | one | all | all over one |",
        "|---|---|---|---|---|",
        *(
            f"| {row['case']} | {row['brokers']} | {row['one']:,.0f} | {row['all']:,.0f} | "
            f"{row['ratio']:.2f} |"
            for row in rows
        ),
    ]
