"""`minikafka up` with the real daemons: what people type first, and what they fear."""

import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from minikafka import Admin, Consumer, NewTopic, Producer, TopicPartition
from minikafka.deploy.layout import Layout

from ..support.cluster import wait_until
from .test_local_cluster import alive, wait_until_gone

pytestmark = pytest.mark.slow
COMMAND = [sys.executable, "-c", "from minikafka.deploy.cli import main; main()", "up"]
RECORDS = 2000


@contextlib.contextmanager
def up(directory: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [*COMMAND, "--data", str(directory), *arguments]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("ready bootstrap.servers="), process.communicate()[1]
        yield process, line.strip().partition("=")[2]
    finally:
        process.terminate()
        process.communicate()


def daemons(directory: Path) -> dict[str, int]:
    found: dict[str, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().rstrip(b"\0").decode().split(" ")
                if words[0] in ("minikafka-broker", "minikafka-controller"):
                    path = Path(words[1])
                    if path.parent.parent == directory:
                        found[path.parent.name] = int(entry.name)
    return found


def write(servers: str, count: int = RECORDS) -> list[tuple[int, int]]:
    """Write to a new topic of 3 copies; returns partition and offset of each record."""
    with Admin(servers) as admin:
        admin.create_topics([NewTopic("t", 3, 3)])
    with Producer(servers) as producer:
        deliveries = [producer.send("t", b"%d" % number) for number in range(count)]
        producer.flush()
        found = [delivery.result() for delivery in deliveries]
    return [(metadata.partition, metadata.offset) for metadata in found]


def read(servers: str, count: int = RECORDS) -> dict[tuple[int, int], bytes | None]:
    found: dict[tuple[int, int], bytes | None] = {}
    with Consumer(servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("t", index) for index in range(3)])
        deadline = time.monotonic() + 60
        while len(found) < count and time.monotonic() < deadline:
            for record in consumer.poll(timeout_ms=500):
                found[record.partition, record.offset] = record.value
    return found


def test_kill_9_of_everything_loses_nothing(tmp_path: Path) -> None:
    with up(tmp_path, "--port", "0") as (process, servers):
        acknowledged = write(servers)
        pids = daemons(tmp_path)
        assert sorted(pids) == ["broker-1", "broker-2", "broker-3", "controller-3001"]
        for pid in (process.pid, *pids.values()):
            os.kill(pid, signal.SIGKILL)
    assert wait_until_gone(list(pids.values())) == []
    with up(tmp_path) as (_, again):
        assert again == servers
        found = read(again)
    assert found == {where: b"%d" % number for number, where in enumerate(acknowledged)}


def test_a_clean_stop_and_start(tmp_path: Path) -> None:
    with up(tmp_path, "--port", "0") as (process, servers):
        acknowledged = write(servers)
        pids = daemons(tmp_path)
        served = [health_of(name, tmp_path) for name in sorted(pids)]
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert all(f"http://{address}/metrics\n" in err for address in served)
        assert not any(alive(pid) for pid in pids.values())
    with up(tmp_path) as (_, again):
        assert len(read(again)) == len(acknowledged)


def health_of(name: str, directory: Path) -> str:
    """The address at which the node serves metrics; it says there that it is in service."""
    layout = Layout.read(directory)
    assert layout is not None
    (address,) = (node.metrics for node in layout.nodes if node.name == name)
    assert address is not None
    with urllib.request.urlopen(f"http://{address}/health/ready", timeout=20) as response:
        assert response.read() == b"ready\n"
    return address


def test_nothing_is_left_of_an_up_that_was_killed(tmp_path: Path) -> None:
    with up(tmp_path, "--port", "0") as (process, _):
        pids = list(daemons(tmp_path).values())
        assert len(pids) == 4
        process.kill()
    assert wait_until_gone(pids) == []
    assert daemons(tmp_path) == {}


def test_a_killed_broker_comes_back_into_the_isr(tmp_path: Path) -> None:
    with up(tmp_path, "--port", "0", "--restart") as (_, servers):
        write(servers, 10)
        old = daemons(tmp_path)["broker-2"]
        os.kill(old, signal.SIGKILL)
        with Admin(servers) as admin:
            shrunk = wait_for_isr(admin, lambda isr: 2 not in isr)
            grown = wait_for_isr(admin, lambda isr: 2 in isr)
        assert shrunk
        assert grown
        assert daemons(tmp_path)["broker-2"] != old


def wait_for_isr(admin: Admin, wanted: Callable[[tuple[int, ...]], bool]) -> bool:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        partitions = admin.describe_topics(["t"])["t"].partitions
        if all(wanted(partition.isr) for partition in partitions):
            return True
    return False


def test_three_controllers_go_on_without_the_active_one(tmp_path: Path) -> None:
    with up(tmp_path, "--port", "0", "--controllers", "3", "--restart") as (_, servers):
        acknowledged = write(servers, 100)
        with Admin(servers) as admin:
            before = admin.describe_metadata_quorum()
            old = daemons(tmp_path)[f"controller-{before.leader_id}"]
            os.kill(old, signal.SIGKILL)
            # Takes a majority and a new active controller: the dead one is a second away.
            admin.create_topics([NewTopic("u", 3, 3)])
            after = admin.describe_metadata_quorum()
            assert after.leader_id != before.leader_id
            assert after.leader_epoch > before.leader_epoch
            assert [voter.node_id for voter in after.voters] == [3001, 3002, 3003]
            assert wait_for_quorum(admin, before.leader_id)
        assert daemons(tmp_path)[f"controller-{before.leader_id}"] != old
        assert len(read(servers, 100)) == len(acknowledged)


def wait_for_quorum(admin: Admin, voter_id: int) -> bool:
    """Until this voter has everything that is committed."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        quorum = admin.describe_metadata_quorum()
        ends = {voter.node_id: voter.log_end_offset for voter in quorum.voters}
        if ends[voter_id] >= quorum.high_watermark:
            return True
        time.sleep(0.05)
    return False


def test_a_quorum_is_stopped_and_reopened(tmp_path: Path) -> None:
    with up(tmp_path, "--port", "0", "--controllers", "3") as (process, servers):
        acknowledged = write(servers, 100)
        pids = daemons(tmp_path)
        assert sorted(pids)[3:] == ["controller-3001", "controller-3002", "controller-3003"]
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert not any(alive(pid) for pid in pids.values())
    with up(tmp_path) as (_, again):
        assert len(read(again, 100)) == len(acknowledged)
        with Admin(again) as admin:
            assert len(admin.describe_metadata_quorum().voters) == 3


def test_kill_9_of_everything_with_a_quorum_loses_nothing(tmp_path: Path) -> None:
    with up(tmp_path, "--port", "0", "--controllers", "3") as (process, servers):
        acknowledged = write(servers)
        pids = daemons(tmp_path)
        for pid in (process.pid, *pids.values()):
            os.kill(pid, signal.SIGKILL)
    assert wait_until_gone(list(pids.values())) == []
    with up(tmp_path) as (_, again):
        found = read(again)
    assert found == {where: b"%d" % number for number, where in enumerate(acknowledged)}


def test_one_broker_is_a_cluster_too(tmp_path: Path) -> None:
    with up(tmp_path, "--port", "0", "--brokers", "1") as (_, servers):
        with Admin(servers) as admin:
            admin.create_topics([NewTopic("t", 3)])
            assert admin.describe_topics(["t"])["t"].partitions[0].replicas == (1,)
        with Producer(servers) as producer:
            assert producer.send("t", b"x").result().offset == 0


def test_a_port_in_use_is_one_line(tmp_path: Path) -> None:
    with up(tmp_path / "a", "--port", "0", "--brokers", "1") as (_, servers):
        port = servers.rpartition(":")[2]
        command = [*COMMAND, "--data", str(tmp_path / "b"), "--port", port, "--brokers", "1"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stdout == ""
    last = done.stderr.splitlines()[-1]
    assert last.startswith("minikafka up: broker-1 exited with code 2: listeners=")
    assert port in last


def test_a_directory_in_use_is_one_line_at_once(tmp_path: Path) -> None:
    with up(tmp_path, "--port", "0", "--brokers", "1") as (process, _):
        command = [*COMMAND, "--data", str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"minikafka up: data={tmp_path}: another cluster runs there "
        f"(launched by process {process.pid})\n"
    )


def test_the_console_ends_with_whoever_started_it(tmp_path: Path) -> None:
    flags = ("--port", "0", "--brokers", "1", "--console", "0")
    with up(tmp_path, *flags) as (process, _):
        assert process.stderr is not None
        said = (line.partition("console: ") for line in process.stderr)
        address = next(rest.strip() for _, colon, rest in said if colon)
        with urllib.request.urlopen(address, timeout=30) as answer:
            assert b"Everything is in order." in answer.read()
        process.kill()

    def is_gone() -> bool:
        try:
            urllib.request.urlopen(address, timeout=30).close()
        except urllib.error.URLError:
            return True
        return False

    assert wait_until(is_gone)
