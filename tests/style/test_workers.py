"""A run of several workers ends: who hangs has a deadline, who dies is noticed and replaced."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SLOW = "import time\nimport pytest\npytestmark = pytest.mark.slow\n"
SUITE = {
    "conftest.py": """
from tests.support.by_folder import ByFolder

pytest_plugins = [f"tests.support.{name}" for name in ("second_run", "deadline", "forks")]

def pytest_xdist_make_scheduler(config, log):
    return ByFolder(config, log)
""",
    "tests/system/test_hangs.py": SLOW
    + "".join(f"def test_{n}(): pass\n" for n in range(4))
    + "def test_hangs(): time.sleep(999)\n"
    + "".join(f"def test_{n}(): pass\n" for n in range(5, 9)),
    # Each is the last of its folder: a replacement gets one test, and no next one.
    "tests/deploy/test_hangs_twice.py": SLOW
    + "@pytest.fixture\ndef page():\n    yield\n    time.sleep(999)\n"
    + "def test_fails(page): assert False\n"
    + "def test_last(): pass\n",
    # The child would outlive its parent, and hold the pipe that tells of the parent's end.
    "tests/runtime/test_forks.py": SLOW
    + "import os\n"
    + "def test_forks():\n    os.fork() or time.sleep(999)\n    time.sleep(999)\n",
    "tests/simulation/test_many.py": SLOW
    + "@pytest.mark.parametrize('n', range(20))\ndef test_one(n): pass\n",
}


def test_what_hangs_is_red_and_all_else_is_run(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nmarkers =\n    slow:\n    processes:\n"
        "timeout = 2\ntimeout_method = thread\nasyncio_default_fixture_loop_scope = function\n"
    )
    for name, text in SUITE.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    flags = ["-n", "2", "--dist", "loadscope", "--no-loadscope-reorder", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rA", *flags, "tests"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "FAILED tests/system/test_hangs.py::test_hangs" in done.stdout
    assert "FAILED tests/deploy/test_hangs_twice.py::test_fails" in done.stdout
    assert "FAILED tests/runtime/test_forks.py::test_forks - RuntimeError" in done.stdout
    assert "3 failed, 29 passed" in done.stdout.splitlines()[-1]
