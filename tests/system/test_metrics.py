"""Daemons that serve metrics: what a scraper and a load balancer get of real processes."""

import http.client
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as prometheus

from ..support.cluster import Cluster, Daemon, NotReady, free_ports, running_cluster, wait_until
from ..support.http import PROMETHEUS_ACCEPT

pytestmark = [pytest.mark.slow, pytest.mark.processes]
ANY_PORT = {"metrics.listener": "127.0.0.1:0"}


def get(port: int, path: str, accept: str = "*/*") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", path, headers={"Accept": accept})
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def port_of(daemon: Daemon) -> int:
    host, port = daemon.ready["metrics"]
    assert host == "127.0.0.1"
    return int(port)


def test_both_daemons_are_scraped_in_both_formats(tmp_path: Path) -> None:
    with running_cluster(
        tmp_path, broker_settings=ANY_PORT, controller_settings=ANY_PORT
    ) as cluster:
        for daemon, own in (
            (cluster.broker(1), "kafka_server_replicamanager_leadercount"),
            (cluster.controller, "minikafka_build_info"),
        ):
            port = port_of(daemon)
            assert get(port, "/health/ready") == (200, "ready\n")
            _, text = get(port, "/metrics", PROMETHEUS_ACCEPT)
            assert text.endswith("# EOF\n")
            names = [family.name for family in open_metrics(text)]  # type: ignore[no-untyped-call]
            assert own in names
            assert sorted(set(names)) == sorted(names), "no family is given twice"
            _, text = get(port, "/metrics")
            assert len(list(prometheus(text))) >= len(names)
        refuse_a_port_that_is_taken(cluster)


def refuse_a_port_that_is_taken(cluster: Cluster) -> None:
    broker, taken = cluster.broker(1), f"127.0.0.1:{port_of(cluster.controller)}"
    broker.kill()
    before = len(broker.log())
    with pytest.raises(NotReady):
        broker.start(metrics_listener=taken)
    assert broker.wait() == 2
    (line,) = broker.log()[before:].strip().splitlines()
    assert f"metrics.listener={taken}: cannot listen" in line
    assert "in use" in line


def test_a_broker_that_finds_no_controller_is_alive_and_not_ready(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with Cluster(tmp_path, broker_settings={"metrics.listener": f"127.0.0.1:{port}"}) as cluster:
        broker = cluster.broker(1).launch()

        def alive() -> bool:
            try:
                return get(port, "/health/live") == (200, "alive\n")
            except ConnectionRefusedError:
                return False

        wait_until(alive)
        status, why = get(port, "/health/ready")
        assert status == 503
        assert "registers" in why
        cluster.controller.start()
        broker.wait_until_ready()
        assert get(port, "/health/ready") == (200, "ready\n")
