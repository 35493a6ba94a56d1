"""Exactly once, with everything killed in turn (scenario H-19).

`python -m tests.system.exactly_once` does it for longer.
"""

from pathlib import Path

import pytest

from .exactly_once import RATE, play

pytestmark = pytest.mark.slow
SECONDS = 35
SEED = 19


def test_h_19_every_record_is_processed_once_though_everything_is_killed(tmp_path: Path) -> None:
    told = play(tmp_path, SECONDS, SEED)
    assert told["records"] > SECONDS * RATE / 2
    assert len(told) > 3
