"""`minikafka up` as a process, with daemons that misbehave on demand."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from minikafka.deploy.layout import Layout, read_properties, write_properties

from .test_local_cluster import alive, wait_until_gone

pytestmark = pytest.mark.slow

UP = """
import functools, importlib, sys
from minikafka.deploy.cli import main
from minikafka.deploy.local_cluster import LocalCluster
from tests.deploy.test_local_cluster import FAKES, everyone
up = importlib.import_module("minikafka.deploy.up")
up.LocalCluster = functools.partial(LocalCluster, programs=FAKES, probe=everyone)
sys.argv[:] = ["minikafka", "up", *sys.argv[1:]]
main()
"""


class Up:
    """A running `minikafka up`, told to end after the test."""

    def __init__(self, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", UP, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.out, self.err = self.process.stdout, self.process.stderr

    def ready(self) -> str:
        line = self.out.readline()
        assert re.fullmatch(
            r"ready bootstrap\.servers=127\.0\.0\.1:\d+(,127\.0\.0\.1:\d+)*\n", line
        )
        return line.removeprefix("ready bootstrap.servers=").strip()

    def until(self, pattern: str) -> re.Match[str]:
        for line in self.err:
            if (found := re.search(pattern, line)) is not None:
                return found
        raise AssertionError(f"never said {pattern}")

    def end(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err


@pytest.fixture
def ups() -> Iterator[list[Up]]:
    running: list[Up] = []
    yield running
    for up in running:
        up.process.kill()
        up.process.communicate()


def start(ups: list[Up], *arguments: object) -> Up:
    up = Up(*arguments)
    ups.append(up)
    return up


def pids_in(directory: Path) -> dict[str, int]:
    """Who runs there, by the commands in /proc."""
    found: dict[str, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().rstrip(b"\0").decode().split(" ")
                if words[0] == "fake-daemon" and words[1].startswith(f"{directory}/"):
                    found[Path(words[1]).parent.name] = int(entry.name)
    return found


def assert_running(directory: Path, expected: dict[str, int]) -> None:
    """A forked daemon takes its own name a moment after it was started."""
    deadline = time.monotonic() + 10
    while pids_in(directory) != expected and time.monotonic() < deadline:
        time.sleep(0.01)
    assert pids_in(directory) == expected


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ready_then_a_clean_end(ups: list[Up], tmp_path: Path, number: signal.Signals) -> None:
    up = start(ups, "--data", tmp_path, "--port", 0)
    assert up.ready().count(",") == 2
    pids = pids_in(tmp_path)
    assert sorted(pids) == ["broker-1", "broker-2", "broker-3", "controller-3001"]
    up.process.send_signal(number)
    code, out, err = up.end()
    assert (code, out) == (0, "")
    assert err.startswith(f"starting 3 brokers and 1 controller in {tmp_path}\n")
    assert not any(alive(pid) for pid in pids.values())


def test_nothing_is_left_when_up_is_killed(ups: list[Up], tmp_path: Path) -> None:
    up = start(ups, "--data", tmp_path, "--port", 0, "--brokers", 2)
    up.ready()
    pids = list(pids_in(tmp_path).values())
    assert len(pids) == 3
    up.process.kill()
    up.end()
    assert wait_until_gone(pids) == []


def test_a_reopened_directory_has_the_same_addresses(ups: list[Up], tmp_path: Path) -> None:
    servers = []
    for arguments in ((["--port", 0, "--brokers", 2]), []):
        up = start(ups, "--data", tmp_path, *arguments)
        servers.append(up.ready())
        up.process.terminate()
        assert up.end()[0] == 0
    assert servers[0] == servers[1]


def test_a_directory_is_reopened_right_after_its_launcher_was_killed(
    ups: list[Up], tmp_path: Path
) -> None:
    first = start(ups, "--data", tmp_path, "--port", 0, "--brokers", 1)
    servers = first.ready()
    first.process.kill()
    assert start(ups, "--data", tmp_path).ready() == servers


def test_a_dead_daemon_comes_back(ups: list[Up], tmp_path: Path) -> None:
    up = start(ups, "--data", tmp_path, "--port", 0, "--restart")
    up.ready()
    old = pids_in(tmp_path)
    os.kill(old["broker-2"], signal.SIGKILL)
    up.until(rf"broker-2 \(pid {old['broker-2']}\) was killed by SIGKILL; starting it again")
    pid = int(up.until(r"broker-2 started again \(pid (\d+)\)")[1])
    assert_running(tmp_path, old | {"broker-2": pid})


def test_without_restart_the_others_go_on(ups: list[Up], tmp_path: Path) -> None:
    up = start(ups, "--data", tmp_path, "--port", 0, "--brokers", 2)
    up.ready()
    pids = pids_in(tmp_path)
    os.kill(pids["broker-2"], signal.SIGKILL)
    up.until(r"broker-2 \(pid \d+\) was killed by SIGKILL$")
    assert sorted(pids_in(tmp_path)) == ["broker-1", "controller-3001"]
    os.kill(pids["broker-1"], signal.SIGKILL)
    os.kill(pids["controller-3001"], signal.SIGKILL)
    code, _, err = up.end()
    assert code == 1
    assert err.endswith("minikafka up: every daemon has ended\n")


def test_a_controller_of_three_that_died_is_brought_back(ups: list[Up], tmp_path: Path) -> None:
    up = start(
        ups, "--data", tmp_path, "--brokers", 1, "--controllers", 3, "--port", 0, "--restart"
    )
    up.until("starting 1 broker and 3 controllers")
    up.ready()
    old = pids_in(tmp_path)
    assert len(old) == 4
    os.kill(old["controller-3002"], signal.SIGKILL)
    found = up.until(r"controller-3002 started again \(pid (\d+)\)")
    assert_running(tmp_path, old | {"controller-3002": int(found[1])})


def test_the_second_signal_does_not_wait(ups: list[Up], tmp_path: Path) -> None:
    layout = Layout.plan(tmp_path, brokers=2, controllers=1, port=0)
    layout.write({"fake.ignore.sigterm": "yes"}, {})
    up = start(ups, "--data", tmp_path)
    up.ready()
    pids = list(pids_in(tmp_path).values())
    up.process.terminate()
    up.until("stopping")
    up.process.terminate()
    code, _, err = up.end()
    assert code == 1
    assert "Traceback" not in err
    assert not any(alive(pid) for pid in pids)


def test_a_daemon_that_fails_at_start_is_quoted(ups: list[Up], tmp_path: Path) -> None:
    layout = Layout.plan(tmp_path, brokers=2, controllers=1, port=0)
    layout.write({}, {})
    broken = layout.brokers[1]
    write_properties(broken, read_properties(broken) | {"fake.exit.code": "2"})
    code, out, err = start(ups, "--data", tmp_path).end()
    assert (code, out) == (2, "")
    assert err.splitlines()[-1] == (
        "minikafka up: broker-2 exited with code 2: listeners=x: cannot be used"
    )
    assert pids_in(tmp_path) == {}


def test_a_temporary_directory_goes_with_up(ups: list[Up]) -> None:
    up = start(ups, "--brokers", 1, "--port", 0)
    directory = Path(up.until(r"in (/.*)$")[1])
    up.ready()
    assert directory.exists()
    up.process.terminate()
    assert up.end()[0] == 0
    assert not directory.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--controllers", "2"], "--controllers 2: must be 1, 3 or 5"),
        (["--controllers", "7"], "--controllers 7: must be 1, 3 or 5"),
        (["--brokers", "0"], "Invalid value for '--brokers'"),
        (["--brokers", "x"], "Invalid value for '--brokers'"),
        (["--port", "70000"], "Invalid value for '--port'"),
        (["--port", "65534"], "port=65534: 4 nodes need ports up to 65541"),
        (["--data", "/proc/nowhere"], "data=/proc/nowhere: "),
        (["--unknown"], "No such option"),
        (["surplus"], "unexpected extra argument"),
    ],
)
def test_bad_arguments_are_one_line(ups: list[Up], arguments: list[str], words: str) -> None:
    code, out, err = start(ups, *arguments).end()
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert words in err


def test_a_directory_that_cannot_be_used_is_one_line(ups: list[Up], tmp_path: Path) -> None:
    (tmp_path / "broker-1").write_text("in the way")
    code, out, err = start(ups, "--data", tmp_path, "--port", 0).end()
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert f"minikafka up: data={tmp_path}: " in err


def test_other_numbers_than_the_directorys_are_one_line(ups: list[Up], tmp_path: Path) -> None:
    Layout.plan(tmp_path, brokers=2, controllers=1, port=19092).write({}, {})
    for arguments in (["--brokers", "3"], ["--port", "19093"]):
        code, out, err = start(ups, "--data", tmp_path, *arguments).end()
        assert (code, out) == (2, "")
        assert len(err.splitlines()) == 1
        assert "holds a cluster" in err


def test_without_its_nursery_it_ends_with_everything(ups: list[Up], tmp_path: Path) -> None:
    up = start(ups, "--data", tmp_path, "--port", 0, "--brokers", 2)
    up.ready()
    pids = list(pids_in(tmp_path).values())
    parent = Path(f"/proc/{pids[0]}/stat").read_text().rpartition(")")[2].split()[1]
    os.kill(int(parent), signal.SIGKILL)
    code, _, err = up.end()
    assert code == 1
    assert "the process that starts daemons ended" in err
    assert "Traceback" not in err
    assert wait_until_gone(pids) == []
