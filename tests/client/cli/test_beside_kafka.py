"""Our tools beside Kafka's own in Java: the same flags, and the same text from the same cluster."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from minikafka.deploy.cli import minikafka
from minikafka.deploy.local_cluster import LocalCluster

from ...support.cluster import Cluster, free_ports
from . import kafka_tools
from .kafka_tools import Said

pytestmark = [
    pytest.mark.slow,
    pytest.mark.peers,
    pytest.mark.processes,
    pytest.mark.skipif(kafka_tools.missing() is not None, reason=str(kafka_tools.missing())),
]
CODE = "from minikafka.deploy.cli import main; main()"

ERIN, PREFIXED = ("--allow-principal", "User:erin"), ("--resource-pattern-type", "prefixed")
WITH_ACLS = {"authorizer.class.name": "StandardAuthorizer", "super.users": "User:ANONYMOUS"}
LACKING = {
    "acls": {"--bootstrap-controller"},
    "configs": {"--bootstrap-controller", "--group"},
    "dump-log": {
        *("--offsets-decoder", "--transaction-log-decoder"),
        *("--remote-log-metadata-decoder", "--share-group-state-decoder"),
    },
    "features": {"--node-id", "--release-version"},
    "reassign-partitions": {"--bootstrap-controller"},
    "verifiable-consumer": {"--group-remote-assignor"},
}
"""The flags of Kafka's tools that ours do not have."""


def our_flags(command: click.Command) -> set[str]:
    found = {flag for parameter in command.params for flag in parameter.opts}
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            subcommand = command.get_command(context, name)
            assert subcommand is not None
            found |= our_flags(subcommand)
    return found


@pytest.mark.parametrize("tool", kafka_tools.CLASSES)
def test_a_tool_has_the_flags_of_kafkas(tool: str) -> None:
    command = minikafka.get_command(click.Context(minikafka), tool)
    assert command is not None
    theirs = kafka_tools.flags(tool)
    assert len(theirs) > 1, "its help was read"
    assert theirs - our_flags(command) == LACKING.get(tool, set())


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """A cluster with ACLs, records, a group that has read them, and a transaction's producer."""
    with LocalCluster(brokers=2, broker_config=WITH_ACLS) as made:
        both = ("--topic", "both")
        ours(made, "topics", "--create", *both, "--partitions", 2)
        ours(made, "verifiable-producer", *both, "--max-messages", 5, "--repeating-keys", 5)
        ours(made, "verifiable-consumer", *both, "--group-id", "readers", "--max-messages", 5)
        ours(made, "acls", "--add", *ERIN, "--consumer", *both, "--group", "readers")
        ours(made, "acls", "--add", *ERIN, "--producer", *both, "--transactional-id", "x")
        ours(made, "acls", "--add", "--deny-principal", "User:eve", *both, *PREFIXED)
        yield made


def ours(cluster: LocalCluster, tool: str, *arguments: object) -> Said:
    return run_ours(tool, "--bootstrap-server", cluster.bootstrap, *arguments)


def run_ours(tool: str, *arguments: object) -> Said:
    command = [sys.executable, "-c", CODE, tool, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90)
    return Said(done.returncode, done.stdout, done.stderr)


def theirs(cluster: LocalCluster, tool: str, *arguments: object) -> Said:
    to = ("--bootstrap-server", cluster.bootstrap)
    if tool in ("features", "metadata-quorum", "transactions"):
        return kafka_tools.run(tool, *to, *arguments)
    return kafka_tools.run(tool, *arguments, *to)


def as_json(out: str) -> object:
    """The last line as a value: the order of keys in Kafka's JSON is that of a hash table."""
    return json.loads(out.splitlines()[-1])


def without_own_names(out: str) -> list[str]:
    """Kafka's tool knows no names of our own APIs, and does not sort brokers."""
    lines = [line.rstrip(",") for line in out.splitlines()]
    return sorted(line for line in lines if "(300" not in line)


def ordered(out: str) -> list[str]:
    return sorted(out.splitlines())


MATCHING = ("--topic", "both-sides", "--resource-pattern-type", "match")
RESET = ("--reset-offsets", "--group", "readers", "--topic", "both")
SAME: list[tuple[tuple[str, ...], Callable[[str], object]]] = [
    (("cluster", "cluster-id"), str),
    (("cluster", "list-endpoints"), str),
    (("broker-api-versions",), without_own_names),
    (("topics", "--list"), str),
    (("topics", "--describe", "--topic", "both"), str),
    (("configs", "--describe", "--topic", "both"), str),
    (("get-offsets", "--topic", "both"), str),
    (("get-offsets", "--topic-partitions", "bo.*:1", "--time", "earliest"), str),
    (("log-dirs", "--describe", "--topic-list", "both"), as_json),
    (("consumer-groups", "--list"), str),
    (("consumer-groups", "--list", "--state"), str),
    (("consumer-groups", "--describe", "--group", "readers"), str),
    (("consumer-groups", "--describe", "--group", "readers", "--state"), str),
    (("consumer-groups", "--describe", "--group", "readers", "--members", "--verbose"), str),
    (("consumer-groups", *RESET, "--to-earliest", "--dry-run"), str),
    (("groups", "--list"), str),
    (("transactions", "list"), str),
    (("transactions", "describe-producers", "--topic", "both", "--partition", "0"), str),
    (("reassign-partitions", "--list"), str),
    (("leader-election", "--election-type=preferred", "--topic=both", "--partition=0"), str),
    (("metadata-quorum", "describe", "--status"), str),
    (("features", "describe"), str),
    (("client-metrics", "--describe"), str),
    (("acls", "--list"), ordered),
    (("acls", "--list", "--topic", "both", "--principal", "User:erin"), ordered),
    (("acls", "--list", *MATCHING), ordered),
    (("acls", "--add", *ERIN, "--consumer", "--topic", "both", "--group", "readers"), ordered),
    (("acls", "--remove", "--force", "--topic", "nowhere"), str),
    (("console-consumer", "--topic=both", "--from-beginning", "--max-messages=5"), ordered),
    (
        ("streams-application-reset", "--application-id=app", "--input-topics=both", "--dry-run"),
        ordered,
    ),
]


@pytest.mark.parametrize(("command", "seen"), SAME, ids=[" ".join(one) for one, _ in SAME])
def test_both_print_the_same(
    cluster: LocalCluster, command: tuple[str, ...], seen: Callable[[str], object]
) -> None:
    tool, *arguments = command
    mine, his = ours(cluster, tool, *arguments), theirs(cluster, tool, *arguments)
    assert his.code == 0, his.err
    assert seen(mine.out) == seen(his.out)
    assert mine.code == his.code


def test_records_are_deleted_and_said_so_as_by_kafkas_tool(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    file = tmp_path / "offsets.json"
    ours(cluster, "topics", "--create", "--topic", "cut", "--partitions", 1)
    ours(cluster, "verifiable-producer", "--topic", "cut", "--max-messages", 5)
    row = {"topic": "cut", "partition": 0, "offset": 3}
    file.write_text(json.dumps({"partitions": [row], "version": 1}))
    said = [run(cluster, "delete-records", "--offset-json-file", file) for run in (ours, theirs)]
    assert said[0].out == said[1].out
    assert "partition: cut-0\tlow_watermark: 3\n" in said[0].out


@pytest.fixture(scope="module")
def as_alice(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[object, ...]]:
    """The options with which tools of both kinds log in as alice, where tokens are given."""
    directory: Path = tmp_path_factory.mktemp("tokens")
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    key = {"delegation.token.secret.key": "a long and random text"}
    with Cluster(directory, broker_settings=key, controller_settings=key) as one:
        (port,), broker = free_ports(1), one.broker(1)
        broker.settings |= {
            "listeners": f"PLAINTEXT://{broker.address},LOGIN://127.0.0.1:{port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.login.plain.sasl.jaas.config": f'{module} user_alice="secret";',
        }
        one.start()
        alice = directory / "alice.properties"
        alice.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
            f'sasl.jaas.config={module} username="alice" password="secret";\n'
        )
        yield "--bootstrap-server", f"127.0.0.1:{port}", "--command-config", alice


def test_tokens_of_either_tool_are_printed_the_same(as_alice: tuple[object, ...]) -> None:
    create = ("--create", "--max-life-time-period", -1, "--renewer-principal")
    tool = "delegation-tokens"
    his = kafka_tools.run(tool, *as_alice, *create, "User:bob")
    mine = run_ours(tool, *as_alice, *create, "User:bob")
    assert (mine.code, his.code) == (0, 0), his.err
    assert lines_but_tokens(mine.out) == lines_but_tokens(his.out)
    # Without an owner Kafka's tool asks for the tokens of nobody, and is told of none.
    describe = ("--describe", "--owner-principal", "User:alice")
    his, mine = kafka_tools.run(tool, *as_alice, *describe), run_ours(tool, *as_alice, *describe)
    assert mine.out == his.out
    assert mine.out.count("[User:bob]") == 2
    assert run_ours(tool, *as_alice, "--describe").out.count("[User:bob]") == 2
    hmac = re.findall(r"\S{86}==", mine.out)[0]
    renew = ("--renew", "--renew-time-period", 60_000, "--hmac", hmac)
    his, mine = kafka_tools.run(tool, *as_alice, *renew), run_ours(tool, *as_alice, *renew)
    assert lines_but_tokens(f"{his.out}\n") == lines_but_tokens(mine.out)


def lines_but_tokens(out: str) -> str:
    """Leave out the ids and the secrets of tokens, and the times, which may be a minute later."""
    return re.sub(r"[\w-]{22} +\S{88}|tokenId : \S{22}|\d{4}-\d\d-\d\dT\d\d:\d\d", "*", out)
