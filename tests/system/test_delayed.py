"""Delayed records, with everything killed in turn (scenario R-08).

`python -m tests.system.delayed` does it for longer.
"""

from pathlib import Path

import pytest

from .delayed import RATE, play

pytestmark = pytest.mark.slow
SECONDS = 15
SEED = 8


def test_r_08_every_record_is_forwarded_once_though_everything_is_killed(tmp_path: Path) -> None:
    told = play(tmp_path, SECONDS, SEED)
    assert told["records"] > SECONDS * RATE / 2
    assert sum(told["killed"].values()) > 3
