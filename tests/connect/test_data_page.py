"""docs/connect-data.md: each configuration on the page makes what it says."""

import re
from pathlib import Path
from typing import Any

import pytest

from minikafka.connect.pipeline import DROPPED, SinkPipeline
from minikafka.connect.providers import ConfigProviders
from minikafka.connect.states import TaskId
from minikafka.connect.tolerance import Tolerance
from minikafka.runtime.config import parse_properties

from .pipeline_support import consumed, find

PAGE = (Path(__file__).parents[2] / "docs" / "connect-data.md").read_text()
BLOCKS = [
    parse_properties(text) for text in re.findall(r"^```properties\n(.*?)^```", PAGE, re.M | re.S)
]
CONVERTERS, TRANSFORMS, MINE, ERRORS, PROVIDERS = BLOCKS


def value_of(props: dict[str, str], value: bytes | None) -> Any:
    (outcome,) = SinkPipeline({**CONVERTERS, **props}, {}, find).apply([consumed(value)])
    return outcome


def test_the_transformations_of_the_page_change_and_drop_records() -> None:
    record = value_of(TRANSFORMS, b'{"at":981173106789}')
    assert record.value == {"at": "2001-02-03T04:05:06.789Z"}
    assert value_of(TRANSFORMS, None) == DROPPED


def test_the_function_of_the_page_changes_and_drops_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(code)
    assert value_of(MINE, b'{"amount":5}').value == {"amount": 5, "source": "orders"}
    assert value_of(MINE, b'{"amount":-5}') == DROPPED


def test_the_other_settings_of_the_page_are_taken() -> None:
    assert Tolerance(ERRORS, TaskId("c", 0)).dead_letter_topic == "dlq-orders"
    ConfigProviders(PROVIDERS, find)
