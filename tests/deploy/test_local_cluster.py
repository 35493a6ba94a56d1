"""Process handling, with daemons that misbehave on demand. Every cluster here is real processes."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from minikafka.deploy.daemons import DaemonFailed, Program
from minikafka.deploy.layout import read_properties
from minikafka.deploy.local_cluster import LocalCluster
from minikafka.runtime.errors import ConfigError

pytestmark = pytest.mark.slow

FAKE = Program("tests.deploy.fake_daemon:main", "fake-daemon")
FAKES = {"broker": FAKE, "controller": FAKE}


def everyone(host: str, port: int, timeout_seconds: float) -> frozenset[int]:
    return frozenset(range(1, 10))


def story(cluster: LocalCluster, node: str) -> list[str]:
    path = cluster.node(node).directory / "story"
    return [line.split()[0] for line in path.read_text().splitlines()]


def when(cluster: LocalCluster, node: str, event: str) -> int:
    path = cluster.node(node).directory / "story"
    return next(
        int(line.split()[1]) for line in path.read_text().splitlines() if line.startswith(event)
    )


def alive(pid: int) -> bool:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state not in "ZX"
    return False


def wait_until_gone(pids: list[int], timeout_seconds: float = 30.0) -> list[int]:
    """Poll: these are no children of ours. Returns who is still there."""
    deadline = time.monotonic() + timeout_seconds
    while (left := [p for p in pids if alive(p)]) and time.monotonic() < deadline:
        time.sleep(0.01)
    return left


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    made = LocalCluster(tmp_path / "c", brokers=2, programs=FAKES, probe=everyone)
    yield made
    made.stop()


def test_daemons_run_in_their_own_sessions_and_show_their_command(cluster: LocalCluster) -> None:
    cluster.start()
    assert list(cluster.pids) == ["controller-3001", "broker-1", "broker-2"]
    for name, pid in cluster.pids.items():
        assert os.getsid(pid) == pid
        command = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").decode()
        assert command == f"fake-daemon {cluster.node(name).properties_path}"
        assert Path(f"/proc/{pid}/comm").read_text() == "fake-daemon\n"


def test_a_daemon_inherits_only_its_two_pipes(cluster: LocalCluster) -> None:
    cluster.start()
    for name, pid in cluster.pids.items():
        log = str(cluster.node(name).log_path)
        # The fake listens; it closes its ready pipe right after it was ready.
        expected = sorted(["/dev/null", log, log, "pipe", "socket"])
        deadline = time.monotonic() + 10
        while open_files(pid) != expected and time.monotonic() < deadline:
            pass
        assert open_files(pid) == expected


def open_files(pid: int) -> list[str]:
    found: list[str] = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append(str(entry.readlink()).split(":")[0])
    return sorted(found)


def test_brokers_stop_before_controllers(cluster: LocalCluster) -> None:
    cluster.start()
    pids = list(cluster.pids.values())
    assert cluster.stop() == []
    assert not any(alive(pid) for pid in pids)
    for node in cluster.layout.nodes:
        assert story(cluster, node.name) == ["started", "terminated", "ended"]
    brokers_ended = max(when(cluster, node.name, "ended") for node in cluster.layout.brokers)
    assert brokers_ended < when(cluster, "controller-3001", "terminated")


def test_a_daemon_that_ignores_sigterm_is_killed_after_the_time(tmp_path: Path) -> None:
    config = {"fake.ignore.sigterm": "yes"}
    cluster = LocalCluster(
        tmp_path, brokers=2, broker_config=config, programs=FAKES, probe=everyone
    ).start()
    pids = list(cluster.pids.values())
    assert cluster.stop(timeout_seconds=0.2) == ["broker-1", "broker-2"]
    assert not any(alive(pid) for pid in pids)
    assert story(cluster, "controller-3001")[-1] == "ended"


def test_a_daemon_that_fails_at_start_is_quoted_with_its_exit_code(tmp_path: Path) -> None:
    cluster = LocalCluster(
        tmp_path, brokers=1, broker_config={"fake.exit.code": "2"}, programs=FAKES, probe=everyone
    )
    with pytest.raises(DaemonFailed) as failure:
        cluster.start()
    assert str(failure.value) == "broker-1 exited with code 2: listeners=x: cannot be used"
    assert failure.value.exit_code == 2
    assert cluster.pids == {}


def test_a_daemon_that_is_never_ready_is_given_up(tmp_path: Path) -> None:
    cluster = LocalCluster(
        tmp_path,
        brokers=1,
        broker_config={"fake.never.ready": "yes"},
        programs=FAKES,
        probe=everyone,
    )
    with pytest.raises(DaemonFailed, match="broker-1 is not ready yet"):
        cluster.start()


def test_brokers_that_stay_fenced_are_given_up(tmp_path: Path) -> None:
    def only_the_first(host: str, port: int, timeout_seconds: float) -> frozenset[int]:
        return frozenset({1})

    cluster = LocalCluster(tmp_path, brokers=2, programs=FAKES, probe=only_the_first)
    with pytest.raises(DaemonFailed, match="does not see every broker unfenced yet"):
        cluster.start(timeout_seconds=1)


def test_kill_and_restart(cluster: LocalCluster) -> None:
    cluster.start()
    first = cluster.pids["broker-2"]
    cluster.kill(2)
    assert not alive(first)
    assert not cluster.is_running(2)
    assert cluster.exits(0) == []  # what was asked for is no news
    second = cluster.restart(2)
    assert second != first
    assert cluster.pids["broker-2"] == second
    assert story(cluster, "broker-2") == ["started", "started"]
    with pytest.raises(ConfigError, match="still runs"):
        cluster.restart(2)


def test_a_death_from_outside_is_reported(cluster: LocalCluster) -> None:
    cluster.start()
    os.kill(cluster.pids["broker-1"], signal.SIGKILL)
    (exited,) = cluster.exits(30)
    assert (exited.name, exited.how) == ("broker-1", "was killed by SIGKILL")
    assert list(cluster.pids) == ["controller-3001", "broker-2"]


def test_an_existing_directory_keeps_its_ports_and_files(cluster: LocalCluster) -> None:
    cluster.start()
    bootstrap, directory = cluster.bootstrap, cluster.directory
    cluster.stop()
    again = LocalCluster(
        directory, broker_config={"log.segment.bytes": "4096"}, programs=FAKES, probe=everyone
    )
    with again:
        assert again.bootstrap == bootstrap
        assert "log.segment.bytes=4096" in again.node(1).properties_path.read_text().split("\n")
    assert story(again, "broker-1") == ["started", "terminated", "ended"] * 2


def test_a_moved_directory_takes_its_data_along(cluster: LocalCluster, tmp_path: Path) -> None:
    cluster.start()
    cluster.stop()
    assert cluster.directory is not None
    moved = LocalCluster(cluster.directory.rename(tmp_path / "m"), programs=FAKES, probe=everyone)
    with moved:
        for node in moved.layout.nodes:
            assert read_properties(node)["log.dirs"] == f"{tmp_path}/m/{node.name}/data"
    assert not cluster.directory.exists()


def test_an_existing_directory_with_other_numbers_is_refused(cluster: LocalCluster) -> None:
    cluster.start()
    cluster.stop()
    port, directory = cluster.layout.brokers[0].port, cluster.directory
    for other, words in (
        (LocalCluster(directory, brokers=5), r"brokers=5: .* holds a cluster of 2"),
        (LocalCluster(directory, controllers=3), r"controllers=3: .* holds a cluster of 1"),
        (LocalCluster(directory, port=port + 1), rf"port={port + 1}: .* a cluster on port {port}"),
    ):
        with pytest.raises(ConfigError, match=words):
            other.start()


def test_one_launcher_at_a_time(cluster: LocalCluster) -> None:
    cluster.start()
    with pytest.raises(ConfigError, match=rf"another cluster runs there .*{os.getpid()}"):
        LocalCluster(cluster.directory, programs=FAKES, probe=everyone).start()
    assert len(cluster.pids) == 3


def test_a_temporary_directory_is_removed_in_the_end() -> None:
    with LocalCluster(brokers=1, programs=FAKES, probe=everyone) as cluster:
        directory = cluster.directory
        assert directory is not None
        assert (directory / "broker-1" / "server.properties").exists()
    assert not directory.exists()


OWNER = """
import sys, time
from tests.deploy.test_local_cluster import FAKES, everyone
from minikafka.deploy.local_cluster import LocalCluster
config = dict(arg.split("=") for arg in sys.argv[1:])
cluster = LocalCluster(brokers=2, broker_config=config, programs=FAKES, probe=everyone).start()
print(cluster.directory, *cluster.pids.values(), cluster._daemons._nursery.pid, flush=True)
time.sleep(1000)
"""


@pytest.mark.parametrize("nursery_dies_too", [False, True])
def test_nothing_is_left_of_an_owner_that_was_killed(nursery_dies_too: bool) -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True) as own:
        assert own.stdout is not None
        directory, *pids = own.stdout.readline().split()
        processes = [int(pid) for pid in pids]
        assert all(alive(pid) for pid in processes)
        own.kill()
        if nursery_dies_too:
            os.kill(processes[-1], signal.SIGKILL)
    assert wait_until_gone(processes) == []
    # With the nursery gone nobody is left to remove the files.
    assert Path(directory).exists() == nursery_dies_too
    if nursery_dies_too:
        assert (Path(directory) / "broker-1/story").read_text().split()[-2] == "ended"
        subprocess.run(["rm", "-r", directory], check=True)


@pytest.mark.slow
def test_a_deaf_daemon_of_a_killed_owner_is_killed() -> None:
    deaf = ["fake.ignore.lifeline=yes", "fake.ignore.sigterm=yes"]
    command = [sys.executable, "-c", OWNER, *deaf]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as own:
        assert own.stdout is not None
        directory, *pids = own.stdout.readline().split()
        own.kill()
    assert wait_until_gone([int(pid) for pid in pids]) == []
    assert not Path(directory).exists()
