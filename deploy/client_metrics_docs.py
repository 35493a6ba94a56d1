"""Generates docs/client-metrics.md from the table of client metrics.

python -m minikafka.deploy.client_metrics_docs > docs/client-metrics.md
"""

from typing import Final

from ..client.measures import MEASURES

INTRODUCTION: Final = """\
# Metrics of clients

What `metrics()` of a producer, a consumer and an admin returns, under the names of Kafka's clients;
[monitoring.md](monitoring.md#clients) says what to watch. Totals count from the creation of the
client; rates, averages and maxima are those of the last 30 to 60 seconds, NaN if there was nothing
in that time. The group is Kafka's, without `-metrics`.

This page is made from the table in the code: `python -m minikafka.deploy.client_metrics_docs`.
"""


def page() -> str:
    """Return the whole page as text."""
    lines = [INTRODUCTION]
    for client, measures in MEASURES.items():
        lines += [f"## {client.capitalize()}", "", "| metric | group | unit | what it says |"]
        lines.append("|---|---|---|---|")
        lines += [f"| `{m.name}` | {m.group} | `{m.unit}` | {m.doc} |" for m in measures]
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    print(page(), end="")
