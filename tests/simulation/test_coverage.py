"""The table of what happened: nothing is counted that has no name, and gaps show."""

import sys

import pytest

from . import scenario
from .__main__ import main
from .coverage import CELLS, FAULTS, Coverage


def test_what_never_happened_is_missing() -> None:
    coverage = Coverage()
    assert len(coverage.missing) == sum(map(len, CELLS.values()))
    coverage.note("fault", "pause")
    other = Coverage()
    other.add(coverage.counts)
    assert "fault pause" not in other.missing
    assert any("1 pause" in line for line in other.table())


def test_a_misspelt_cell_is_refused() -> None:
    with pytest.raises(KeyError):
        Coverage().note("fault", "paused")


def test_to_draw_no_seed_proves_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn = scenario.shape_of(0).faults
    fault = next(each for each in FAULTS if each not in drawn)
    monkeypatch.setattr(sys, "argv", ["simulation", "--fault", fault])
    assert main() == 1
    assert capsys.readouterr().out == f"no seed of these draws {fault}\n"
