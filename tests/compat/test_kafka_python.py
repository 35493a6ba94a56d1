"""kafka-python 3, unmodified, against real processes."""

import warnings
from typing import Any

import pytest

from ..support.cluster import Cluster
from .payloads import PARTITIONS, Payload, by_partition, payloads

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka
    import kafka.admin
    import kafka.errors

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


def produce(cluster: Cluster, topic: str, sent: list[Payload], **settings: Any) -> None:
    given = {"bootstrap_servers": cluster.bootstrap, "linger_ms": 5, **settings}
    producer = kafka.KafkaProducer(**given)
    waiting = [
        producer.send(
            topic,
            one.value,
            one.key,
            list(one.headers),
            one.partition,
            one.timestamp_ms,
        )
        for one in sent
    ]
    for each in waiting:
        each.get(20)
    producer.close()


def consume(cluster: Cluster, topic: str, count: int, **settings: Any) -> dict[int, list[Payload]]:
    places = [kafka.TopicPartition(topic, index) for index in range(PARTITIONS)]
    consumer = kafka.KafkaConsumer(
        **{
            "bootstrap_servers": cluster.bootstrap,
            "group_id": None,
            "check_crcs": True,
            **settings,
        }
    )
    consumer.assign(places)
    consumer.seek_to_beginning(*places)
    found: dict[int, list[Payload]] = {index: [] for index in range(PARTITIONS)}
    while sum(map(len, found.values())) < count:
        fetched = consumer.poll(timeout_ms=15_000)
        assert fetched, "records are missing"
        for place, records in fetched.items():
            for record in records:
                assert record.offset == len(found[place.partition])
                found[place.partition].append(
                    Payload(
                        place.partition,
                        record.key,
                        record.value,
                        tuple(record.headers),
                        record.timestamp,
                    )
                )
    consumer.close()
    return found


def test_the_default_producer_is_idempotent(cluster: Cluster) -> None:
    sent = payloads(seed=22)
    produce(cluster, "kafka-python-idempotent", sent)
    assert consume(cluster, "kafka-python-idempotent", len(sent)) == by_partition(sent)


def test_offsets_by_time_and_at_both_ends(cluster: Cluster) -> None:
    topic = "kafka-python-offsets"
    produce(cluster, topic, [Payload(0, None, b"%d" % i, (), 5000 + 10 * i) for i in range(50)])
    place = kafka.TopicPartition(topic, 0)
    consumer = kafka.KafkaConsumer(bootstrap_servers=cluster.bootstrap)
    consumer.assign([place])
    assert consumer.beginning_offsets([place]) == {place: 0}
    assert consumer.end_offsets([place]) == {place: 50}
    found = consumer.offsets_for_times({place: 5101})[place]
    assert (found.offset, found.timestamp) == (11, 5110)
    consumer.close()


def test_admin_client(cluster: Cluster) -> None:
    admin = kafka.KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    new = kafka.admin.NewTopic("kafka-python-admin", num_partitions=2, replication_factor=1)
    admin.create_topics([new])
    with pytest.raises(kafka.errors.TopicAlreadyExistsError):
        admin.create_topics([new])
    assert "kafka-python-admin" in admin.list_topics()
    (described,) = admin.describe_topics(["kafka-python-admin"])
    assert len(described["partitions"]) == 2
    admin.delete_topics(["kafka-python-admin"])
    assert "kafka-python-admin" not in admin.list_topics()
    admin.close()
