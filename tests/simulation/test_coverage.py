"""The table of what happened: nothing is counted that has no name, and gaps show."""

import pytest

from .coverage import CELLS, Coverage


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
