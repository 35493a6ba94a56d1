"""The whole cluster in one process, from one seed: fifty of them, and twice the same."""

import pytest

from . import scenario
from .test_determinism import digests_under_hash_seeds

SEEDS = 50
CHUNK = 10


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_nothing_acknowledged_is_lost_whatever_goes_wrong(first: int) -> None:
    acknowledged = 0
    for seed in range(first, first + CHUNK):
        outcome = scenario.run(seed)
        if outcome.violation is not None:
            replay = f"replay with: make simulate SEED={seed}"
            pytest.fail(f"{outcome.world.trace.tail(60)}\n{outcome.violation}\n{replay}")
        acknowledged += outcome.acknowledged_count
    assert acknowledged > 100 * CHUNK, "the workload must be worth its faults"


def test_the_same_seed_gives_the_same_run() -> None:
    first, second = scenario.run(7, 3), scenario.run(7, 3)
    assert first.violation is second.violation is None
    assert first.world.trace.lines == second.world.trace.lines
    assert first.digest == second.digest


@pytest.mark.slow
def test_the_hash_seed_changes_nothing() -> None:
    first, second = digests_under_hash_seeds("tests.simulation", "--seed", "11")
    assert first == second
