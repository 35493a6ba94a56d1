"""A failed test of real processes runs once more, and a test of anything else does not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SLOW = "import pytest\nfrom pathlib import Path\npytestmark = pytest.mark.slow\n"
FAILS_ONCE = """
def test_it(tmp_path_factory):
    ran = tmp_path_factory.getbasetemp() / Path(__file__).stem
    first = not ran.exists()
    ran.touch()
    assert not first, "the first run"
"""
SUITE = {
    "system/test_fails_once.py": SLOW + FAILS_ONCE,
    "system/test_fails_twice.py": SLOW + "def test_it():\n    assert False, 'each run'\n",
    "system/test_shares.py": SLOW
    + """
made = []

@pytest.fixture(scope="session")
def cluster():
    made.append(None)
    return len(made)

def test_before(cluster):
    assert cluster == 1

def test_with_another_cluster_it_passes(cluster):
    assert cluster == 2, "the topic exists"

@pytest.fixture(scope="module")
def starts_late():
    if len(made) < 3:
        made.append(None)
        raise AssertionError("not ready")

def test_a_start_that_failed(starts_late):
    pass
""",
    "broker/test_daemon.py": SLOW.replace("slow", "slow, pytest.mark.processes")
    .replace("= pytest", "= [pytest")
    .replace("processes", "processes]")
    + FAILS_ONCE,
    "broker/test_slow_and_pure.py": SLOW + FAILS_ONCE,
    "deploy/test_fast.py": SLOW.replace("pytestmark", "slow") + FAILS_ONCE,
}


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A small suite runs as `make test` has it run: on a worker of xdist."""
    folder = tmp_path_factory.mktemp("suite")
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    slow:\n    processes:\n")
    for name, text in SUITE.items():
        file = folder / "tests" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    command = ["pytest", "-n", "1", "-p", "tests.support.second_run", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", *command, "-rA", "--strict-markers", "tests"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def test_what_fails_once_is_green_and_named_with_both_outcomes(printed: str) -> None:
    name = "tests/system/test_fails_once.py::test_it"
    assert f"PASSED {name}" in printed
    _, _, told = printed.partition(f"{name}: failed in its call, then passed\n")
    assert "AssertionError: the first run" in told.partition("tests/system/test_fails_twice")[0]


def test_what_fails_twice_is_red_and_named_with_both_outcomes(printed: str) -> None:
    name = "tests/system/test_fails_twice.py::test_it"
    assert f"FAILED {name}" in printed
    assert f"{name}: failed in its call, then failed\n" in printed


def test_what_is_shared_is_made_anew_for_the_second_run(printed: str) -> None:
    name = "tests/system/test_shares.py"
    assert f"{name}::test_with_another_cluster_it_passes: failed in its call, then pa" in printed
    assert f"{name}::test_a_start_that_failed: failed in its setup, then passed" in printed
    assert f"{name}::test_before: failed" not in printed


def test_elsewhere_the_mark_decides(printed: str) -> None:
    assert "tests/broker/test_daemon.py::test_it: failed in its call, then passed" in printed
    assert "FAILED tests/broker/test_slow_and_pure.py::test_it" in printed
    assert "tests/broker/test_slow_and_pure.py::test_it: failed" not in printed


def test_in_those_folders_what_is_fast_has_one_run(printed: str) -> None:
    assert "FAILED tests/deploy/test_fast.py::test_it" in printed
    assert "tests/deploy/test_fast.py::test_it: failed" not in printed


def test_the_last_line_counts_first_runs_for_themselves(printed: str) -> None:
    (last,) = printed.splitlines()[-1:]
    assert "3 failed, 5 passed" in last
    assert "5 first run failed" in last
