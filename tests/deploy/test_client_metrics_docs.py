from pathlib import Path

from minikafka.deploy.client_metrics_docs import page

PAGE = Path(__file__).parents[2] / "docs" / "client-metrics.md"


def test_the_page_is_the_table_in_the_code() -> None:
    hint = "run: python -m minikafka.deploy.client_metrics_docs > docs/client-metrics.md"
    assert PAGE.read_text() == page(), hint
