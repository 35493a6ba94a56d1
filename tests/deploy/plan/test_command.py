"""`minikafka plan` against a real cluster: what it prints, its file, its exit codes."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from minikafka import Admin, NewTopic, Producer
from minikafka.deploy.cli import minikafka
from minikafka.deploy.local_cluster import LocalCluster
from minikafka.runtime.errors import ConfigError

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with LocalCluster(tmp_path_factory.mktemp("plan"), brokers=3) as cluster:
        with Admin(cluster.bootstrap) as admin:
            admin.create_topics([NewTopic("t", 4, 2)])
        with Producer(cluster.bootstrap) as producer:
            for number in range(400):
                producer.send("t", b"x" * 1000, partition=number % 4)
        yield cluster.bootstrap


def plan(bootstrap: str, command: str, *words: object) -> Result:
    arguments = ["plan", command, "--bootstrap-server", bootstrap, *map(str, words)]
    return CliRunner().invoke(minikafka, arguments)


def test_a_broker_is_drained_and_filled_again(bootstrap: str, tmp_path: Path) -> None:
    file = tmp_path / "drain.json"
    seen = plan(bootstrap, "drain", "--brokers", 3, "--throttle", 10_000_000, "--output", file)
    assert seen.exit_code == 0, seen.output
    lines = [" ".join(line.split()) for line in seen.stdout.splitlines()]
    assert lines[0] == "Plan: drain brokers 3"
    assert any(line.startswith("3 - ") and line.endswith(" 0 0 0 B") for line in lines)
    assert "are copied, at most" in lines[-1]
    assert "At 9.5 MiB a second that takes at least " in lines[-1]
    assert f"Written to {file}" in seen.stderr
    assert {1, 2} >= {
        id for one in json.loads(file.read_text())["partitions"] for id in one["replicas"]
    }

    waiting = plan(bootstrap, "status", file)
    assert (waiting.exit_code, ", 0 moving," in waiting.stdout) == (1, True)
    done = plan(bootstrap, "apply", file, "--throttle", 10_000_000)
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (0, "done"), done.output
    assert plan(bootstrap, "status", file).exit_code == 0
    nothing = plan(bootstrap, "drain", "--brokers", 3)
    assert (nothing.exit_code, nothing.stderr) == (0, "Nothing has to change.\n")
    with Admin(bootstrap) as admin:
        described = admin.describe_topics(["t"])["t"]
        assert all(3 not in one.replicas for one in described.partitions)

    back = plan(bootstrap, "undo", file, "--no-wait")
    assert back.exit_code == 0, back.output
    assert "undo drain brokers 3: " in back.stderr
    again = plan(bootstrap, "undo", file)
    assert (again.exit_code, again.stderr.splitlines()[-1]) == (0, "done")
    assert plan(bootstrap, "status", file).exit_code == 1


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["drain", "--brokers", "9"], "the cluster has no broker 9"),
        (["drain", "--brokers", "1,2,3"], "no broker is left that may hold replicas"),
        (["drain", "--brokers", "2,3"], "no broker is left for another replica"),
        (["balance", "--topics", "none"], "the cluster has no topic none"),
        (["replication-factor", "--factor", "4"], "no broker is left for another replica"),
    ],
)
def test_what_cannot_be_is_one_line_and_exit_code_1(
    bootstrap: str, words: list[str], why: str
) -> None:
    result = plan(bootstrap, words[0], *words[1:])
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    assert why in result.stderr


def test_a_file_that_is_no_plan_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "kafkas.json"
    entry = {"topic": "t", "partition": 0, "replicas": [1]}
    file.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    result = plan("localhost:1", "apply", file)
    assert isinstance(result.exception, ConfigError)
    assert 'needs a text "cluster_id": it is no plan of ours' in str(result.exception)
    assert plan("localhost:1", "drain", "--brokers", "x").exit_code == 2
