"""The page of metrics: what a scrape is read as, and that the page is what daemons tell."""

import re
from pathlib import Path

import pytest

from minikafka.deploy.metrics_docs import Metric, page, read

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "metrics.md"


def test_a_scrape_is_read_as_names_kinds_and_labels() -> None:
    metrics: dict[str, Metric] = {}
    read("# HELP a_total Of all.\n# TYPE a_total counter\na_total 1\n", metrics)
    read(
        "# HELP b Two words.\n# TYPE b summary\n"
        'b{topic="x=\\"y",quantile="0.5"} nan\nb_count{topic="x"} 0\n',
        metrics,
    )
    assert list(metrics) == ["a_total", "b"]
    assert (metrics["a_total"].help, metrics["a_total"].kind) == ("Of all.", "counter")
    assert (metrics["b"].help, metrics["b"].kind) == ("Two words.", "summary")
    assert list(metrics["b"].labels) == ["topic", "quantile"]


def test_what_is_to_be_watched_is_served() -> None:
    """But for what clients push, which is theirs to name."""
    ours = re.compile(r"`((?:kafka(?!_client_)|minikafka|process)_\w+)`")
    named = ours.findall((DOCS / "monitoring.md").read_text())
    served = PAGE.read_text()
    assert len(named) > 5
    assert [name for name in named if f"| `{name}` |" not in served] == []


@pytest.mark.slow
@pytest.mark.processes
def test_the_page_of_metrics_is_what_daemons_tell() -> None:
    hint = "run: python -m minikafka.deploy.metrics_docs > docs/metrics.md"
    assert PAGE.read_text() == page(), hint
