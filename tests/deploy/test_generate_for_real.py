"""Prometheus scrapes a cluster: panels have data, a death is told; the commands of the runbook."""

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from minikafka import Admin, Consumer, NewTopic, Producer
from minikafka.deploy.cli import minikafka
from minikafka.deploy.local_cluster import LocalCluster

from ..support.cluster import free_ports, wait_until
from .test_generate import ROOT, queries

needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None,
    reason="there is no prometheus here (Debian: apt-get install prometheus)",
)
pytestmark = [pytest.mark.slow, pytest.mark.processes]
EMPTY_PANELS = ("Behind the metadata",)
"""Of its two queries one is about other voters, and the only controller has none."""
TEXT = (ROOT / "docs" / "monitoring.md").read_text()
PAGE = TEXT.partition("\n## Prometheus and Grafana\n")[2].partition("\n## ")[0]
RUNBOOK = TEXT.partition("\n## Alert by alert\n")[2]


def blocks(text: str) -> list[str]:
    """The lines of its blocks of commands."""
    found = "".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL))
    return found.replace("\\\n", "").splitlines()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three brokers with a topic, and a group that has read some of it."""
    directory = tmp_path_factory.mktemp("cluster")
    with LocalCluster(directory, brokers=3, controllers=1, metrics=True) as started:
        servers = started.bootstrap
        with Admin(servers) as admin:
            admin.create_topics([NewTopic("orders", 3, 3)])
        with (
            Producer(servers) as producer,
            Consumer(servers, group_id="billing", auto_offset_reset="earliest") as consumer,
        ):
            producer.send("orders", b"one").result()
            consumer.subscribe(["orders"])
            while not consumer.poll(timeout_ms=1000):
                pass
            consumer.commit()
            producer.send("orders", b"two").result()
        yield started


class Prometheus:
    """A Prometheus that watches the cluster, and what it says."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    def get(self, path: str, **parameters: str) -> Any:
        url = f"{self._url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=20) as response:
            return json.load(response)["data"]

    def query(self, expr: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get("query", query=expr)["result"]
        return found

    def answers(self) -> bool:
        try:
            return len(self.get("targets")["activeTargets"]) > 0
        except OSError:
            return False

    def firing(self) -> dict[str, dict[str, Any]]:
        """The alerts that fire, by name."""
        return {
            alert["labels"]["alertname"]: alert
            for alert in self.get("alerts")["alerts"]
            if alert["state"] == "firing"
        }


@pytest.fixture(scope="module")
def prometheus(
    cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prometheus]:
    """As the page says, but alerts fire after a second, and scrapes are a second apart."""
    directory = tmp_path_factory.mktemp("prometheus")
    (directory / "demo").symlink_to(str(cluster.directory))
    commands = blocks(PAGE)
    (running,) = (command for command in commands if command.startswith("prometheus "))
    commands.remove(running)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for command in commands:
        subprocess.run(
            command, shell=True, check=True, cwd=directory, env={**os.environ, "PATH": path}
        )
    hasten(directory / "alerts.yml", r"(?<= for: )(?:0s|30s|1m|5m)$")
    hasten(directory / "prometheus.yml", r"15s$")
    (port,) = free_ports(1)
    started = Prometheus(port)
    daemon = [*running.split(), f"--web.listen-address=127.0.0.1:{port}"]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [*daemon, f"--storage.tsdb.path={directory / 'data'}"],
            cwd=directory,
            stdout=log,
            stderr=log,
        )
    try:
        wait_until(started.answers, within_s=60)
        yield started
    finally:
        process.terminate()
        process.wait(60)


def hasten(file: Path, durations: str) -> None:
    """Put a second in the place of each of the durations."""
    text, count = re.subn(f"(?m){durations}", "1s", file.read_text())
    assert count > 1
    file.write_text(text)


@needs_prometheus
def test_every_daemon_is_scraped_with_its_kind_and_node_id(prometheus: Prometheus) -> None:
    wait_until(lambda: len(prometheus.query("up == 1")) == 4, within_s=60)
    told = [each["metric"] for each in prometheus.query("up")]
    assert sorted((each["node_kind"], each["node_id"]) for each in told) == [
        ("broker", "1"),
        ("broker", "2"),
        ("broker", "3"),
        ("controller", "3001"),
    ]


@needs_prometheus
def test_every_panel_of_the_dashboard_has_data(prometheus: Prometheus) -> None:
    def without_data() -> list[tuple[str, str]]:
        asked = [query for query in queries() if query[0] not in EMPTY_PANELS]
        return [(title, expr) for title, expr in asked if not prometheus.query(expr)]

    wait_until(lambda: not without_data(), within_s=120, every_s=1)


@needs_prometheus
def test_the_death_of_a_broker_is_told_and_its_return_too(
    cluster: LocalCluster, prometheus: Prometheus
) -> None:
    wait_until(lambda: not prometheus.firing(), within_s=60, every_s=0.5)
    told = {"UnderReplicatedPartitions", "FencedBrokers", "ScrapeProblem"}
    cluster.kill(3)
    wait_until(lambda: told <= prometheus.firing().keys(), within_s=60, every_s=0.5)
    firing = prometheus.firing()
    summary = firing["FencedBrokers"]["annotations"]["summary"]
    assert summary == "1 brokers of minikafka are registered and not in service"
    assert firing["ScrapeProblem"]["labels"]["node_id"] == "3"
    cluster.restart(3)
    wait_until(lambda: not prometheus.firing(), within_s=60, every_s=0.5)


def test_each_command_of_the_runbook_works(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINIKAFKA_BOOTSTRAP_SERVERS", cluster.bootstrap)
    commands = [*blocks(RUNBOOK), *re.findall(r"`(minikafka [^`]+)`", RUNBOOK)]
    assert len(commands) > 15
    for command in commands:
        name, *arguments = command.split()
        assert name == "minikafka", command
        result = CliRunner().invoke(minikafka, arguments)
        assert result.exit_code == 0, f"{command}: {result.output} {result.exception}"
        assert not re.search(r"(?m)^Error", result.output), f"{command}: {result.output}"
