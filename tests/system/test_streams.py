"""Quix Streams, exactly once, with its processes and brokers killed (scenario X-60).

`python -m tests.system.streams --minutes 5` does it for longer.
"""

from pathlib import Path

import pytest

from .streams import STEP_MS, play

pytestmark = pytest.mark.slow
SECONDS = 12
SEED = 60


def test_x_60_a_streams_library_counts_everything_once_though_it_and_brokers_are_killed(
    tmp_path: Path,
) -> None:
    told = play(tmp_path, SECONDS, SEED)
    assert told["orders"] > SECONDS * 1000 / STEP_MS / 2
    assert told["instance"] > 0
    assert sum(count for what, count in told.items() if what.startswith("leader of")) > 0
