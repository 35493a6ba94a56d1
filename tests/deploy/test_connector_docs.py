"""docs/connectors.md: its tables are those of the code, and its examples are valid."""

import re
from pathlib import Path

import pytest

from minikafka.deploy.connector_docs import connectors_of, renewed

PATH = Path(__file__).parents[2] / "docs" / "connectors.md"
PAGE = PATH.read_text()
EXAMPLES = re.findall(r"(?s)```properties\n(.*?)```", PAGE)
COMMON = re.compile(r"name|connector\.class|tasks\.max|topics|(key|value)\.converter.*|errors\..*")
"""The keys that every connector has."""


def props_of(example: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in example.splitlines())
    return {key: value for key, _, value in pairs}


def test_the_tables_of_keys_are_those_of_the_connectors() -> None:
    hint = "run: python -m minikafka.deploy.connector_docs docs/connectors.md"
    assert renewed(PAGE) == PAGE, hint


def test_every_section_has_a_table_and_an_example() -> None:
    sections = re.findall(r"(?m)^## (\w+)$", PAGE)
    assert sections == list(connectors_of(PAGE))
    assert sections == [props_of(example)["connector.class"] for example in EXAMPLES]


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_has_no_errors_and_no_unknown_keys(example: str) -> None:
    props = props_of(example)
    config = connectors_of(PAGE)[props["connector.class"]].config
    assert [error for value in config.validate(props) for error in value.errors] == []
    assert [key for key in props if key not in config.keys and not COMMON.fullmatch(key)] == []
