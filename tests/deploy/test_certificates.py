"""`minikafka generate certificates`: the files that it writes, and a cluster that runs on them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from minikafka import Admin, NewTopic
from minikafka.deploy.certificates import AUTHORITY
from minikafka.deploy.cli import minikafka
from minikafka.runtime.config import from_mapping
from minikafka.runtime.errors import ConfigError
from minikafka.runtime.runtime import SystemRuntime
from minikafka.security.control_settings import ControlTlsConfig
from minikafka.security.control_tls import ControlTls

from ..support.cluster import CONTROLLER_ID, Cluster, NotReady

WITHIN_S = 60


def generate(output: Path, *arguments: str) -> Result:
    command = ["generate", "certificates", "--output", str(output), *arguments]
    return CliRunner().invoke(minikafka, command)


def settings(directory: Path, name: str) -> dict[str, str]:
    return {
        "control.ssl.keystore.location": str(directory / f"{name}.pem"),
        "control.ssl.truststore.location": str(directory / f"{AUTHORITY}.pem"),
    }


def test_each_node_gets_a_certificate_that_it_can_use(tmp_path: Path) -> None:
    nodes = ("--controllers", "7=10.0.0.1,7=localhost", "--brokers", "7")
    done = generate(tmp_path, *nodes, "--operators", "alice")
    assert done.exit_code == 0, done.output
    names = [Path(line).name for line in done.stdout.splitlines()]
    assert names == ["control-ca.pem", "controller-7.pem", "broker-7.pem", "alice.pem"]
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    secret = dict.fromkeys(("control-ca.key", *names[1:]), 0o600)
    assert modes == {**secret, "control-ca.pem": 0o644}
    runtime = SystemRuntime("test")
    for name in ("controller-7", "broker-7"):
        ControlTls(runtime, from_mapping(ControlTlsConfig, settings(tmp_path, name)), name)
    runtime.close()


def test_the_authority_of_the_directory_signs_again(tmp_path: Path) -> None:
    generate(tmp_path, "--brokers", "1")
    kept = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    generate(tmp_path, "--brokers", "1,2")
    now = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert now.keys() - kept.keys() == {"broker-2.pem"}
    assert [name for name, data in kept.items() if now[name] != data] == ["broker-1.pem"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--controllers", "1"], "must be ID=HOST"),
        (["--controllers", "one=localhost"], "must be ID=HOST"),
        (["--brokers", "1=localhost"], "must be the id of a broker"),
        (["--controllers", "1=h\u00f6st"], "is no host"),
        (["--operators", "a b"], "must be letters"),
        (["--operators", "broker-1"], "not the name of a node"),
        (["--days", "0"], "--days"),
    ],
)
def test_bad_input_is_refused_with_the_reason(
    tmp_path: Path, arguments: list[str], why: str
) -> None:
    result = generate(tmp_path, *arguments)
    assert result.exit_code != 0
    assert isinstance(result.exception, ConfigError | SystemExit), result.exception
    assert why in result.stderr + str(result.exception)


def test_files_that_are_no_authority_are_refused(tmp_path: Path) -> None:
    (tmp_path / f"{AUTHORITY}.key").write_text("nothing")
    result = generate(tmp_path, "--brokers", "1")
    assert "is no authority" in str(result.exception)


@pytest.mark.slow
def test_a_cluster_runs_on_its_certificates_and_renews_them(tmp_path: Path) -> None:
    made = tmp_path / "certificates"
    voters = [CONTROLLER_ID + n for n in range(3)]
    hosts = ",".join(f"{each}=127.0.0.1" for each in voters)
    nodes = ("--controllers", hosts, "--brokers", "1,2")
    generate(made, *nodes, "--operators", "alice")
    with Cluster(tmp_path / "cluster", controllers=3) as cluster:
        for daemon in cluster.daemons:
            del daemon.settings["control.psk.file"]
            daemon.settings |= {"control.security": "mtls", "super.users": "User:alice"}
            daemon.settings |= settings(made, f"{daemon.role}-{daemon.node_id}")
        broker = cluster.broker(1)
        broker.settings["control.ssl.keystore.location"] = str(made / "broker-2.pem")
        for controller in cluster.controllers:
            controller.launch()
        for controller in cluster.controllers:
            controller.wait_until_ready()
        with pytest.raises(NotReady):
            broker.start()
        assert broker.wait() == 2
        lines = [line for line in broker.log().splitlines() if "certificate" in line]
        (said,) = dict.fromkeys(lines)
        assert "its certificate is that of 'broker-2', not of 'broker-1'" in said

        broker.settings |= settings(made, "broker-1")
        broker.start()
        # New certificates are read for the connections of a broker that starts again.
        generate(made, *nodes)
        broker.restart()
        with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            admin.create_topics([NewTopic("t", num_partitions=1, replication_factor=1)])
        config = tmp_path / "tools.properties"
        pairs = settings(made, "alice").items()
        config.write_text("".join(f"{key}={value}\n" for key, value in pairs))
        command = [sys.executable, "-m", "minikafka", "metadata-quorum"]
        command += ["--bootstrap-controller", cluster.controllers[0].address]
        command += ["--command-config", str(config), "describe", "--status"]
        told = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=True)
        leader = re.search(r"LeaderId:\s+(\d+)", told.stdout)
        assert leader is not None
        assert int(leader[1]) in voters
