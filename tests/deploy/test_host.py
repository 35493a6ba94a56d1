"""`minikafka host`: brokers derived from one file, and two such hosts as one cluster."""

import re
import signal
import subprocess
import sys
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner

from minikafka import Admin, NewTopic
from minikafka.broker.__main__ import prepare
from minikafka.deploy.cli import minikafka
from minikafka.deploy.host_brokers import plan
from minikafka.runtime.errors import ConfigError

from ..support.cluster import free_ports, wait_until

FIRST = {
    "node.id": "11",
    "listeners": "PLAINTEXT://0.0.0.0:9092,INSIDE://0.0.0.0:9192",
    "advertised.listeners": "PLAINTEXT://a.example:9092,INSIDE://10.0.0.1:9192",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT",
    "metrics.listener": "127.0.0.1:9404",
    "controller.quorum.voters": "101@10.0.0.1:9093",
    "log.dirs": "/disk1, /disk2",
    "broker.rack": "a.example",
    "control.psk.file": "/etc/minikafka/control.key",
}


def test_further_brokers_have_the_next_id_and_ports_and_directories_of_their_own() -> None:
    brokers = plan(FIRST, 3, Path("/logs"))
    assert [each.name for each in brokers] == ["broker-11", "broker-12", "broker-13"]
    assert brokers[2].overrides == {
        "node.id": "13",
        "broker.rack": "a.example",
        "log.dirs": "/disk1/broker-13,/disk2/broker-13",
        "listeners": "PLAINTEXT://0.0.0.0:9094,INSIDE://0.0.0.0:9194",
        "advertised.listeners": "PLAINTEXT://a.example:9094,INSIDE://10.0.0.1:9194",
        "metrics.listener": "127.0.0.1:9406",
    }
    assert [each.address for each in brokers] == [
        f"a.example:{port}" for port in (9092, 9093, 9094)
    ]
    assert brokers[0].log_path == Path("/logs/broker-11.log")
    for broker in brokers:
        assert list(prepare({**FIRST, **broker.overrides}).warnings) == []


def test_a_rack_that_is_not_named_is_the_host() -> None:
    unnamed = {key: value for key, value in FIRST.items() if key != "broker.rack"}
    racks = {each.overrides["broker.rack"] for each in plan(unnamed, 2, Path())}
    assert racks == {subprocess.check_output(["hostname"], text=True).strip()}


@pytest.mark.parametrize(
    ("changed", "count", "why"),
    [
        ({"node.id": ""}, 1, "node.id: must be the number of the first broker"),
        ({"node.id": "x"}, 1, "node.id=x: must be the number"),
        ({"log.dirs": ""}, 1, "log.dirs: must name the directories"),
        ({"listeners": "PLAINTEXT://a"}, 1, "listeners=PLAINTEXT://a: has no port"),
        ({"listeners": "PLAINTEXT://a:65535"}, 2, "would be above 65535"),
        ({"metrics.listener": "127.0.0.1:9093"}, 2, "port 9093 of broker-12 is that of broker-11"),
        ({"listeners": "A://a:9092,B://a:9093"}, 2, "leave room for 2 ports after each"),
    ],
)
def test_what_collides_is_refused(changed: dict[str, str], count: int, why: str) -> None:
    with pytest.raises(ConfigError) as refused:
        plan({**FIRST, **changed}, count, Path())
    assert why in str(refused.value)


def test_a_file_that_is_missing_is_one_line(tmp_path: Path) -> None:
    done = CliRunner().invoke(minikafka, ["host", str(tmp_path / "none")])
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "No such file" in done.stderr


class Host:
    """A running `minikafka host` with two brokers."""

    def __init__(self, directory: Path, rack: str, first: int, port: int, control: int) -> None:
        file = directory / f"{rack}.properties"
        file.write_text(
            f"node.id={first}\nbroker.rack={rack}\nlog.dirs={directory}/{rack}\n"
            f"listeners=PLAINTEXT://127.0.0.1:{port}\n"
            f"controller.quorum.voters=101@127.0.0.1:{control}\n"
        )
        words = ["host", str(file), "--brokers", "2", "--log-dir", str(directory / "logs")]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "minikafka", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def said(self, pattern: str) -> re.Match[str]:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if found := re.search(pattern, line):
                return found
        raise AssertionError(f"it never said {pattern}")

    def stop(self) -> int:
        self.process.terminate()
        self.process.communicate(timeout=60)
        return self.process.returncode


@pytest.mark.slow
def test_two_hosts_are_one_cluster_and_hold_no_partition_twice(tmp_path: Path) -> None:
    ports = free_ports(40)
    control = ports[0]
    # Two ports in a row for each host.
    first, second = [a for a, b in pairwise(ports[1:]) if b == a + 1][:3:2]
    with ExitStack() as stack:
        words = ["node.id=101", f"listeners=CONTROLLER://127.0.0.1:{control}"]
        words += [f"log.dirs={tmp_path}/c", f"controller.quorum.voters=101@127.0.0.1:{control}"]
        command = [sys.executable, "-m", "minikafka.controller"]
        controller = subprocess.Popen(
            [*command, *(f"--override={each}" for each in words)], stderr=subprocess.DEVNULL
        )
        stack.callback(controller.wait, 30)
        stack.callback(controller.terminate)
        hosts = [
            Host(tmp_path, "a", 1, first, control),
            Host(tmp_path, "b", 11, second, control),
        ]
        for host in hosts:
            stack.callback(host.process.kill)
        for host, port in zip(hosts, (first, second), strict=True):
            assert host.process.stdout is not None
            servers = f"127.0.0.1:{port},127.0.0.1:{port + 1}"
            assert host.process.stdout.readline() == f"ready bootstrap.servers={servers}\n"
        with Admin(f"127.0.0.1:{first}") as admin:
            racks = {each.node_id: each.rack for each in admin.describe_cluster().brokers}
            assert racks == {1: "a", 2: "a", 11: "b", 12: "b"}
            admin.create_topics([NewTopic("t", 16, 2)])
            described = admin.describe_topics(["t"])["t"]
            for partition in described.partitions:
                assert {racks[each] for each in partition.replicas} == {"a", "b"}
            log = tmp_path / "logs" / "broker-12.log"
            starts = log.read_text().count(" ready {")
            (killed,) = pids_of(hosts[1], "node.id=12")
            subprocess.run(["kill", "-9", str(killed)], check=True)
            assert hosts[1].said(r"broker-12 .*killed by SIGKILL; starting it again")
            assert hosts[1].said(r"broker-12 started again")
            wait_until(lambda: log.read_text().count(" ready {") > starts, within_s=60)
        assert [host.stop() for host in hosts] == [0, 0]


def pids_of(host: Host, word: str) -> list[int]:
    """Process ids of its brokers that have this override."""
    found = subprocess.run(["pgrep", "-f", word], capture_output=True, text=True, check=False)
    mine = []
    for line in found.stdout.split():
        parent = Path(f"/proc/{line}/stat").read_text().rpartition(")")[2].split()[1]
        grand = Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()[1]
        if int(grand) == host.process.pid:
            mine.append(int(line))
    return mine


def test_a_signal_ends_it_before_it_is_ready(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    host = Host(tmp_path, "a", 1, port, port)
    host.said("starting 2 brokers")
    host.process.send_signal(signal.SIGINT)
    _, log = host.process.communicate(timeout=60)
    assert host.process.returncode == 0, log
