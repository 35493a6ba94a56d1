"""min.insync.replicas=2 with two of three brokers down: refused, or accepted and not yet seen."""

import pytest

from minikafka import Admin, Consumer, ErrorCode, NewTopic, TopicPartition

from ..support.cluster import Cluster, wait_until
from ..support.wire import produce
from .conftest import partition_of, wait_for_full_isr

pytestmark = pytest.mark.slow

TOPIC = "guarded"
PLACE = TopicPartition(TOPIC, 0)


def visible(bootstrap: str) -> list[bytes | None]:
    """What a new consumer reads up to the end it is told of."""
    with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        end = consumer.end_offsets([PLACE])[PLACE]
        consumer.assign([PLACE])
        values: list[bytes | None] = []
        while consumer.position(PLACE) < end:
            values += [record.value for record in consumer.poll(timeout_ms=1000)]
        # One more look: nothing above the high watermark may show up.
        return values + [record.value for record in consumer.poll(timeout_ms=300)]


def test_below_min_isr_nothing_new_counts_as_committed(cluster: Cluster, admin: Admin) -> None:
    admin.create_topics([NewTopic(TOPIC, 1, 3, configs={"min.insync.replicas": "2"})])
    leader = partition_of(admin, TOPIC).leader_id
    survivor = cluster.broker(leader)
    assert produce(survivor.address, TOPIC, [b"before"], acks=-1).error_code == ErrorCode.NONE
    others = [broker for broker in cluster.brokers if broker is not survivor]
    for broker in others:
        broker.kill()
    with Admin(survivor.address) as near:
        wait_until(lambda: partition_of(near, TOPIC).isr == (leader,))

    refused = produce(survivor.address, TOPIC, [b"refused"], acks=-1)
    assert refused.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    accepted = produce(survivor.address, TOPIC, [b"accepted"], acks=1)
    assert (accepted.error_code, accepted.base_offset) == (ErrorCode.NONE, 1)
    assert visible(survivor.address) == [b"before"]

    others[0].start()
    wait_until(lambda: visible(survivor.address) == [b"before", b"accepted"])
    others[1].start()
    wait_for_full_isr(admin, TOPIC)
    assert produce(survivor.address, TOPIC, [b"after"], acks=-1).base_offset == 2
