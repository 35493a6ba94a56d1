"""One integer decides everything: the same seed gives the same trace, under any hash seed."""

import os
import subprocess
import sys
from pathlib import Path

from . import toy

ROOT = Path(__file__).parents[2]


def digests_under_hash_seeds(module: str, *arguments: str) -> list[str]:
    """Return the last word that `python -m module arguments` prints, for several hash seeds."""
    digests = []
    for hash_seed in ("0", "1"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            [sys.executable, "-m", module, *arguments],
            env=environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        digests.append(done.stdout.split()[-1])
    return digests


def test_the_same_seed_gives_the_same_trace() -> None:
    first, second = toy.run(3), toy.run(3)
    assert first.trace.lines == second.trace.lines
    assert first.trace.digest() == second.trace.digest()
    assert first.trace.event_count > 1000


def test_another_seed_gives_another_trace() -> None:
    assert toy.run(3).trace.digest() != toy.run(4).trace.digest()


def test_the_hash_seed_changes_nothing() -> None:
    first, second = digests_under_hash_seeds("tests.simulation.toy", "5")
    assert first == second
    assert first == toy.run(5).trace.digest()
