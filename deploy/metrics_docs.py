"""Generates docs/metrics.md from a scrape of a small cluster.

python -m minikafka.deploy.metrics_docs > docs/metrics.md
"""

import re
import urllib.request
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from ..client.sync_consumer import Consumer
from ..client.sync_producer import Producer
from .local_cluster import LocalCluster

INTRODUCTION: Final = """\
# Metrics

Every metric that a daemon serves at `/metrics` ([monitoring.md](monitoring.md) says how). Kafka's
are named as the rules of its JMX exporter name them, those about partitions and groups as
kafka_exporter does; names that begin with `minikafka_` are our own. A `summary` gives the quantiles
0.5, 0.75, 0.95, 0.98, 0.99 and 0.999 of the last one to two minutes, and `_count` and `_sum` of all
since the start. Names that begin with `kafka_client_` are those of metrics that clients push
([which](monitoring.md#metrics-of-clients)), and are not listed here.

This page is made from a scrape: `python -m minikafka.deploy.metrics_docs`.
"""
TOPIC: Final = "flights"
SCRAPE_WITHIN_S: Final = 20

_LABEL: Final = re.compile(r'(\w+)="')


@dataclass(slots=True)
class Metric:
    """One metric family, as a daemon reported it."""

    help: str
    kind: str = ""
    labels: dict[str, None] = field(default_factory=dict)


def read(text: str, metrics: dict[str, Metric]) -> None:
    """Add the families of one scrape, by name."""
    name = ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name, _, help_text = line.removeprefix("# HELP ").partition(" ")
            metrics.setdefault(name, Metric(help_text))
        elif line.startswith("# TYPE "):
            metrics[name].kind = line.rpartition(" ")[2]
        else:
            metrics[name].labels |= dict.fromkeys(_LABEL.findall(line))


def page() -> str:
    """Run a small cluster, use it, and return a page with the metrics of its daemons."""
    brokers: dict[str, Metric] = {}
    controllers: dict[str, Metric] = {}
    with LocalCluster(brokers=2, controllers=3, metrics=True) as cluster:
        servers = cluster.bootstrap
        with (
            Producer(servers) as producer,
            Consumer(servers, group_id=TOPIC, auto_offset_reset="earliest") as consumer,
        ):
            # Used, so that each label has a value to be shown with.
            producer.send(TOPIC, b"one").result()
            consumer.subscribe([TOPIC])
            while not consumer.poll(timeout_ms=1000):
                pass
            consumer.commit()
            for node in cluster.layout.nodes:
                url = f"http://{node.metrics}/metrics"
                with urllib.request.urlopen(url, timeout=SCRAPE_WITHIN_S) as response:
                    read(
                        response.read().decode(), brokers if node.role == "broker" else controllers
                    )
    both = {name: metric for name, metric in brokers.items() if name in controllers}
    lines = [INTRODUCTION]
    for title, metrics in (
        ("Every daemon", both),
        ("Brokers", {name: each for name, each in brokers.items() if name not in both}),
        ("Controllers", {name: each for name, each in controllers.items() if name not in both}),
    ):
        lines += [
            f"## {title}",
            "",
            "| metric | kind | labels | what it counts |",
            "|---|---|---|---|",
        ]
        lines += [*_rows(metrics.items()), ""]
    return "\n".join(lines)


def _rows(metrics: Iterable[tuple[str, Metric]]) -> Iterator[str]:
    for name, metric in metrics:
        labels = ", ".join(f"`{label}`" for label in metric.labels if label != "quantile")
        yield f"| `{name}` | {metric.kind} | {labels} | {metric.help} |"


if __name__ == "__main__":
    print(page(), end="")
