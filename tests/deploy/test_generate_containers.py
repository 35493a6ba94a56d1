"""The compose file and the Helm chart: daemons take what is in them, and Helm reads the chart."""

import shutil
import subprocess
import sys
from base64 import b64decode
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from click.testing import CliRunner, Result

from minikafka import Admin
from minikafka.broker.__main__ import prepare as prepare_broker
from minikafka.controller.__main__ import prepare as prepare_controller
from minikafka.deploy.cli import minikafka
from minikafka.runtime.config import parse_properties
from minikafka.runtime.version import VERSION
from minikafka.security.control_seal import keyring_of

from ..support.cluster import free_ports, wait_until

PREPARE = {"minikafka-broker": prepare_broker, "minikafka-controller": prepare_controller}
NEEDS_HELM = pytest.mark.skipif(
    shutil.which("helm") is None,
    reason="there is no helm here (go install helm.sh/helm/v3/cmd/helm@latest)",
)


def generate(*arguments: object) -> Result:
    return CliRunner().invoke(minikafka, ["generate", *map(str, arguments)])


def composed(output: Path, *arguments: object) -> dict[str, Any]:
    result = generate("compose", "--output", output, *arguments)
    assert (result.exit_code, result.output) == (0, "")
    document: dict[str, Any] = yaml.safe_load((output / "compose.yaml").read_text())
    return document


def properties_of(command: list[str]) -> dict[str, str]:
    return dict(word.removeprefix("--override=").split("=", 1) for word in command[1:])


@pytest.mark.parametrize(("brokers", "controllers", "copies"), [(3, 3, 3), (1, 1, 1), (5, 1, 3)])
def test_daemons_take_the_commands_of_the_compose_file(
    tmp_path: Path, brokers: int, controllers: int, copies: int
) -> None:
    sizes = ("--brokers", brokers, "--controllers", controllers, "--port", 19_092)
    services = composed(tmp_path, *sizes)["services"]
    key = services.pop("control-key")
    assert len(services) == brokers + controllers
    ports = []
    for name, service in services.items():
        program = service["command"][0]
        properties = properties_of(service["command"])
        plan = PREPARE[program](properties)
        assert (plan.name, list(plan.warnings)) == (name, [])
        assert name == service["hostname"] == service["volumes"][0].partition(":")[0]
        assert service["volumes"][1] == f"{key['volumes'][0]}:ro"
        assert service["depends_on"]["control-key"] == {
            "condition": "service_completed_successfully"
        }
        assert key["command"][-1] == f"--output={properties['control.psk.file']}"
        voters = properties["controller.quorum.voters"].split(",")
        assert all(each.partition("@")[2].partition(":")[0] in services for each in voters)
        assert properties["default.replication.factor"] == str(copies)
        ports += service.get("ports", ())
        if program == "minikafka-broker":
            outside = properties["advertised.listeners"].rpartition(":")[2]
            assert service["ports"] == [f"127.0.0.1:{outside}:{outside}"]
        assert service["read_only"] is True
    assert len({*ports}) == brokers


def test_the_recipe_installs_this_version_and_runs_it_without_rights(tmp_path: Path) -> None:
    composed(tmp_path)
    recipe = (tmp_path / "Dockerfile").read_text()
    assert f'PACKAGE="minikafka=={VERSION}"' in recipe
    assert recipe.index("USER 10001") < recipe.index("CMD")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["compose", "--brokers", "0"], "--brokers"),
        (["compose", "--controllers", "2"], "--controllers"),
        (["compose", "--image", "minikafka"], "must be NAME:TAG"),
        (["compose", "--image", "a b:1"], "must be NAME:TAG"),
        (["compose", "--port", "65535"], "need ports above 65535"),
        (["helm", "--storage", "20"], "must be a size as in 20Gi"),
        (["helm", "--output", "/dev/null"], "cannot be written"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, arguments: list[str], why: str) -> None:
    result = generate(arguments[0], "--output", tmp_path, *arguments[1:])
    assert result.exit_code != 0
    assert why in result.output + str(result.exception)


@pytest.mark.slow
@pytest.mark.processes
def test_the_commands_of_the_compose_file_run_a_cluster(tmp_path: Path) -> None:
    """Names of hosts and fixed ports are replaced: all of it runs on this machine."""
    services = composed(tmp_path, "--brokers", 1, "--controllers", 1)["services"]
    words = services.pop("control-key")["command"]
    key = words[-1].partition("=")[2]
    made = str(tmp_path / "control.key")
    assert generate(*words[2:-1], f"--output={made}").exit_code == 0
    control, inside, outside = free_ports(3)
    replaced = {
        "0.0.0.0:9093": f"0.0.0.0:{control}",
        "controller-3001:9093": f"127.0.0.1:{control}",
        "INSIDE://0.0.0.0:9092": f"INSIDE://0.0.0.0:{inside}",
        "broker-1:9092": f"127.0.0.1:{inside}",
        "OUTSIDE://0.0.0.0:9092": f"OUTSIDE://0.0.0.0:{outside}",
        "localhost:9092": f"localhost:{outside}",
        "127.0.0.1:9404": "127.0.0.1:0",
        key: made,
    }
    with ExitStack() as stack:
        for name, service in services.items():
            words = [word for word in service["command"] if "=log.dirs=" not in word]
            for old, new in replaced.items():
                words = [word.replace(old, new) for word in words]
            program = str(Path(sys.executable).parent / words[0])
            command = [program, *words[1:], f"--override=log.dirs={tmp_path / name}"]
            log = stack.enter_context((tmp_path / f"{name}.log").open("w"))
            process = subprocess.Popen(command, stderr=log)
            stack.callback(process.wait, 30)
            stack.callback(process.terminate)
        log_of_broker = tmp_path / "broker-1.log"
        wait_until(lambda: " ready {" in log_of_broker.read_text(), within_s=60)
        with Admin(f"localhost:{outside}") as admin:
            (found,) = admin.describe_cluster().brokers
            assert (found.host, found.port) == ("localhost", outside)


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("chart")
    result = generate("helm", "--output", output, "--brokers", 4, "--storage", "50Gi")
    assert (result.exit_code, result.output) == (0, "")
    return output


def test_the_chart_has_the_values_of_the_cluster(chart: Path) -> None:
    values = yaml.safe_load((chart / "values.yaml").read_text())
    assert values["image"] == {
        "repository": "minikafka",
        "tag": VERSION,
        "pullPolicy": "IfNotPresent",
    }
    assert values["brokers"]["replicas"] == 4
    assert values["brokers"]["storage"]["size"] == "50Gi"
    assert values["controllers"]["replicas"] == 3
    assert yaml.safe_load((chart / "Chart.yaml").read_text())["appVersion"] == VERSION
    assert {each.name for each in (chart / "templates").iterdir()} == {
        "NOTES.txt",
        "_helpers.tpl",
        "broker.yaml",
        "control-key.yaml",
        "controller.yaml",
    }


@NEEDS_HELM
def test_helm_finds_nothing_wrong(chart: Path) -> None:
    done = subprocess.run(
        ["helm", "lint", "--strict", "--kube-version", "1.31.0", str(chart)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@NEEDS_HELM
def test_daemons_take_what_helm_makes_of_the_chart(chart: Path) -> None:
    command = ["helm", "template", "logs", str(chart), "--namespace", "events"]
    settings = ["--kube-version", "1.31.0", "--set", r"brokers.settings.log\.retention\.hours=24"]
    made = subprocess.run([*command, *settings], capture_output=True, text=True, check=True)
    found = {
        (each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(made.stdout)
    }
    domain = "events.svc.cluster.local"
    for role, first_id in (("broker", 1), ("controller", 3001)):
        text = found["ConfigMap", f"logs-{role}"]["data"][f"{role}.properties"]
        pods = found["StatefulSet", f"logs-{role}"]["spec"]
        assert pods["serviceName"] in {name for kind, name in found if kind == "Service"}
        (container,) = pods["template"]["spec"]["containers"]
        shell, flag, line = container["command"]
        values = {"POD_NAME": f"logs-{role}-2", "NODE_NAME": "node-7"}
        assert {each["name"] for each in container["env"]} <= {*values}
        asked = line.replace("exec ", "printf '%s\n' ")
        printed = subprocess.run(
            [shell, flag, asked], env=values, capture_output=True, text=True, check=True
        )
        program, path, *overrides = printed.stdout.splitlines()
        assert (program, path) == (f"minikafka-{role}", f"/etc/minikafka/{role}.properties")
        named = dict(each.split("=", 1) for each in overrides if each != "--override")
        properties = {**parse_properties(text), **named}
        plan = PREPARE[program](properties)
        assert (plan.name, list(plan.warnings)) == (f"{role}-{first_id + 2}", [])
        assert properties["controller.quorum.voters"].split(",")[2] == (
            f"3003@logs-controller-2.logs-controller.{domain}:9093"
        )
        if role == "broker":
            assert properties["broker.rack"] == "node-7"
            assert properties["log.retention.hours"] == "24"
            advertised = f"PLAINTEXT://logs-broker-2.logs-broker.{domain}:9092"
            assert properties["advertised.listeners"] == advertised
        ports = {each["name"] for each in container["ports"]}
        (mounted,) = (each for each in container["volumeMounts"] if each["name"] == "control-key")
        assert properties["control.psk.file"] == f"{mounted['mountPath']}/control.key"
        volumes = pods["template"]["spec"]["volumes"]
        (volume,) = (each["secret"] for each in volumes if each["name"] == "control-key")
        assert volume["defaultMode"] == 0o440
        key = found["Secret", volume["secretName"]]["data"]["control.key"]
        assert len(keyring_of(b64decode(key).decode())) == 1
        probes = [container[f"{kind}Probe"] for kind in ("startup", "liveness", "readiness")]
        assert {each["httpGet"]["port"] for each in probes} <= ports
