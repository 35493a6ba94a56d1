"""A function of a user as a transformation."""

import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from minikafka.connect.config_def import BadConfig
from minikafka.connect.data import DataError
from minikafka.connect.pipeline import SourcePipeline
from minikafka.connect.tolerance import Failed, Stage
from minikafka.connect.transforms.python import Python

from .pipeline_support import STRINGS, find, source


def python(path: Path, code: str, **settings: str) -> Python:
    file = path / "mine.py"
    file.write_text(dedent(code))
    transformation = Python()
    transformation.configure({"code.path": str(file), **settings})
    return transformation


def test_a_function_changes_drops_and_splits_records(tmp_path: Path) -> None:
    each = python(
        tmp_path,
        """
        from dataclasses import dataclass

        @dataclass
        class Seen:
            count: "int" = 0

        seen = Seen()

        def split(record):
            seen.count += 1
            if record.value is None:
                return None
            words = record.value.split()
            if len(words) == 1:
                return record.with_(value=f"{seen.count} {words[0]}")
            return [record.with_(value=word) for word in words]
        """,
        function="split",
    )
    assert each.apply(source("a")).value == "1 a"
    assert each.apply(source(None)) is None
    assert [one.value for one in each.apply(source("a b"))] == ["a", "b"]


def test_two_tasks_share_nothing_and_no_file_is_written(tmp_path: Path) -> None:
    code = """
        seen = []
        def transform(record):
            seen.append(record)
            return record.with_(value=len(seen))
        """
    first, second = python(tmp_path, code), python(tmp_path, code)
    assert [each.apply(source("v")).value for each in (first, first, second)] == [1, 2, 1]
    assert [path.name for path in tmp_path.iterdir()] == ["mine.py"]
    assert not any(name == "mine" for name in sys.modules)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("x = 1", "has no function transform"),
        ("transform = 1", "has no function transform"),
        ("\n\ndef transform(:", "SyntaxError"),
        ("\n\nimport no_such_module_at_all", "line 3: ModuleNotFoundError"),
        ("raise SystemExit(3)", "line 1: SystemExit: 3"),
    ],
)
def test_a_file_that_does_not_work_is_refused(tmp_path: Path, code: str, why: str) -> None:
    with pytest.raises(BadConfig) as caught:
        python(tmp_path, code)
    assert why in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="no such file"):
        Python().configure({"code.path": str(tmp_path / "none.py")})


@pytest.mark.parametrize("returned", ["5", "[record, 5]", "1/0"])
def test_a_function_that_fails_fails_the_record(tmp_path: Path, returned: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(f"def transform(record):\n    return {returned}\n")
    props: dict[str, Any] = {
        "transforms": "mine",
        "transforms.mine.type": "transforms.python:Python",
        "transforms.mine.code.path": str(file),
    }
    (outcome,) = SourcePipeline(props, STRINGS, find).apply([source("v")])
    assert isinstance(outcome, Failed)
    expected = ZeroDivisionError if returned == "1/0" else DataError
    assert (outcome.stage, type(outcome.error)) == (Stage.TRANSFORMATION, expected)
