from pathlib import Path

from minikafka.deploy.config_docs import page

PAGE = Path(__file__).parents[2] / "docs" / "config.md"


def test_the_page_of_settings_is_the_tables_of_settings() -> None:
    hint = "run: python -m minikafka.deploy.config_docs > docs/config.md"
    assert PAGE.read_text() == page(), hint
