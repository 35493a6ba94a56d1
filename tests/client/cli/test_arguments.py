"""Arguments that cannot be: one line on standard error, exit code 2, nothing contacted."""

from pathlib import Path

import pytest

from minikafka.deploy.cli import COMMANDS

from .conftest import Run

TO = ("--bootstrap-server", "localhost:1")
CONSUMER = ("console-consumer", *TO)
PRODUCER = ("console-producer", *TO)
TOPICS = ("topics", *TO)
PRODUCER_PERF = ("producer-perf-test", *TO, "--topic", "t", "--num-records", "10")
WITHOUT_BROKERS = (
    "completion",
    "connect",
    "connect-distributed",
    "connect-standalone",
    "dump-log",
    "generate",
    "host",
    "mirror",
    "server-start",
    "server-stop",
    "up",
)
WITH_BROKERS = [command for command in COMMANDS if command not in WITHOUT_BROKERS]
CONSUMER_PERF = ("consumer-perf-test", *TO, "--num-records", "10")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("console-consumer", "--topic", "t"), "Missing option '--bootstrap-server'"),
        (CONSUMER, "exactly one of --topic and --include is needed"),
        ((*CONSUMER, "--topic", "t", "--include", "u"), "exactly one of --topic and --include"),
        ((*CONSUMER, "--include", "t", "--partition", "0"), "--partition needs --topic"),
        ((*CONSUMER, "--topic", "t", "--offset", "1"), "The partition is required when offset"),
        (
            (*CONSUMER, "--topic", "t", "--partition", "0", "--offset", "-1"),
            "The provided offset value '-1' is incorrect. Valid values are 'earliest', 'latest', "
            "or a non-negative long",
        ),
        (
            (*CONSUMER, "--topic=t", "--partition=0", "--offset=1", "--from-beginning"),
            "Options from-beginning and offset cannot be specified together",
        ),
        ((*CONSUMER, "--topic", "t", "--formatter", "a.B"), "known are DefaultMessageFormatter"),
        ((*CONSUMER, "--topic", "t", "--property", "print.keys=true"), "no such property"),
        ((*CONSUMER, "--topic", "t", "--property", "x"), "--formatter-property x: must be"),
        ((*CONSUMER, "--topic", "t", "--command-config", "/no/file"), "does not exist"),
        ((*CONSUMER, "--topic", "t", "--command-property", "fetch.min.byte=1"), "fetch.min.bytes"),
        ((*PRODUCER, "--topic", "t", "--property", "parse.key=maybe"), "must be true or false"),
        ((*PRODUCER, "--topic", "t", "--line-reader", "a.B"), "only LineMessageReader is known"),
        ((*PRODUCER, "--topic", "t", "--compression-codec", "rar"), "'rar' is not one of"),
        ((*PRODUCER, "--topic", "t", "--request-required-acks", "2"), "acks=2: must be one of"),
        (TOPICS, "Command must include exactly one action: --list, --describe, --create"),
        ((*TOPICS, "--list", "--create"), "Command must include exactly one action"),
        ((*TOPICS, "--create"), "--create needs --topic"),
        ((*TOPICS, "--delete"), "--delete needs --topic"),
        ((*TOPICS, "--alter", "--topic", "t"), "--alter needs --partitions, --config or"),
        ((*TOPICS, "--create", "--topic", "t", "--partitions", "0"), "'--partitions': 0 is not"),
        ((*TOPICS, "--create", "--topic", "t", "--config", "x"), "--config x: must be key=value"),
        (
            (*TOPICS, "--create", "--topic", "t", "--replica-assignment", "1:1"),
            "a partition has the same broker twice",
        ),
        (
            (*TOPICS, "--create", "--topic=t", "--replica-assignment=1", "--partitions=1"),
            "--replica-assignment and --partitions exclude each other",
        ),
        (
            (*TOPICS, "--create", "--topic=t", "--delete-config=x"),
            "--delete-config needs --alter",
        ),
        (PRODUCER_PERF, "exactly one of --record-size, --payload-file and --payload-monotonic"),
        (
            (*PRODUCER_PERF, "--record-size=1", "--warmup-records=10"),
            "--warmup-records must be below --num-records",
        ),
        (
            ("producer-perf-test", "--topic=t", "--num-records=1", "--record-size=1"),
            "--bootstrap-server (or bootstrap.servers) is needed",
        ),
        ((*PRODUCER_PERF, "--record-size=1", "--producer-props", "acks"), "must be key=value"),
        (CONSUMER_PERF, "exactly one of --topic and --include is needed"),
    ],
)
def test_one_line_and_exit_code_2(run: Run, arguments: tuple[str, ...], words: str) -> None:
    code, out, err = run(*arguments)
    assert words in err
    assert len(err.splitlines()) == 1
    assert (code, out) == (2, "")


@pytest.mark.parametrize(
    "arguments",
    [
        (*TOPICS, "--list"),
        (*PRODUCER, "--topic", "t"),
        (*CONSUMER, "--topic", "t"),
        (*PRODUCER_PERF, "--record-size", "1"),
        (*CONSUMER_PERF, "--topic", "t", "--hide-header"),
    ],
)
def test_nobody_there_is_one_line_and_exit_code_1(
    run: Run, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    config = tmp_path / "client.properties"
    config.write_text("bootstrap.timeout.ms=50\n")
    code, out, err = run(*arguments, "--command-config", config)
    assert (code, out) == (1, "")
    assert [line for line in err.splitlines() if not line.startswith("Processed")] == [
        err.splitlines()[-1]
    ]
    assert "localhost:1" in err


NOBODY = ("--command-property", "bootstrap.timeout.ms=50")


def test_the_environment_may_name_the_brokers(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINIKAFKA_BOOTSTRAP_SERVERS", "localhost:1")
    code, _, err = run("console-consumer", "--topic", "t", *NOBODY)
    assert code == 1
    assert "localhost:1: connect" in err
    code, _, err = run(
        "console-consumer", "--bootstrap-server", "localhost:2", *NOBODY, "--topic=t"
    )
    assert "localhost:2: connect" in err
    assert "localhost:1: connect" not in err


def test_a_properties_file_that_names_a_cluster_beats_the_environment(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINIKAFKA_BOOTSTRAP_SERVERS", "localhost:1")
    config = tmp_path / "client.properties"
    config.write_text("bootstrap.servers=localhost:2\nbootstrap.timeout.ms=50\n")
    _, _, err = run("topics", "--list", "--command-config", config)
    assert "localhost:2: connect" in err
    _, _, err = run("topics", "--list", *TO, "--command-config", config)
    assert "localhost:1: connect" in err


def test_the_environment_does_not_stand_against_bootstrap_controller(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINIKAFKA_BOOTSTRAP_SERVERS", "localhost:1")
    config = tmp_path / "client.properties"
    config.write_text("bootstrap.timeout.ms=50\n")
    quorum = ("metadata-quorum", "--bootstrap-controller", "localhost:2", "--status", "describe")
    code, _, err = run(*quorum, "--command-config", config)
    assert code == 1
    assert "localhost:2" in err


@pytest.mark.parametrize("command", WITH_BROKERS)
def test_every_tool_that_asks_brokers_says_that_the_environment_is_asked(
    run: Run, command: str
) -> None:
    one_of_several = {
        "plan": ["balance"],
        "delay": ["list"],
        "dlq": ["list"],
        "audit": ["tail"],
        "forward": ["stats"],
    }
    _, out, _ = run(command, *one_of_several.get(command, []), "--help")
    assert "MINIKAFKA_BOOTSTRAP_SERVERS" in " ".join(out.split())
