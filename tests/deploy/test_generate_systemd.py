"""Units of systemd: systemd itself reads them, daemons take their files, and their commands run."""

import shlex
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from configparser import RawConfigParser
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from minikafka import Admin
from minikafka.broker.__main__ import prepare as prepare_broker
from minikafka.controller.__main__ import prepare as prepare_controller
from minikafka.deploy.cli import minikafka
from minikafka.runtime.config import parse_properties
from minikafka.runtime.errors import ConfigError
from minikafka.security.control_seal import keyring_of

from ..support.cluster import free_ports

HOSTS = [
    *("--controllers", "101=10.0.0.1,102=10.0.0.2:9193,103=c.example"),
    *("--brokers", "1=10.0.0.1,2=10.0.0.2,3=[fd00::3],4=10.0.0.1:9192"),
]
PREFIX = Path(sys.executable).parent.parent
STARTED_WITHIN_S = 60
MOST_EXPOSED = 20
"""Tenths: below 2.0 `systemd-analyze security` calls a service OK."""


def generate(output: Path, *arguments: str) -> Result:
    words = ["generate", "systemd", "--output", str(output), *arguments]
    return CliRunner().invoke(minikafka, words, catch_exceptions=True)


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("hosts")
    result = generate(output, *HOSTS, "--metrics-port", "9404", "--prefix", str(PREFIX))
    assert (result.exit_code, result.output) == (0, "")
    return output


def units(hosts: Path) -> list[Path]:
    return sorted(hosts.glob("*/*.service"))


def test_each_host_gets_what_runs_there(hosts: Path) -> None:
    assert {
        host.name: sorted(file.name for file in host.iterdir()) for host in hosts.iterdir()
    } == {
        "10.0.0.1": [
            "broker-1.properties",
            "broker-4.properties",
            "control.key",
            "controller-101.properties",
            "install.sh",
            "minikafka-broker@.service",
            "minikafka-controller@.service",
        ],
        "10.0.0.2": [
            "broker-2.properties",
            "control.key",
            "controller-102.properties",
            "install.sh",
            "minikafka-broker@.service",
            "minikafka-controller@.service",
        ],
        "c.example": [
            "control.key",
            "controller-103.properties",
            "install.sh",
            "minikafka-controller@.service",
        ],
        "fd00--3": [
            "broker-3.properties",
            "control.key",
            "install.sh",
            "minikafka-broker@.service",
        ],
    }
    script = (hosts / "10.0.0.1" / "install.sh").read_text()
    started = "minikafka-controller@101 minikafka-broker@1 minikafka-broker@4"
    assert script.endswith(f"systemctl enable --now --no-block {started}\n")
    subprocess.run(["sh", "-n", hosts / "10.0.0.1" / "install.sh"], check=True)


def test_daemons_take_their_properties_without_a_warning(hosts: Path) -> None:
    ports: dict[tuple[str, str], str] = {}
    for file in sorted(hosts.glob("*/*.properties")):
        prepare = prepare_broker if file.name.startswith("broker") else prepare_controller
        properties = parse_properties(file.read_text())
        plan = prepare(properties)
        assert (plan.name, list(plan.warnings)) == (file.stem, [])
        for key in ("listeners", "metrics.listener"):
            bound = (file.parent.name, properties[key].rpartition(":")[2])
            assert ports.setdefault(bound, file.stem) == file.stem, "a port is taken twice"
    first = parse_properties((hosts / "10.0.0.1" / "broker-1.properties").read_text())
    assert first["controller.quorum.voters"] == (
        "101@10.0.0.1:9093,102@10.0.0.2:9193,103@c.example:9093"
    )
    assert (first["broker.rack"], first["default.replication.factor"]) == ("10.0.0.1", "3")


def test_all_hosts_have_one_key_that_only_the_user_reads_and_that_a_later_call_keeps(
    tmp_path: Path,
) -> None:
    keys = []
    for brokers in ("1=a", "1=a,2=b"):
        assert generate(tmp_path, "--controllers", "9=a", "--brokers", brokers).exit_code == 0
        found = sorted(tmp_path.glob("*/control.key"))
        assert [stat.S_IMODE(each.stat().st_mode) for each in found] == [0o600] * len(found)
        keys += [each.read_text() for each in found]
    assert len(keys) == 3
    assert len({*keys}) == len(keyring_of(keys[0])) == 1
    properties = parse_properties((tmp_path / "a" / "broker-1.properties").read_text())
    assert properties["control.psk.file"] == "/etc/minikafka/control.key"
    assert "./control.key /etc/minikafka/" in (tmp_path / "a" / "install.sh").read_text()


@pytest.mark.parametrize(
    ("brokers", "copies", "in_sync"),
    [("1=a", "1", "1"), ("1=a,2=a:1,3=a:2", "3", "2"), ("1=a,2=a:1,3=b", "2", "2")],
)
def test_no_two_copies_are_on_one_host_where_there_are_several(
    tmp_path: Path, brokers: str, copies: str, in_sync: str
) -> None:
    assert generate(tmp_path, "--controllers", "9=a", "--brokers", brokers).exit_code == 0
    properties = parse_properties((tmp_path / "a" / "broker-1.properties").read_text())
    assert properties["default.replication.factor"] == copies
    assert properties["min.insync.replicas"] == in_sync


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None,
    reason="there is no systemd-analyze here (Debian: apt-get install systemd)",
)
def test_systemd_finds_nothing_wrong_and_little_that_is_exposed(hosts: Path) -> None:
    for unit in units(hosts):
        command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(unit)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout + done.stderr) == (0, ""), unit
        options = ["--offline=yes", f"--threshold={MOST_EXPOSED}"]
        command = ["systemd-analyze", "security", *options, str(unit)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("controllers", "brokers", "why"),
    [
        ("1=a,2=b", "3=a", "are 1, 3 or 5"),
        ("1=a", "1=a", "brokers=1: is that of controller-1 too"),
        ("1=a", "2=a,3=a", "brokers=a:9092: is that of broker-2 too: name another, as in"),
        ("1=a:9092", "2=a", "brokers=a:9092: is that of controller-1 too"),
        ("1=a", "", "must be ID=HOST or ID=HOST:PORT"),
        ("1=a", "2", "must be ID=HOST or ID=HOST:PORT"),
        ("1=a", "99999999999=b", "must be ID=HOST"),
        ("1=a", "2147483648=b", "must be ID=HOST"),
        ("1=a", "2=b:0", "must have a port from 1 to 65535"),
        ("1=a", "2=b:x", "must have a port from 1 to 65535"),
        ("1=a", "2=../b", "names no host"),
        ("1=a", "2=b%i", "names no host"),
    ],
)
def test_members_that_cannot_be_are_refused(
    tmp_path: Path, controllers: str, brokers: str, why: str
) -> None:
    result = generate(tmp_path / "out", "--controllers", controllers, "--brokers", brokers)
    assert isinstance(result.exception, ConfigError), result.output
    assert why in str(result.exception)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("option", "value", "why"),
    [
        ("--data-dir", "relative", "must be an absolute path"),
        ("--data-dir", "/a/../b", "must be an absolute path"),
        ("--prefix", "/opt/mini kafka", "must be an absolute path"),
        ("--config-dir", "/etc/%i", "must be an absolute path"),
        ("--user", "Mini Kafka", "must be a user's name"),
        ("--metrics-port", "65535", "ports end at 65535"),
        ("--output", "/dev/null", "Not a directory"),
        ("--output", "/dev/null/x", "cannot be written"),
    ],
)
def test_options_that_cannot_be_are_refused(
    tmp_path: Path, option: str, value: str, why: str
) -> None:
    result = generate(tmp_path, *HOSTS, option, value)
    assert result.exit_code != 0
    assert why in result.output + str(result.exception)


@contextmanager
def started(unit: Path, node_id: int, notify: Path) -> Iterator[socket.socket]:
    """Run the unit's own command as systemd would, until it reports that it is ready."""
    parser = RawConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(unit.read_text())
    command = shlex.split(parser["Service"]["ExecStart"].replace("%i", str(node_id)))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd, ExitStack() as stack:
        systemd.bind(str(notify))
        systemd.settimeout(STARTED_WITHIN_S)
        environment = {"NOTIFY_SOCKET": str(notify), "WATCHDOG_USEC": "200000"}
        process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        stack.callback(process.communicate)
        stack.callback(process.terminate)
        yield systemd
        process.terminate()
        _, log = process.communicate(timeout=STARTED_WITHIN_S)
        assert process.returncode == 0, log


@pytest.mark.slow
@pytest.mark.processes
def test_the_units_commands_run_a_cluster(tmp_path: Path) -> None:
    ports = free_ports(2)
    result = generate(
        tmp_path / "hosts",
        *("--controllers", f"101=127.0.0.1:{ports[0]}", "--brokers", f"1=127.0.0.1:{ports[1]}"),
        *("--prefix", str(PREFIX), "--config-dir", str(tmp_path / "hosts" / "127.0.0.1")),
        *("--data-dir", str(tmp_path / "data")),
    )
    assert result.exit_code == 0, result.output
    (tmp_path / "data").mkdir()
    host = tmp_path / "hosts" / "127.0.0.1"
    with (
        started(host / "minikafka-controller@.service", 101, tmp_path / "c") as controller,
        started(host / "minikafka-broker@.service", 1, tmp_path / "b") as broker,
    ):
        for systemd in (controller, broker):
            assert systemd.recv(999).startswith(b"READY=1\nSTATUS={")
            assert systemd.recv(999) == b"WATCHDOG=1"
            assert systemd.recv(999) == b"WATCHDOG=1"
        with Admin(f"127.0.0.1:{ports[1]}") as admin:
            (found,) = admin.describe_cluster().brokers
            assert (found.node_id, found.rack) == (1, "127.0.0.1")
