"""docs/connectors.md: its tables are those of the code, and its examples are valid."""

import re
from pathlib import Path
from typing import Any

import pytest

from minikafka.connect.common_config import SINK_CONFIG, SOURCE_CONFIG
from minikafka.connect.plugins import PluginKind, Plugins
from minikafka.deploy.connector_docs import connectors_of, renewed

PATH = Path(__file__).parents[2] / "docs" / "connectors.md"
PAGE = PATH.read_text()
EXAMPLES = re.findall(r"(?s)```properties\n(.*?)```", PAGE)
CONVERTER = ("key.converter", "value.converter")
PLUGINS = Plugins()


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
    connector, kind = PLUGINS.find_connector(props["connector.class"])
    common = SOURCE_CONFIG if kind is PluginKind.SOURCE else SINK_CONFIG
    found = [*common.validate(props), *connector().validate(props)]
    assert [error for value in found for error in value.errors] == []
    known = [value.name for value in found]
    assert [key for key in props if not key.startswith(CONVERTER) and key not in known] == []
    for key in CONVERTER:
        if key in props:
            PLUGINS.find(props[key], PluginKind.CONVERTER)


@pytest.mark.parametrize(("name", "connector"), connectors_of(PAGE).items())
def test_a_connector_is_found_by_its_name(name: str, connector: type[Any]) -> None:
    assert PLUGINS.find_connector(name)[0] is connector


def test_the_files_of_kafkas_examples_are_found_by_their_java_names() -> None:
    found = connectors_of(PAGE)
    for name in ("FileStreamSource", "FileStreamSink"):
        java = f"org.apache.kafka.connect.file.{name}Connector"
        assert PLUGINS.find_connector(java)[0] is found[name]
        assert PLUGINS.find_connector(f"{name}Connector")[0] is found[name]
