"""A cluster of three brokers that all tests of this folder share: topics, records, a group."""

from collections.abc import Iterator

import pytest

from minikafka import Admin, Consumer, NewTopic, Producer

from ...support.cluster import Cluster

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
}
TOPIC = "flights"
SCRIPT = "<script>alert(1)</script>"
"""A group's name, a key and a value that a browser must only ever show."""
RECORDS = 100
LONG_MS = 15 * 60 * 1000
"""The longest transaction that brokers allow by default: the tests must not outlast it."""


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("console")
    with Cluster(directory, brokers=3, broker_settings=SETTINGS) as one:
        one.start()
        fill(one.bootstrap)
        with Producer(
            one.bootstrap, transactional_id="never-ends", transaction_timeout_ms=LONG_MS
        ) as producer:
            producer.begin_transaction()
            producer.send("other", b"not decided", partition=1)
            producer.flush()
            yield one
        one.stop()


def fill(bootstrap: str, replicas: int = 3) -> None:
    """Create a topic, write JSON and nonsense to it, and have a group read half of it."""
    with Admin(bootstrap) as admin:
        admin.create_topics([NewTopic(TOPIC, 3, replicas), NewTopic("other", 2, replicas)])
    with Producer(bootstrap) as producer:
        for number in range(RECORDS):
            value = b'{"flight": {"number": %d}, "to": "OSL"}' % number
            producer.send(TOPIC, value, key=b"MK%d" % number, partition=0)
        producer.send(TOPIC, SCRIPT.encode(), key=SCRIPT.encode(), partition=1)
        producer.send(TOPIC, b"\x00\xff\xfe", partition=1, headers=[("h", b"\xff")])
        producer.flush()
    with Consumer(bootstrap, group_id=SCRIPT, auto_offset_reset="earliest") as consumer:
        consumer.assign([(TOPIC, 0)])
        consumer.seek((TOPIC, 0), RECORDS // 2)
        consumer.poll(timeout_ms=10_000, max_records=1)
