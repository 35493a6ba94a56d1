"""One Spark session and one broker for all the slow tests of this folder."""

import os
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from minikafka import (
    Acl,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
    Admin,
    ConfigChange,
    ConfigResource,
    Consumer,
    ConsumerRecord,
    NewTopic,
    Producer,
    ProducerRecord,
    ScramChange,
    TopicPartition,
)
from minikafka.deploy.layout import free_ports
from minikafka.deploy.local_cluster import LocalCluster
from minikafka.spark import cluster as sources
from minikafka.spark import sink_clients
from minikafka.spark.examples.flights import jobs
from minikafka.spark.java import OLDEST, java_version
from tests.security.certificates import authority, make

# JVMs here are short of life: quick to start is worth more than quick.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


@dataclass
class Broker:
    """A cluster of one broker, and what tests do with it without Spark."""

    bootstrap: str
    admin: Admin
    secure: dict[str, str]
    """Spark's options for its listener of SASL_SSL, where the user spark needs ACLs."""

    def create(self, topic: str, partitions: int = 1, **configs: str) -> str:
        dotted = {key.replace("_", "."): value for key, value in configs.items()}
        self.admin.create_topics([NewTopic(topic, partitions, 1, configs=dotted)])
        return topic

    def allow(self, kind: AclResource, name: str, *operations: AclOperation) -> None:
        """Let the user spark do this with all whose name begins so."""
        self.admin.create_acls(
            Acl(kind, name, AclPattern.PREFIXED, "User:spark", "*", each, AclPermission.ALLOW)
            for each in operations
        )

    def send(self, topic: str, values: list[bytes], partition: int = 0) -> None:
        with Producer(self.bootstrap) as producer:  # a new one knows the newest partitions
            records = [ProducerRecord(value) for value in values]
            producer.send_batch(topic, records, partition=partition).result(30)

    def records(self, topic: str) -> list[ConsumerRecord]:
        """Everything in a topic, by partition."""
        with Consumer(self.bootstrap, auto_offset_reset="earliest") as consumer:
            partitions = [TopicPartition(topic, p) for p in consumer.partitions_for(topic)]
            left = sum(consumer.end_offsets(partitions).values())
            left -= sum(consumer.beginning_offsets(partitions).values())
            consumer.assign(partitions)
            found: list[ConsumerRecord] = []
            while len(found) < left:
                found += consumer.poll(1000)
        return sorted(found, key=lambda record: (record.partition, record.offset))

    def forget(self, topic: str, offset: int) -> int:
        """Let retention delete old records, at least those below `offset`."""
        keep = ConfigChange("retention.bytes", "1")
        self.admin.incremental_alter_configs({ConfigResource.topic(topic): [keep]})
        asked = {TopicPartition(topic, 0): -2}
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            first = next(iter(self.admin.list_offsets(asked).values())).offset
            if first >= offset:
                return first
            time.sleep(0.05)
        raise AssertionError(f"retention left {topic} at {first}")


@dataclass
class Pipeline:
    """Spark and the broker together."""

    spark: SparkSession
    broker: Broker
    folder: Path

    def read(self, **options: str) -> DataFrame:
        frame: DataFrame = self._source(self.spark.read, options).load()
        return frame

    def stream(self, **options: str) -> DataFrame:
        frame: DataFrame = self._source(self.spark.readStream, options).load()
        return frame

    def write(self, rows: DataFrame, **options: str) -> None:
        self._source(rows.write, options).mode("append").save()

    def run_available(
        self, frame: DataFrame, checkpoint: str, topic: str, **options: str
    ) -> list[Any]:
        """Stream the available rows into a topic; return the progress of each micro-batch."""
        query = (
            self._source(frame.writeStream, {**options, "topic": topic})
            .option("checkpointLocation", str(self.folder / checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return [each for each in query.recentProgress if each.numInputRows]

    def _source(self, made: Any, options: dict[str, str]) -> Any:
        servers = ("kafka.bootstrap.servers", self.broker.bootstrap)
        return made.format("minikafka").option(*servers).options(**options)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    version = java_version()
    if version is None or version < OLDEST:
        pytest.skip(f"Spark needs Java {OLDEST} or newer; found {version or 'none'}")
    folder = tmp_path_factory.mktemp("spark")
    here = Path.cwd()
    os.chdir(folder)  # the JVM's and its workers' folder: the format is found by installation
    try:
        session = jobs.session(folder / "spark.log")
    finally:
        os.chdir(here)
    yield session
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # of py4j's sockets
        session.stop()


LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required"


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    plain, secure = free_ports(2)
    settings = {
        "log.retention.check.interval.ms": "100",
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},SECURE://127.0.0.1:{secure}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "authorizer.class.name": "StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "ssl.keystore.location": make("broker").write(tmp_path_factory.mktemp("keys") / "b.pem"),
    }
    options = {
        "kafka.bootstrap.servers": f"127.0.0.1:{secure}",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.truststore.certificates": authority().certificate_pem,
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": f'{LOGIN} username="spark" password="s,e=cret";',
    }
    with (
        LocalCluster(brokers=1, port=plain, broker_config=settings) as cluster,
        Admin(cluster.bootstrap) as admin,
    ):
        admin.alter_scram_credentials([ScramChange("spark", "SCRAM-SHA-512", "s,e=cret")])
        yield Broker(cluster.bootstrap, admin, options)
        for kept in (sink_clients._all, sources._clusters):
            kept.close()  # as the end of a worker does: before the cluster's


@pytest.fixture
def pipeline(spark: SparkSession, broker: Broker, tmp_path: Path) -> Pipeline:
    return Pipeline(spark, broker, tmp_path)
