"""Lets child processes of the tests import the fake daemons."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def tests_importable_in_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the repository on the children's import path, because the fake daemons are in tests/."""
    old = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{old}" if old else str(ROOT))
