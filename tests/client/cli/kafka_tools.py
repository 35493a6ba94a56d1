"""Kafka's own command-line tools in Java, from the jars of Maven's local repository."""

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(os.environ.get("MAVEN_REPOSITORY") or Path.home() / ".m2" / "repository")
TOOLS = "org.apache.kafka.tools"
CLASSES = {
    "acls": f"{TOOLS}.AclCommand",
    "broker-api-versions": f"{TOOLS}.BrokerApiVersionsCommand",
    "client-metrics": f"{TOOLS}.ClientMetricsCommand",
    "cluster": f"{TOOLS}.ClusterTool",
    "configs": "kafka.admin.ConfigCommand",
    "console-consumer": f"{TOOLS}.consumer.ConsoleConsumer",
    "console-producer": f"{TOOLS}.ConsoleProducer",
    "consumer-groups": f"{TOOLS}.consumer.group.ConsumerGroupCommand",
    "consumer-perf-test": f"{TOOLS}.ConsumerPerformance",
    "delegation-tokens": f"{TOOLS}.DelegationTokenCommand",
    "delete-records": f"{TOOLS}.DeleteRecordsCommand",
    "dump-log": f"{TOOLS}.DumpLogSegments",
    "e2e-latency": f"{TOOLS}.EndToEndLatency",
    "features": f"{TOOLS}.FeatureCommand",
    "get-offsets": f"{TOOLS}.GetOffsetShell",
    "groups": f"{TOOLS}.GroupsCommand",
    "leader-election": f"{TOOLS}.LeaderElectionCommand",
    "log-dirs": f"{TOOLS}.LogDirsCommand",
    "metadata-quorum": f"{TOOLS}.MetadataQuorumCommand",
    "producer-perf-test": f"{TOOLS}.ProducerPerformance",
    "reassign-partitions": f"{TOOLS}.reassign.ReassignPartitionsCommand",
    "replica-verification": f"{TOOLS}.ReplicaVerificationTool",
    "streams-application-reset": f"{TOOLS}.StreamsResetter",
    "topics": f"{TOOLS}.TopicCommand",
    "transactions": f"{TOOLS}.TransactionsCommand",
    "verifiable-consumer": f"{TOOLS}.VerifiableConsumer",
    "verifiable-producer": f"{TOOLS}.VerifiableProducer",
}
"""The class of each of Kafka's tools, by the name that it has here."""
SUBCOMMANDS = {
    "cluster": ("cluster-id", "list-endpoints", "unregister"),
    "features": ("describe", "upgrade", "downgrade", "disable"),
    "metadata-quorum": ("describe",),
    "transactions": ("list", "describe", "describe-producers", "abort", "find-hanging"),
}
FLAG = re.compile(r"^ *(?:\* )?(?:-\w, )?(--[a-z][\w.-]*)", re.MULTILINE)


class Said(NamedTuple):
    code: int
    out: str
    err: str


@cache
def missing() -> str | None:
    """Say why Kafka's tools cannot be run here; None if they can."""
    if shutil.which("java") is None:
        return "java is not installed"
    if not any(REPOSITORY.glob("org/apache/kafka/kafka-tools/*/kafka-tools-*.jar")):
        return f"{REPOSITORY} has no kafka-tools"
    return None


@cache
def _class_path() -> str:
    return ":".join(str(jar) for jar in sorted(REPOSITORY.glob("**/*.jar")))


def run(tool: str, *arguments: object) -> Said:
    """Run one of Kafka's tools, by the name that it has here."""
    java = ["java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", _class_path()]
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
    command = [*java, quiet, CLASSES[tool], *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90)
    return Said(done.returncode, done.stdout, done.stderr)


def flags(tool: str) -> set[str]:
    """Read the flags of a tool off its help."""
    # This one takes --help for an old positional argument if it stands alone.
    before = ("--topic", "t") if tool == "e2e-latency" else ()
    found: set[str] = set()
    for subcommand in SUBCOMMANDS.get(tool, ("",)):
        said = run(tool, *([subcommand] if subcommand else []), *before, "--help")
        found.update(FLAG.findall(said.out + said.err))
    return found - {"--help", "--version"}
