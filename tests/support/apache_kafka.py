"""One node of Apache Kafka, for tests that compare our tools with it.

Its jars come from Maven's local repository, and are fetched only if MINIKAFKA_FETCH_KAFKA=1 is in
the environment; without them the tests skip.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from minikafka import Admin
from minikafka.client.errors import BootstrapError

from .cluster import free_ports

VERSION = "4.3.1"
FETCH = "MINIKAFKA_FETCH_KAFKA"
READY_WITHIN_S = 90
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>t</groupId><artifactId>t</artifactId><version>1</version>
<dependencies>
<dependency>
<groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{0}</version>
</dependency>
<dependency>
<groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{0}</version>
</dependency>
</dependencies></project>
"""
PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{1}
listeners=PLAINTEXT://127.0.0.1:{0},CONTROLLER://127.0.0.1:{1}
controller.listener.names=CONTROLLER
log.dirs={2}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.num.partitions=4
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
QUICK = ("-Xmx384m", "-XX:TieredStopAtLevel=1")


@cache
def class_path() -> str:
    """Return the class path of Kafka and its tools; skip the test if the jars are missing."""
    if not (shutil.which("java") and shutil.which("mvn")):
        pytest.skip("Apache Kafka needs java and mvn")
    with TemporaryDirectory() as directory:
        Path(directory, "pom.xml").write_text(POM.format(VERSION))
        reach = [] if os.environ.get(FETCH) == "1" else ["--offline"]
        found = subprocess.run(
            ["mvn", "-q", *reach, "dependency:build-classpath", "-Dmdep.outputFile=path"],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=300,
            check=False,
        )
        if found.returncode:
            pytest.skip(f"Maven has no jars of Apache Kafka {VERSION}: set {FETCH}=1 to fetch them")
        return Path(directory, "path").read_text().strip()


def java(*arguments: str, timeout_s: float = 90) -> str:
    """Run one of Kafka's programs until it ends; return its output."""
    command = ["java", *QUICK, "-cp", class_path(), *arguments]
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@contextlib.contextmanager
def one_node(directory: Path) -> Iterator[str]:
    """Run a node that is both broker and controller; return its address."""
    port, controller = free_ports(2)
    properties = directory / "server.properties"
    properties.write_text(PROPERTIES.format(port, controller, directory / "data"))
    java("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties))
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            ["java", *QUICK, "-cp", class_path(), "kafka.Kafka", str(properties)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    address = f"127.0.0.1:{port}"
    try:
        try:
            with Admin(address, bootstrap_timeout_ms=READY_WITHIN_S * 1000) as admin:
                admin.describe_cluster()
        except BootstrapError as error:
            said = (directory / "log").read_text(errors="replace")[-3000:]
            raise AssertionError(f"Apache Kafka is not ready: {error}\n{said}") from error
        yield address
    finally:
        process.kill()
        process.wait(30)
