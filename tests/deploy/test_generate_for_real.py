"""Prometheus scrapes a cluster: panels have data, deaths are told; the commands of the runbook."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from minikafka import Admin, ConfigChange, ConfigResource, Consumer, NewTopic, Producer
from minikafka.deploy.cli import minikafka
from minikafka.deploy.local_cluster import LocalCluster

from ..support.cluster import free_ports, wait_until
from .test_generate import ROOT, queries

NO_PROMETHEUS = pytest.mark.skipif(
    shutil.which("prometheus") is None,
    reason="there is no prometheus here (Debian: apt-get install prometheus)",
)
pytestmark = [pytest.mark.slow, pytest.mark.processes]
WITHIN_S = 120.0
EMPTY_PANELS = ("Behind the metadata", "Errors in answers")
"""The only controller has no other voters, and nothing went wrong yet."""
TEXT = (ROOT / "docs" / "monitoring.md").read_text()
PAGE = TEXT.partition("\n## Prometheus and Grafana\n")[2].partition("\n## ")[0]
RUNBOOK = TEXT.partition("\n## Replicas and lag, by hand\n")[2]
EXAMPLE = "http://127.0.0.1:9404/"
"""Where the page has a daemon tell its health."""


def blocks(text: str) -> list[str]:
    """The lines of its blocks of commands."""
    found = "".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL))
    return found.replace("\\\n", "").splitlines()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three brokers with a topic, and a group that has read it."""
    directory = tmp_path_factory.mktemp("cluster")
    with LocalCluster(directory, brokers=3, controllers=1, metrics=True) as started:
        servers = started.bootstrap
        with Admin(servers) as admin:
            audited = ConfigChange("minikafka.audit.enable", "true")
            admin.incremental_alter_configs({ConfigResource.broker(None): [audited]})
            admin.create_topics([NewTopic("orders", 3, 3)])
            later = {"minikafka.delay.target": "orders"}
            admin.create_topics([NewTopic("orders-later", 3, 3, configs=later)])
        with (
            Producer(servers) as producer,
            Consumer(servers, group_id="billing", auto_offset_reset="earliest") as consumer,
        ):
            producer.send("orders", b"one").result()
            consumer.subscribe(["orders"])
            while not consumer.poll(timeout_ms=1000):
                pass
            consumer.commit()
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

    def wait_for(self, *fire: str, quiet: Collection[str] = ()) -> None:
        """Wait until the first fire, and the others do not."""

        def done() -> bool:
            firing = self.firing().keys()
            return firing >= set(fire) and firing.isdisjoint(quiet)

        wait_until(done, within_s=WITHIN_S, every_s=0.5)


@pytest.fixture(scope="module")
def prometheus(
    cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prometheus]:
    """As the page says, but seconds take the place of minutes."""
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
    for file, usual, short in (
        ("alerts.yml", r"(?<= for: )(?:30s|1m|5m|15m)$", "1s"),
        ("alerts.yml", r"(?<=\[)5m(?=\])", "10s"),
        ("alerts.yml", r"(?<=\[)10m(?=\])", "20s"),
        ("alerts.yml", r"(?<=> )300\b", "5"),
        ("prometheus.yml", r"15s$", "1s"),
    ):
        text, count = re.subn(f"(?m){usual}", short, (directory / file).read_text())
        assert count > 0, usual
        (directory / file).write_text(text)
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
        wait_until(started.answers, within_s=WITHIN_S)
        yield started
    finally:
        process.terminate()
        process.wait(60)


@pytest.mark.peers
@NO_PROMETHEUS
def test_every_daemon_is_scraped_with_its_kind_and_node_id(prometheus: Prometheus) -> None:
    wait_until(lambda: len(prometheus.query("up == 1")) == 4, within_s=WITHIN_S)
    told = [each["metric"] for each in prometheus.query("up")]
    assert sorted((each["node_kind"], each["node_id"]) for each in told) == [
        ("broker", "1"),
        ("broker", "2"),
        ("broker", "3"),
        ("controller", "3001"),
    ]


@pytest.mark.peers
@NO_PROMETHEUS
def test_every_panel_of_the_dashboard_has_data(
    cluster: LocalCluster, prometheus: Prometheus
) -> None:
    missing = [query for query in queries() if query[0] not in EMPTY_PANELS]
    with (
        Producer(cluster.bootstrap) as producer,
        Consumer(cluster.bootstrap, group_id="billing") as consumer,
    ):
        consumer.subscribe(["orders"])
        deadline = time.monotonic() + WITHIN_S
        while missing and time.monotonic() < deadline:
            # Requests are timed now and then, and those that wait only where they had to.
            producer.send("orders", b"more").result()
            consumer.poll(timeout_ms=500)
            missing = [(title, expr) for title, expr in missing if not prometheus.query(expr)]
        consumer.commit()
    assert missing == []


def follow(cluster: LocalCluster, command: str) -> str:
    """Do as the page says, and return what is printed; a command that fails is an error."""
    name, *arguments = command.split()
    if name == "curl":
        (url,) = arguments
        assert url.startswith(EXAMPLE), command
        where = f"http://{cluster.layout.nodes[-1].metrics}/"
        with urllib.request.urlopen(url.replace(EXAMPLE, where), timeout=20) as response:
            return str(response.read(), "utf-8")
    assert name == "minikafka", command
    environment = {"MINIKAFKA_BOOTSTRAP_SERVERS": cluster.bootstrap}
    result = CliRunner().invoke(minikafka, arguments, env=environment)
    assert result.exit_code == 0, f"{command}: {result.output} {result.exception}"
    assert not re.search(r"(?m)^Error", result.output), f"{command}: {result.output}"
    return result.output


def look_up(cluster: LocalCluster, alert: str) -> str:
    """Follow every command of an alert's paragraph, and return what they print."""
    paragraph = RUNBOOK.partition(f"\n### {alert}\n")[2].partition("\n### ")[0]
    return "".join(follow(cluster, command) for command in blocks(paragraph))


def run(cluster: LocalCluster, command: str) -> bool:
    """Run a command of minikafka against the cluster; True if it succeeded."""
    name, *arguments = command.split()
    told = CliRunner().invoke(
        minikafka, [name, "--bootstrap-server", cluster.bootstrap, *arguments]
    )
    return told.exit_code == 0


@pytest.mark.peers
@NO_PROMETHEUS
def test_a_group_that_lags_is_told_until_it_has_caught_up(
    cluster: LocalCluster, prometheus: Prometheus
) -> None:
    skip = "consumer-groups --reset-offsets --to-latest --topic orders --group billing --execute"
    assert run(cluster, skip)
    prometheus.wait_for(quiet=["ConsumerGroupLag"])
    with Producer(cluster.bootstrap) as producer:
        producer.send("orders", b"two").result()
    prometheus.wait_for("ConsumerGroupLag")
    assert run(cluster, skip)
    prometheus.wait_for(quiet=["ConsumerGroupLag"])


@pytest.mark.peers
@NO_PROMETHEUS
def test_a_topic_that_falls_silent_is_told_until_it_is_written_to(
    cluster: LocalCluster, prometheus: Prometheus
) -> None:
    prometheus.wait_for("NoMessagesForTooLong")
    with Producer(cluster.bootstrap) as producer:
        producer.send("orders", b"three").result()
    prometheus.wait_for(quiet=["NoMessagesForTooLong"])


@pytest.mark.peers
@NO_PROMETHEUS
def test_deaths_of_brokers_are_told_and_their_return_too(
    cluster: LocalCluster, prometheus: Prometheus
) -> None:
    replicas = "--replica-assignment 3:2 --config min.insync.replicas=1"
    assert run(cluster, f"topics --create --topic pair {replicas}")
    dead = ["UnderReplicatedPartitions", "FencedBrokers", "ScrapeProblem"]
    prometheus.wait_for(quiet=dead)
    cluster.kill(2)
    prometheus.wait_for(*dead)
    told = prometheus.firing()
    assert told["ScrapeProblem"]["labels"]["node_id"] == "2"
    summary = "1 brokers of minikafka are registered and not in service"
    assert told["FencedBrokers"]["annotations"]["summary"] == summary
    assert "Topic: pair" in look_up(cluster, "UnderReplicatedPartitions")
    cluster.kill(3)
    prometheus.wait_for("OfflinePartitions", "UnderMinIsrPartitionCount")
    assert "Topic: pair" in look_up(cluster, "OfflinePartitions")
    assert "Topic: orders" in look_up(cluster, "UnderMinIsrPartitionCount")
    cluster.restart(2)
    unclean = "leader-election --election-type unclean --topic pair --partition 0"
    wait_until(lambda: run(cluster, unclean), within_s=WITHIN_S)
    prometheus.wait_for("UncleanElection", quiet=["OfflinePartitions"])
    cluster.restart(3)
    prometheus.wait_for(quiet=[*dead, "UnderMinIsrPartitionCount", "UncleanElection"])


@pytest.mark.peers
@NO_PROMETHEUS
def test_the_death_of_the_controller_is_told_and_its_return_too(
    cluster: LocalCluster, prometheus: Prometheus
) -> None:
    prometheus.wait_for(quiet=["AbnormalControllerState"])
    cluster.kill("controller-3001")
    prometheus.wait_for("AbnormalControllerState")
    cluster.restart("controller-3001")
    prometheus.wait_for(quiet=["AbnormalControllerState", "ScrapeProblem"])
    cluster.wait_until_ready(WITHIN_S)


def test_each_command_of_the_runbook_works(cluster: LocalCluster) -> None:
    commands = [*blocks(RUNBOOK), *re.findall(r"`(minikafka [^`]+)`", RUNBOOK)]
    assert len(commands) > 25
    behind = "minikafka topics --describe --under-replicated-partitions"
    for command in commands:
        follow(cluster, command)
        if command.startswith("minikafka cluster unregister"):
            # The broker runs: it registers again, and catches up.
            wait_until(lambda: not follow(cluster, behind), within_s=WITHIN_S)
