"""Two of the faults in `make test`, where the machine lets us; `make chaos` runs all of them."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ..support.cluster import wait_until
from . import needs

ROOT = Path(__file__).parents[2]
SUBSET = ("kill-leader", "deaf-leader")
LEFTOVERS = ("ip", "netns", "list"), ("losetup", "--all")

pytestmark = [pytest.mark.slow, pytest.mark.chaos]


@pytest.fixture(scope="module", autouse=True)
def _able() -> None:
    if lacking := needs.missing():
        pytest.skip(f"needs, and this machine lacks: {', '.join(lacking)}")


def leftovers() -> list[str]:
    """Namespaces and loop devices outside of any run."""
    return [subprocess.run(c, capture_output=True, text=True).stdout for c in LEFTOVERS]


def processes_of(directory: Path) -> list[str]:
    """Whoever has this directory on the command line."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if str(directory).encode() in entry.read_bytes():
                found.append(entry.parent.name)
    return found


def test_kill_9_of_a_run_leaves_nothing(tmp_path: Path) -> None:
    before = leftovers()
    command = [sys.executable, "-m", "tests.chaos", "power-loss-of-leader"]
    command += ["--out", str(tmp_path), "--keep", str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as run:
        wait_until(lambda: len(processes_of(tmp_path)) >= 6)
        run.kill()
        run.wait()
    wait_until(lambda: not processes_of(tmp_path))
    wait_until(lambda: leftovers() == before)


@pytest.mark.timeout(180)
def test_nothing_acknowledged_is_lost_when_a_leader_dies_or_hears_nobody(tmp_path: Path) -> None:
    before = leftovers()
    command = [sys.executable, "-m", "tests.chaos", *SUBSET, "--out", str(tmp_path)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=os.environ)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count("lost 0, duplicated 0, other 0") == len(SUBSET)
    assert leftovers() == before
