"""The whole cluster in one process: eight seeds hold all invariants, and equal seeds run alike."""

import pytest

from . import explore, scenario
from .test_determinism import digests_under_hash_seeds

SEEDS = 8
CHUNK = 2


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_nothing_acknowledged_is_lost_whatever_goes_wrong(first: int) -> None:
    acknowledged = 0
    for seed in range(first, first + CHUNK):
        report = explore.report_on(seed, scenario.FAULT_SECONDS)
        if report.violation is not None:
            replay = f"replay with: make simulate SEED={seed}"
            pytest.fail(f"{report.tail}\n{report.violation}\n{replay}")
        assert report.seconds >= 60
        acknowledged += report.acknowledged_count
    assert acknowledged > 500 * CHUNK, "the workload must be worth its faults"


def test_the_same_seed_gives_the_same_run() -> None:
    first, second = scenario.run(7, 3), scenario.run(7, 3)
    assert first.violation is second.violation is None
    assert first.world.trace.lines == second.world.trace.lines
    assert first.digest == second.digest


@pytest.mark.slow
def test_the_hash_seed_changes_nothing() -> None:
    first, second = digests_under_hash_seeds("tests.simulation", "--seed", "0")
    assert first == second


def test_seeds_run_in_processes_of_their_own() -> None:
    reports = sorted(explore.run_many([3, 4], 1.0, 2), key=lambda report: report.seed)
    assert [report.seed for report in reports] == [3, 4]
    assert [report.violation for report in reports] == [None, None]
    summary = explore.Summary()
    for report in reports:
        summary.add(report)
    assert any("2 runs, 0 failed" in line for line in summary.lines())
    assert summary.shortcomings == []
