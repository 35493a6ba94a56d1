"""confluent-kafka (librdkafka), unmodified, against real processes."""

import urllib.request
from functools import partial
from typing import Any

import confluent_kafka.admin
import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from prometheus_client.parser import text_string_to_metric_families

from minikafka import Admin, ConfigChange, ConfigResource
from minikafka.protocol.messages.incremental_alter_configs import ConfigOperation

from ..support.cluster import Cluster, wait_until
from .payloads import COMPRESSIONS, PARTITIONS, Payload, by_partition, payloads

pytestmark = pytest.mark.slow

kadmin: Any = confluent_kafka.admin


def make_topic(cluster: Cluster, name: str) -> str:
    admin = kadmin.AdminClient({"bootstrap.servers": cluster.bootstrap})
    (created,) = admin.create_topics([kadmin.NewTopic(name, PARTITIONS, 1)]).values()
    created.result(10)
    return name


def consume(cluster: Cluster, topic: str, count: int, **settings: Any) -> dict[int, list[Payload]]:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": False,
            "check.crcs": True,
            **settings,
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
    found: dict[int, list[Payload]] = {index: [] for index in range(PARTITIONS)}
    missing = count
    while missing:
        messages = consumer.consume(missing, timeout=15)
        assert messages, f"{missing} of {count} records are missing"
        message: Any
        for message in messages:
            assert message.error() is None, message.error()
            index = message.partition()
            assert message.offset() == len(found[index])
            headers = tuple((k, v) for k, v in message.headers() or ())
            found[index].append(
                Payload(index, message.key(), message.value(), headers, message.timestamp()[1])
            )
            missing -= 1
    consumer.close()
    return found


def produce(cluster: Cluster, topic: str, sent: list[Payload], **settings: Any) -> list[int]:
    failures: list[KafkaError] = []
    offsets: list[int] = []

    def on_delivery(error: KafkaError | None, message: Any) -> None:
        if error is not None:
            failures.append(error)
        else:
            offsets.append(message.offset())

    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 5, **settings})
    for one in sent:
        producer.produce(
            topic,
            one.value,
            one.key,
            partition=one.partition,
            on_delivery=on_delivery,
            timestamp=one.timestamp_ms,
            headers=list(one.headers),
        )
    assert producer.flush(20) == 0
    assert failures == []
    return offsets


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_an_idempotent_producer(cluster: Cluster, compression: str) -> None:
    topic = make_topic(cluster, f"confluent-idempotent-{compression}")
    sent = payloads(seed=2)
    settings = {"enable.idempotence": True, "compression.type": compression, "linger.ms": 0}
    produce(cluster, topic, sent, **settings)
    assert consume(cluster, topic, len(sent)) == by_partition(sent)


def test_one_record_per_request_and_small_fetches(cluster: Cluster) -> None:
    topic = make_topic(cluster, "confluent-small")
    sent = payloads(seed=3)
    produce(cluster, topic, sent, **{"linger.ms": 0, "batch.num.messages": 1})
    found = consume(cluster, topic, len(sent), **{"fetch.message.max.bytes": 1000})
    assert found == by_partition(sent)


def test_large_batches(cluster: Cluster) -> None:
    topic = make_topic(cluster, "confluent-large")
    sent = [Payload(i % 3, b"%d" % i, b"%07d" % i * 1400, (), 1000 + i) for i in range(2000)]
    produce(cluster, topic, sent, **{"linger.ms": 50, "batch.size": 900_000})
    assert consume(cluster, topic, len(sent)) == by_partition(sent)


def test_a_topic_is_created_by_asking_for_it(cluster: Cluster) -> None:
    sent = payloads(seed=4, count=30)
    produce(cluster, "confluent-auto-created", sent)
    assert consume(cluster, "confluent-auto-created", len(sent)) == by_partition(sent)


def test_watermarks_and_offsets_for_times(cluster: Cluster) -> None:
    topic = make_topic(cluster, "confluent-offsets")
    sent = [Payload(0, None, b"%d" % i, (), 5000 + 10 * i) for i in range(50)]
    produce(cluster, topic, sent, **{"batch.num.messages": 7})
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "unused"})
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), 10) == (0, 50)
    for wanted, offset in ((0, 0), (5000, 0), (5101, 11), (5490, 49)):
        asked = [TopicPartition(topic, 0, wanted)]
        assert consumer.offsets_for_times(asked, 10)[0].offset == offset
    assert consumer.offsets_for_times([TopicPartition(topic, 0, 9999)], 10)[0].offset == -1
    consumer.close()


def test_the_records_that_spoil_a_batch_are_named(cluster: Cluster) -> None:
    """KIP-467, as librdkafka's own suite has it: 10 of 100 records lack the key they need."""
    admin = kadmin.AdminClient({"bootstrap.servers": cluster.bootstrap})
    new = kadmin.NewTopic("confluent-spoilt", 1, 1, config={"cleanup.policy": "compact"})
    admin.create_topics([new])["confluent-spoilt"].result(10)
    codes: dict[int, int] = {}

    def note(index: int, error: KafkaError | None, _: Any) -> None:
        codes[index] = 0 if error is None else error.code()

    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 1000})
    for index in range(100):
        producer.produce(
            new.topic,
            b"value",
            None if index % 10 == 3 else b"key",
            partition=0,
            on_delivery=partial(note, index),
        )
    assert producer.flush(20) == 0
    spoilt = [index for index, code in codes.items() if code == KafkaError.INVALID_RECORD]
    assert spoilt == list(range(3, 100, 10))
    others = {code for index, code in codes.items() if index not in spoilt}
    assert others == {KafkaError._INVALID_DIFFERENT_RECORD}


def test_one_bad_resource_does_not_spoil_the_settings_of_another(cluster: Cluster) -> None:
    admin = kadmin.AdminClient({"bootstrap.servers": cluster.bootstrap})
    name = make_topic(cluster, "confluent-resources")
    setting = kadmin.AlterConfigOpType.SET
    kinds = kadmin.ConfigResource.Type

    def wish(kind: Any, of: str, key: str, value: str) -> Any:
        entry = kadmin.ConfigEntry(key, value, incremental_operation=setting)
        return kadmin.ConfigResource(kind, of, incremental_configs=[entry])

    good = wish(kinds.TOPIC, name, "retention.ms", "7200000")
    bad = wish(kinds.BROKER, "1", "sasl.kerberos.min.time.before.relogin", "58000")
    missing = wish(kinds.TOPIC, "confluent-not-there", "retention.ms", "1")
    futures = admin.incremental_alter_configs([bad, good, missing])
    futures[good].result(10)
    with pytest.raises(Exception, match="cannot be changed while the broker runs"):
        futures[bad].result(10)
    with pytest.raises(Exception, match="UNKNOWN_TOPIC_OR_PART"):
        futures[missing].result(10)
    same = kadmin.ConfigResource(kinds.TOPIC, name)
    assert admin.describe_configs([same])[same].result(10)["retention.ms"].value == "7200000"


def scraped(cluster: Cluster, name: str, client_id: str) -> list[float]:
    """The values of a metric at the broker, of one client."""
    host, port = cluster.broker(1).ready["metrics"]
    with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=20) as response:
        families = text_string_to_metric_families(response.read().decode())
    return [
        sample.value
        for family in families
        for sample in family.samples
        if sample.name == name and sample.labels.get("client_id", client_id) == client_id
    ]


def test_it_pushes_the_metrics_that_a_subscription_asks_for(cluster: Cluster) -> None:
    topic = make_topic(cluster, "confluent-telemetry")
    subscription = ConfigResource.client_metrics("confluent")
    wanted = {"metrics": "*", "interval.ms": "200", "match": "client_id=pusher"}
    refused = "kafka_server_client_metrics_unknown_subscription_request_total"
    created = "kafka_client_producer_connection_creation_total"
    with Admin(cluster.bootstrap) as admin:
        changes = [ConfigChange(key, value) for key, value in wanted.items()]
        admin.incremental_alter_configs({subscription: changes})
        wait_until(lambda: subscription in admin.list_config_resources())
        pusher = Producer({"bootstrap.servers": cluster.bootstrap, "client.id": "pusher"})
        silent = Producer({"bootstrap.servers": cluster.bootstrap, "client.id": "silent"})
        for producer in (pusher, silent):
            producer.produce(topic, b"value")
            assert producer.flush(20) == 0
        wait_until(lambda: sum(scraped(cluster, created, "pusher")) >= 1)
        assert scraped(cluster, "kafka_client_info", "pusher") == [1]
        assert scraped(cluster, "kafka_client_info", "silent") == []
        unset = [ConfigChange(key, None, ConfigOperation.DELETE) for key in wanted]
        before = sum(scraped(cluster, refused, "pusher"))
        admin.incremental_alter_configs({subscription: unset})
        wait_until(lambda: sum(scraped(cluster, refused, "pusher")) > before)


def test_there_is_no_security_to_be_found(cluster: Cluster) -> None:
    admin = kadmin.AdminClient({"bootstrap.servers": cluster.bootstrap})
    every = kadmin.AclBindingFilter(
        kadmin.ResourceType.ANY,
        None,
        kadmin.ResourcePatternType.ANY,
        None,
        None,
        kadmin.AclOperation.ANY,
        kadmin.AclPermissionType.ANY,
    )
    assert admin.describe_acls(every).result(10) == [], "it passes over the error of the whole"
    entry = kadmin.AclBinding(
        kadmin.ResourceType.TOPIC,
        "t",
        kadmin.ResourcePatternType.LITERAL,
        "User:a",
        "*",
        kadmin.AclOperation.READ,
        kadmin.AclPermissionType.ALLOW,
    )
    with pytest.raises(Exception, match="SECURITY_DISABLED"):
        admin.create_acls([entry])[entry].result(10)
    with pytest.raises(Exception, match="SECURITY_DISABLED"):
        admin.delete_acls([every])[every].result(10)
    with pytest.raises(Exception, match="does not exist: a"):
        admin.describe_user_scram_credentials(["a"])["a"].result(10)


def test_admin_client(cluster: Cluster) -> None:
    admin = kadmin.AdminClient({"bootstrap.servers": cluster.bootstrap})
    new = kadmin.NewTopic("confluent-admin", 2, 1, config={"retention.ms": "3600000"})
    admin.create_topics([new])["confluent-admin"].result(10)
    (again,) = admin.create_topics([new]).values()
    with pytest.raises(Exception, match="TOPIC_ALREADY_EXISTS"):
        again.result(10)
    too_many = kadmin.NewTopic("confluent-too-many", 1, 3)
    with pytest.raises(Exception, match="INVALID_REPLICATION_FACTOR"):
        admin.create_topics([too_many])["confluent-too-many"].result(10)
    admin.create_partitions([kadmin.NewPartitions("confluent-admin", 4)])["confluent-admin"].result(
        10
    )
    resource = kadmin.ConfigResource(kadmin.ConfigResource.Type.TOPIC, "confluent-admin")
    described = admin.describe_configs([resource])[resource].result(10)
    assert described["retention.ms"].value == "3600000"
    change = kadmin.ConfigEntry(
        "retention.ms", "7200000", incremental_operation=kadmin.AlterConfigOpType.SET
    )
    resource.add_incremental_config(change)
    admin.incremental_alter_configs([resource])[resource].result(10)
    same = kadmin.ConfigResource(kadmin.ConfigResource.Type.TOPIC, "confluent-admin")
    assert admin.describe_configs([same])[same].result(10)["retention.ms"].value == "7200000"
    listed = admin.list_topics(timeout=10)
    assert len(listed.topics["confluent-admin"].partitions) == 4
    assert listed.brokers[1].port == cluster.broker(1).port
    nodes = admin.describe_cluster().result(10)
    assert [node.id for node in nodes.nodes] == [1]
    admin.delete_topics(["confluent-admin"])["confluent-admin"].result(10)
    assert "confluent-admin" not in admin.list_topics(timeout=10).topics
