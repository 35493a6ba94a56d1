"""`minikafka doctor` against a real cluster: what it prints, its JSON, its exit codes."""

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from minikafka import Admin, NewTopic
from minikafka.deploy.cli import minikafka
from minikafka.deploy.local_cluster import LocalCluster


def doctor(*words: object) -> Result:
    return CliRunner().invoke(minikafka, ["doctor", *map(str, words)])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("doctor"), brokers=3, controllers=3) as cluster:
        with Admin(cluster.bootstrap) as admin:
            admin.create_topics([NewTopic("orders", 4, 3)])
        yield cluster


@pytest.mark.slow
def test_a_healthy_cluster_and_one_with_a_fault(cluster: LocalCluster) -> None:
    controllers = ",".join(f"{one.host}:{one.port}" for one in cluster.layout.controllers)
    known = cluster.layout.controllers[0].directory / "doctor.properties"
    known.write_text(f"control.psk.file={cluster.layout.controllers[0].key_path}\n")
    to = ("--bootstrap-server", cluster.bootstrap, "--controllers", controllers)
    arguments = (*to, "--command-config", known)
    healthy = doctor(*arguments)
    assert healthy.exit_code == 0, healthy.output
    assert "Cluster " in healthy.stdout.splitlines()[0]
    assert "NOTE clock-unknown" in healthy.stdout
    assert healthy.stdout.endswith("Nothing is wrong.\n")

    with Admin(cluster.bootstrap) as admin:
        admin.create_topics([NewTopic("lonely", 30, 1)])
    found = doctor(*arguments, "--json", "--limit", 2)
    assert found.exit_code == 1, found.output
    told = json.loads(found.stdout)
    assert (told["brokers"], told["partitions"]) == (3, 34)
    kinds = {one["kind"]: one for one in told["kinds"]}
    assert list(kinds) == ["one-replica", "unsafe-restart", "clock-unknown"]
    assert kinds["unsafe-restart"]["count"] == 3
    assert len(kinds["unsafe-restart"]["findings"]) == 2
    (lonely,) = kinds["one-replica"]["findings"]
    assert lonely["where"] == "topic lonely"
    assert lonely["command"].startswith("minikafka plan replication-factor --bootstrap-server ")


@pytest.mark.slow
def test_a_controller_given_as_a_broker(cluster: LocalCluster) -> None:
    controller = cluster.layout.controllers[0]
    found = doctor("--bootstrap-server", f"{controller.host}:{controller.port}")
    assert found.exit_code == 1
    assert "ERROR not-a-broker" in found.stdout
    assert "the controllers' belong to --controllers" in found.stdout


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "TLS"),
        (b"", "closed without an answer"),
    ],
)
def test_a_server_of_another_kind(answer: bytes, said: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=_answer_once, args=(server, answer))
        thread.start()
        found = doctor("--bootstrap-server", f"127.0.0.1:{server.getsockname()[1]}")
        thread.join()
    assert found.exit_code == 1
    assert said in found.stdout
    assert "bootstrap 127.0.0.1:" in found.stdout


def _answer_once(server: socket.socket, answer: bytes) -> None:
    connection, _ = server.accept()
    with connection:
        connection.recv(1000)
        connection.sendall(answer)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--bootstrap-server", "localhost:1", "--limit", "0"],
        ["--bootstrap-server", "localhost:1", "--timeout", "x"],
        ["--bootstrap-server", "localhost:1", "--no-such-flag"],
    ],
)
def test_wrong_arguments(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MINIKAFKA_BOOTSTRAP_SERVERS", raising=False)
    assert doctor(*words).exit_code == 2


def test_an_address_that_is_none() -> None:
    result = doctor("--bootstrap-server", "localhost:1", "--controllers", "here")
    assert "must be host:port" in str(result.exception)
