"""Children of the tests can import the fake daemons."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def tests_importable_in_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fake daemons live in tests/, which is not on the children's import path."""
    old = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{old}" if old else str(ROOT))
