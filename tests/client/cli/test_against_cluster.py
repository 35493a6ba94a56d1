"""The commands as processes against a cluster of real processes."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from minikafka.deploy.local_cluster import LocalCluster

from ...support.cluster import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.processes]
ROOT = Path(__file__).parents[3]
GUARDED = {
    "authorizer.class.name": "StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
CODE = "from minikafka.deploy.cli import main; main()"


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3, broker_config=GUARDED) as made:
        yield made


def at_controller(cluster: LocalCluster) -> list[str]:
    """Return the arguments of a command that asks the controller with the cluster's key."""
    (controller,) = cluster.layout.controllers
    config = controller.directory / "tools.properties"
    config.write_text(f"control.psk.file={controller.key_path}\n")
    return ["--bootstrap-controller", controller.address, "--command-config", str(config)]


class Minikafka:
    """The command line, with --bootstrap-server already given."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.bootstrap = cluster.bootstrap

    def command(self, name: str, *arguments: object) -> list[str]:
        to = ["--bootstrap-server", self.bootstrap]
        return [sys.executable, "-c", CODE, name, *to, *map(str, arguments)]

    def __call__(
        self, name: str, *arguments: object, feed: bytes = b"", code: int = 0
    ) -> tuple[str, str]:
        command = self.command(name, *arguments)
        done = subprocess.run(command, input=feed, capture_output=True, timeout=60)
        out, err = done.stdout.decode(), done.stderr.decode()
        assert done.returncode == code, err
        return out, err


@pytest.fixture
def minikafka(cluster: LocalCluster) -> Minikafka:
    return Minikafka(cluster)


def test_topics(minikafka: Minikafka) -> None:
    created = minikafka("topics", "--create", "--topic", "plain", "--partitions", 2)
    assert created == ("Created topic plain.\n", "")
    out, _ = minikafka("topics", "--describe", "--topic", "plain")
    first, *partitions = out.splitlines()
    pattern = (
        r"Topic: plain\tTopicId: [\w-]{22}\tPartitionCount: 2\tReplicationFactor: 3\tConfigs: .*"
    )
    assert re.fullmatch(pattern, first)
    for number, line in enumerate(partitions):
        assert re.fullmatch(
            rf"\tTopic: plain\tPartition: {number}\tLeader: [123]\tReplicas: [123],[123],[123]"
            r"\tIsr: [123],[123],[123]\tElr: .*\tLastKnownElr: .*",
            line,
        )
    out, _ = minikafka("topics", "--describe", "--topic", "plain", "--replicas")
    copies = [line for line in out.splitlines() if line.startswith("\t\t")]
    assert [line.count("Role: leader") for line in copies].count(1) == 2
    for line in copies:
        assert re.fullmatch(
            r"\t\tReplica: [123]\tRole: (leader|follower)\tLeaderEpoch: 0\tLogStartOffset: 0"
            r"\tLogEndOffset: 0\tHighWatermark: 0\tLag: 0\tBehindMs: \d+\tSize: 0",
            line,
        )
    assert len(copies) == 6
    alter = ("topics", "--alter", "--topic", "plain")
    minikafka(*alter, "--partitions", 3)
    minikafka(*alter, "--config", "segment.bytes=1048576", "--config", "cleanup.policy=compact")
    minikafka(*alter, "--delete-config", "cleanup.policy")
    out, _ = minikafka("topics", "--describe", "--topic", "plain")
    assert "PartitionCount: 3" in out
    assert "segment.bytes=1048576" in out
    assert "cleanup.policy" not in out
    minikafka("topics", "--delete", "--topic", "plain")
    assert "plain" not in minikafka("topics", "--list")[0].split()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--create", "--topic", "wide", "--replication-factor", "4"], "4"),
        (["--create", "--topic", "bad/name"], "bad/name"),
        (["--create", "--topic", "t", "--config", "segment.byte=1"], "segment.byte"),
        (["--create", "--topic", "t", "--config", "segment.bytes=x"], "segment.bytes"),
        (["--describe", "--topic", "nowhere"], "Topic 'nowhere' does not exist as expected"),
    ],
)
def test_refusals_are_one_line(minikafka: Minikafka, arguments: list[str], words: str) -> None:
    out, err = minikafka("topics", *arguments, code=1)
    assert out == ""
    assert err.startswith("Error while executing topic command : ")
    assert words in err
    assert len(err.splitlines()) == 1


def test_lines_in_lines_out(minikafka: Minikafka) -> None:
    minikafka("topics", "--create", "--topic", "lines", "--partitions", 1)
    produce = ("console-producer", "--topic", "lines")
    minikafka(*produce, feed=b"one\ntwo\n\nf\xc3\xbcnf")
    properties = ["parse.key=true", "parse.headers=true", "null.marker=~", "key.separator=|"]
    flags = [flag for each in properties for flag in ("--reader-property", each)]
    minikafka(
        *produce, *flags, "--compression-codec", "--sync", feed=b"h:1,i:\tk|v\n~\t~|w\nx:1\tk|~\n"
    )
    read = ("console-consumer", "--topic", "lines", "--from-beginning", "--max-messages")
    out, err = minikafka(*read, 4)
    assert (out, err) == ("one\ntwo\n\nfünf\n", "Processed a total of 4 messages\n")
    shown = ["print.key=true", "print.headers=true", "print.offset=true", "print.partition=true"]
    flags = [flag for each in shown for flag in ("--formatter-property", each)]
    out, _ = minikafka("console-consumer", *read[1:], 3, "--partition", 0, *flags)
    assert out.splitlines()[0] == "Partition:0\tOffset:0\tNO_HEADERS\tnull\tone"
    later = ("console-consumer", "--topic", "lines", "--partition", 0, "--offset", 4)
    out, err = minikafka(*later, "--timeout-ms", 1000, *flags)
    assert out.splitlines() == [
        "Partition:0\tOffset:4\th:1,i:\tk\tv",
        "Partition:0\tOffset:5\tNO_HEADERS\tnull\tw",
        "Partition:0\tOffset:6\tx:1\tk\tnull",
    ]
    assert err == "Processed a total of 3 messages\n"


def test_a_bad_line_ends_it_after_what_came_before(minikafka: Minikafka) -> None:
    minikafka("topics", "--create", "--topic", "halves", "--partitions", 1)
    keyed = ("--topic", "halves", "--property", "parse.key=true")
    _, err = minikafka("console-producer", *keyed, feed=b"a\tb\nc\n", code=1)
    assert err == "minikafka: No key separator found on line number 2: 'c'\n"
    read = ("--topic", "halves", "--from-beginning", "--timeout-ms", 1000)
    assert minikafka("console-consumer", *read)[0] == "b\n"


def test_undeliverable_records_are_an_error(minikafka: Minikafka) -> None:
    flags = ("--topic", "bad/name", "--max-block-ms", 500)
    _, err = minikafka("console-producer", *flags, feed=b"x\n", code=1)
    assert err.startswith("minikafka console-producer: bad/name")
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("ears", [signal.SIG_DFL, signal.SIG_IGN])
def test_a_consumer_follows_until_it_is_ended(minikafka: Minikafka, ears: signal.Handlers) -> None:
    """Also one that a shell began in the background, deaf to Ctrl-C."""
    topic = f"live-{ears.name}"
    minikafka("topics", "--create", "--topic", topic, "--partitions", 3)
    command = minikafka.command("console-consumer", "--include", f"{topic}.*", "--from-beginning")
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, ears),
    ) as consumer:
        assert consumer.stdout is not None
        minikafka("console-producer", "--topic", topic, feed=b"first\n")
        assert consumer.stdout.readline() == b"first\n"
        minikafka("console-producer", "--topic", topic, feed=b"second\n")
        assert consumer.stdout.readline() == b"second\n"
        consumer.terminate()
        _, err = consumer.communicate(timeout=30)
    assert err == b"Processed a total of 2 messages\n"
    assert consumer.returncode == 130


def test_performance_tests(minikafka: Minikafka) -> None:
    minikafka("topics", "--create", "--topic", "perf", "--partitions", 3)
    send = ("--topic", "perf", "--num-records", 3000, "--record-size", 100)
    props = ("--producer-props", "acks=all", "linger.ms=2")
    out, _ = minikafka("producer-perf-test", *send, "--throughput", -1, *props)
    assert re.fullmatch(
        r"3000 records sent, [\d.]+ records/sec \([\d.]+ MB/sec\), [\d.]+ ms avg latency, "
        r"[\d.]+ ms max latency, \d+ ms 50th, \d+ ms 95th, \d+ ms 99th, \d+ ms 99.9th.\n",
        out,
    )
    read = ("--topic", "perf", "--messages", 3000)
    header, line, *metrics = minikafka("consumer-perf-test", *read, "--print-metrics")[
        0
    ].splitlines()
    assert header.startswith("start.time, end.time, data.consumed.in.MB, MB.sec, ")
    assert line.split(", ")[2::2][:2] == ["0.2861", "3000"]
    (consumed,) = (one for one in metrics if ":records-consumed-total:" in one)
    assert consumed.endswith(" : 3000.000")
    few_sent = ("--topic", "perf", "--num-records", 0, "--record-size", 1, "--print-metrics")
    assert "producer-metrics:record-send-total:{" in minikafka("producer-perf-test", *few_sent)[0]
    few = ("--topic", "perf", "--num-records", 4000, "--timeout", 500, "--hide-header")
    out, _ = minikafka("consumer-perf-test", *few, code=1)
    assert out.startswith("WARNING: Exiting before consuming the expected number of messages")


def test_replicas_are_compared_until_it_is_ended(minikafka: Minikafka) -> None:
    minikafka("topics", "--create", "--topic", "compared", "--partitions", 2)
    minikafka("console-producer", "--topic", "compared", feed=b"one\ntwo\nthree\n")
    flags = ("--topics-include", "compared", "--time", -2, "--max-wait-ms", 50)
    command = minikafka.command("replica-verification", *flags, "--report-interval-ms", 0)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as verifying:
        assert verifying.stdout is not None
        time = rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}: "
        started = verifying.stdout.readline()
        assert re.fullmatch(time + rb"verification process is started\n", started)
        caught_up = rb"max lag is 0 for partition compared-[01] at offset \d+ among 2 partitions\n"
        assert any(re.fullmatch(time + caught_up, line) for line in verifying.stdout)
        verifying.terminate()
        _, err = verifying.communicate(timeout=30)
    assert err == b""
    assert verifying.returncode == 130


def test_the_latency_from_end_to_end(minikafka: Minikafka) -> None:
    sizes = ("--record-size", 20, "--record-key-size", 3, "--num-headers", 2)
    more = ("--record-header-key-size", 2, "--record-header-size", -1)
    plan = ("--topic", "there-and-back", "--num-records", 3, "--producer-acks", "all")
    out, err = minikafka("e2e-latency", *plan, *sizes, *more)
    assert err == ""
    assert re.fullmatch(
        r'Topic "there-and-back" does not exist\. Will create topic with 1 partition\(s\) and '
        r"replication factor = 1\n"
        r"0\t[\d.]+\nAvg latency: \d+\.\d{4} ms\n"
        r"Percentiles: 50th = \d+, 99th = \d+, 99.9th = \d+\n",
        out,
    )


def test_what_verifiable_tools_produce_they_consume(minikafka: Minikafka) -> None:
    minikafka("topics", "--create", "--topic", "verified", "--partitions", 3)
    keyed = ("--repeating-keys", 5, "--value-prefix", 4)
    out, err = minikafka("verifiable-producer", "--topic", "verified", "--max-messages", 20, *keyed)
    assert err == ""
    events = [json.loads(line) for line in out.splitlines()]
    sent = [one for one in events if one["name"] == "producer_send_success"]
    assert (events[-1]["sent"], events[-1]["acked"], len(sent)) == (20, 20, 20)
    flags = ("--group-id", "verifiers", "--verbose", "--max-messages", 20)
    out, err = minikafka("verifiable-consumer", "--topic", "verified", *flags)
    assert err == ""
    events = [json.loads(line) for line in out.splitlines()]
    read = [one for one in events if one["name"] == "record_data"]
    keys = ("key", "value", "topic", "partition", "offset")
    assert sorted([one[key] for key in keys] for one in read) == sorted(
        [one[key] for key in keys] for one in sent
    )
    committed = [one for one in events if one["name"] == "offsets_committed"]
    assert all(one["success"] for one in committed)
    assert [one["name"] for one in events][-2:] == ["shutdown_complete", "shutdown_requested"]


def test_what_a_broker_wrote_can_be_dumped(cluster: LocalCluster, minikafka: Minikafka) -> None:
    minikafka("topics", "--create", "--topic", "dumped", "--partitions", 1)
    minikafka("console-producer", "--topic", "dumped", feed=b"payload one\npayload two\n")
    for broker in (1, 2, 3):
        directory = cluster.node(broker).data_path / "dumped-0"
        segment = directory / "00000000000000000000.log"
        command = [sys.executable, "-c", CODE, "dump-log", "--print-data-log", "--files"]
        done = subprocess.run([*command, str(segment)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("payload: payload ") == 2


def commands_of(section: str) -> Iterator[tuple[str, list[str]]]:
    """The commands in a section of the page on monitoring: name and flags."""
    text = (ROOT / "docs" / "monitoring.md").read_text().partition(f"\n## {section}\n")[2]
    (block,) = re.findall(r"```sh\n(.*?)```", text.partition("\n## ")[0], re.DOTALL)
    for line in block.splitlines():
        program, name, option, _, *arguments = line.split()
        assert (program, option) == ("minikafka", "--bootstrap-server")
        yield name, arguments


def test_who_is_not_allowed_sees_nothing_of_a_topic(minikafka: Minikafka) -> None:
    """Brokers apply an entry when they have replayed it, so what follows from it is waited for."""
    named = ("--topic", "guarded")
    minikafka("topics", "--create", *named, "--partitions", 1)
    minikafka("console-producer", *named, feed=b"before\n")
    bob = ("--allow-principal", "User:bob", "--operation", "Write")
    out, _ = minikafka("acls", "--add", *bob, *named)
    assert "(principal=User:bob, host=*, operation=WRITE, permissionType=ALLOW)" in out
    wait_until(lambda: "guarded" not in minikafka("topics", "--list")[0])
    refused = "guarded: TOPIC_AUTHORIZATION_FAILED"
    assert refused in minikafka("console-producer", *named, feed=b"denied\n", code=1)[1]
    reading = ("console-consumer", *named, "--from-beginning", "--timeout-ms", 20_000)
    assert "guarded: The principal may not" in minikafka(*reading, code=1)[1]
    minikafka("acls", "--remove", "--force", *named)
    wait_until(lambda: "guarded" in minikafka("topics", "--list")[0])
    minikafka("console-producer", *named, feed=b"after\n")
    assert minikafka(*reading, "--max-messages", 2)[0] == "before\nafter\n"


def test_client_metrics(minikafka: Minikafka) -> None:
    (name, alter), (_, describe), (_, delete) = commands_of("Metrics of clients")
    assert minikafka(name, *alter) == ("Altered client metrics config for producers.\n", "")
    _, err = minikafka(name, "--alter", "--name", "bad", "--interval", 5, code=1)
    assert err.startswith("Error while executing client metrics command : ")
    assert err.endswith("interval.ms=5: must be at least 100\n")
    settings = (
        "Client metrics configs for producers are:\n  interval.ms=60000\n"
        "  match=client_id=orders-.*\n  metrics=org.apache.kafka.producer.\n"
    )
    # A broker that is asked at once may not know of it yet.
    assert any(minikafka(name, *describe)[0] == settings for _ in range(50))
    shown = "  interval.ms=60000 sensitive=false synonyms={DYNAMIC_CLIENT_METRICS_CONFIG:"
    whose = ("configs", "--describe", "--client-metrics", "producers")
    assert any(shown in minikafka(*whose)[0] for _ in range(50))
    assert minikafka(name, *delete) == ("Deleted client metrics config for producers.\n", "")


def test_a_killed_broker_leaves_the_isr(cluster: LocalCluster, minikafka: Minikafka) -> None:
    minikafka("topics", "--create", "--topic", "survivor", "--partitions", 3)
    minikafka("console-producer", "--topic", "survivor", feed=b"before\n")
    cluster.kill(3)
    minikafka("console-producer", "--topic", "survivor", feed=b"after\n")
    out, _ = minikafka("topics", "--describe", "--topic", "survivor")
    for line in out.splitlines()[1:]:
        fields = dict(field.split(": ", 1) for field in line.split("\t")[1:])
        assert fields["Leader"] in ("1", "2")
        assert "3" not in fields["Isr"].split(",")
    under = minikafka("topics", "--describe", "--under-replicated-partitions")[0]
    assert sum("Topic: survivor\t" in line for line in under.splitlines()) == 3
    read = ("--topic", "survivor", "--from-beginning", "--max-messages", 2)
    assert sorted(minikafka("console-consumer", *read)[0].split()) == ["after", "before"]
    cluster.restart(3)


def test_who_left_the_isr_safely_is_shown_as_eligible(
    cluster: LocalCluster, minikafka: Minikafka
) -> None:
    minikafka("topics", "--create", "--topic", "safe", "--replica-assignment", "1:2:3")
    describe = ("topics", "--describe", "--topic", "safe")
    head = "\tTopic: safe\tPartition: 0\tLeader: 1\tReplicas: 1,2,3\t"

    def shown_within(text: str) -> bool:
        return any(minikafka(*describe)[0].splitlines()[1] == head + text for _ in range(50))

    assert shown_within("Isr: 1,2,3\tElr: \tLastKnownElr: ")
    cluster.kill(3)
    assert shown_within("Isr: 1,2\tElr: \tLastKnownElr: ")
    cluster.kill(2)
    assert shown_within("Isr: 1\tElr: 2\tLastKnownElr: ")
    cluster.restart(2)
    cluster.restart(3)
    assert shown_within("Isr: 1,2,3\tElr: \tLastKnownElr: ")


def test_metadata_log_can_be_dumped(cluster: LocalCluster) -> None:
    (controller,) = cluster.layout.controllers
    segments = sorted(Path(controller.data_path).glob("**/*.log"))
    assert segments
    command = [sys.executable, "-c", CODE, "dump-log", "--cluster-metadata-decoder", "--files"]
    done = subprocess.run([*command, str(segments[0])], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert '"type": "ClusterRecord"' in done.stdout


def test_metadata_quorum(minikafka: Minikafka, cluster: LocalCluster) -> None:
    status, _ = minikafka("metadata-quorum", "describe", "--status")
    assert re.fullmatch(
        r"ClusterId:              [\w-]{22}\n"
        r"LeaderId:               3001\n"
        r"LeaderEpoch:            \d+\n"
        r"HighWatermark:          \d+\n"
        r"MaxFollowerLag:         0\n"
        r"MaxFollowerLagTimeMs:   0\n"
        r'CurrentVoters:          \[{"id": 3001, "directoryId": "[\w-]{22}", "endpoints": .*}\]\n'
        r'CurrentObservers:       \[{"id": 1, .*}, {"id": 2, .*}, {"id": 3, .*}\]\n',
        status,
    )
    told = ["metadata-quorum", *at_controller(cluster), "describe"]
    for flag in ("--status", "--replication"):
        command = [sys.executable, "-c", CODE, *told, flag]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")
        assert "3001" in done.stdout
        if flag == "--status":
            assert done.stdout.splitlines()[:2] == status.splitlines()[:2]


def test_cluster(minikafka: Minikafka, cluster: LocalCluster) -> None:
    whole, _ = minikafka("cluster", "cluster-id")
    assert re.fullmatch(r"Cluster ID: [\w-]{22}\n", whole)
    head, *brokers = minikafka("cluster", "list-endpoints")[0].splitlines()
    assert head.split() == ["ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE"]
    assert [line.split()[0] for line in brokers] == ["1", "2", "3"]
    (controller,) = cluster.layout.controllers
    told = ["cluster", *at_controller(cluster)]
    for action, shown in (
        ("cluster-id", whole.split()),
        ("list-endpoints", ["3001", *controller.address.split(":"), "null", "controller"]),
    ):
        command = [sys.executable, "-c", CODE, *told, action]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines()[-1].split() == shown
    _, err = minikafka("cluster", "unregister", "--id", 7, code=1)
    assert "Broker ID 7 is not currently registered" in err


def test_api_versions(minikafka: Minikafka) -> None:
    """Whatever a broker serves, a client of the same version can use."""
    out, err = minikafka("broker-api-versions")
    assert err == ""
    assert [line.split(" ", 1)[1] for line in out.splitlines() if line.endswith(" -> (")] == [
        f"(id: {broker} rack: null isFenced: false) -> (" for broker in (1, 2, 3)
    ]
    assert out.count("\tMetadata(3): 0 to 13 [usable: 13],\n") == 3
    assert "unusable" not in out
    assert "UNKNOWN" not in out


def test_features(minikafka: Minikafka) -> None:
    out, _ = minikafka("features", "describe")
    elr, groups, _kraft, metadata, _share, _streams, transactions = out.splitlines()
    for line, name, level in (
        (elr, "eligible.leader.replicas.version", "1"),
        (groups, "group.version", "0"),
        (metadata, "metadata.version", "4.3-IV0"),
        (transactions, "transaction.version", "2"),
    ):
        assert line.startswith(f"Feature: {name} ")
        assert f"  FinalizedVersionLevel: {level}  " in line
    flags = ("--feature", "eligible.leader.replicas.version=7")
    _, err = minikafka("features", "upgrade", *flags, code=1)
    assert "Could not upgrade eligible.leader.replicas.version to 7. " in err
    assert "the controller supports levels 0-1, not 7" in err


def test_configs(minikafka: Minikafka) -> None:
    minikafka("topics", "--create", "--topic", "configured")
    topic = ("--topic", "configured")
    done = minikafka("configs", "--alter", *topic, "--add-config", "retention.ms=5")
    assert done == ("Completed updating config for topic configured.\n", "")
    out, _ = minikafka("configs", "--describe", *topic)
    assert out.splitlines() == [
        "Dynamic configs for topic configured are:",
        "  retention.ms=5 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=5, "
        "DEFAULT_CONFIG:log.retention.ms=604800000}",
    ]
    minikafka("configs", "--alter", *topic, "--delete-config", "retention.ms")
    _, err = minikafka("configs", "--alter", "--broker", 2, "--add-config", "node.id=7", code=1)
    assert "node.id" in err


def test_levels_of_loggers(minikafka: Minikafka) -> None:
    """Each broker has its own."""
    name = "minikafka.broker.replication"
    of_broker_2 = ("--entity-type", "broker-loggers", "--entity-name", 2)
    done = minikafka("configs", "--alter", *of_broker_2, "--add-config", f"{name}=DEBUG")
    assert done == ("Completed updating config for broker-logger 2.\n", "")
    out, _ = minikafka("configs", "--describe", *of_broker_2)
    assert out.startswith("Dynamic configs for broker-logger 2 are:\n")
    assert f"  {name}.fetcher=DEBUG sensitive=false synonyms={{}}\n" in out
    out, _ = minikafka("configs", "--describe", "--broker-logger", 3)
    assert f"  {name}.fetcher=INFO sensitive=false" in out
    minikafka("configs", "--alter", *of_broker_2, "--delete-config", name)
    out, _ = minikafka("configs", "--describe", *of_broker_2)
    assert f"  {name}.fetcher=INFO sensitive=false" in out
    unknown = ("--add-config", "minikafka.none=INFO")
    _, err = minikafka("configs", "--alter", *of_broker_2, *unknown, code=1)
    assert err == "Error while executing config command: Invalid broker logger(s): minikafka.none\n"


def test_the_commands_about_logs_of_the_page_on_monitoring(minikafka: Minikafka) -> None:
    said = [minikafka(name, *arguments)[0] for name, arguments in commands_of("Logs")]
    done = "Completed updating config for broker-logger 1.\n"
    assert said[0].startswith("Dynamic configs for broker-logger 1 are:\n")
    assert said[1:] == [done, done]


def test_a_reassignment_from_the_plan_to_the_end(minikafka: Minikafka, tmp_path: Path) -> None:
    minikafka("topics", "--create", "--topic", "moved", "--replica-assignment", "1,2")
    (tmp_path / "topics.json").write_text('{"topics": [{"topic": "moved"}], "version": 1}')
    flags = ("--topics-to-move-json-file", tmp_path / "topics.json", "--broker-list", "3")
    out, _ = minikafka("reassign-partitions", "--generate", *flags)
    plan = ("--reassignment-json-file", tmp_path / "plan.json")
    plan[1].write_text(out.splitlines()[-1])
    out, err = minikafka("reassign-partitions", "--execute", *plan, "--throttle", 10**9)
    assert err == ""
    assert out.endswith("Successfully started partition reassignments for moved-0,moved-1\n")
    while "in progress" in (out := minikafka("reassign-partitions", "--verify", *plan)[0]):
        pass
    assert out == (
        "Status of partition reassignment:\n"
        "Reassignment of partition moved-0 is completed.\n"
        "Reassignment of partition moved-1 is completed.\n\n"
        "Clearing broker-level throttles on brokers 1,2,3\n"
        "Clearing topic-level throttles on topic moved\n"
    )
    out, _ = minikafka("configs", "--describe", "--broker", 3)
    assert out == "Dynamic configs for broker 3 are:\n"
    out, _ = minikafka("topics", "--describe", "--topic", "moved")
    assert out.count("Replicas: 3\tIsr: 3\t") == 2


def test_leader_election(minikafka: Minikafka) -> None:
    minikafka("topics", "--create", "--topic", "elected", "--replica-assignment", "1:2")
    elect = ("leader-election", "--election-type", "preferred", "--topic", "elected")
    out, err = minikafka(*elect, "--partition", 0)
    assert (out, err) == ("Valid replica already elected for partitions elected-0\n", "")
    out, err = minikafka(*elect, "--partition", 5, code=1)
    assert out == ""
    assert "Error completing leader election (PREFERRED) for partition: elected-5: UNKNOWN" in err
