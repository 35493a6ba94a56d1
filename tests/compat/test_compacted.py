"""Compacted topics through every client: offsets that are gone, and batches without records."""

from pathlib import Path

import pytest

from minikafka import Producer
from minikafka.protocol.records.record_batch import headers
from minikafka.protocol.records.records import records

from ..support.cluster import Cluster, wait_until
from .agent import Agent, Agents
from .clients import ALL

pytestmark = pytest.mark.slow
every_client = pytest.mark.parametrize("client", ALL)
CONFIGS = {
    "cleanup.policy": "compact",
    "segment.bytes": "300",
    "min.cleanable.dirty.ratio": "0",
    "delete.retention.ms": "0",
}
KEYS = 5

Found = list[tuple[int, bytes | None, bytes | None]]


def write(bootstrap: str, topic: str) -> None:
    """Records of few keys one by one, tombstones, and transactions, most of them aborted."""
    with Producer(bootstrap, enable_idempotence=False) as producer:
        for number in range(120):
            value = None if number % 9 == 3 else b"%d" % number * 20
            producer.send(topic, value, key=b"k%d" % (number % KEYS), partition=0).result()
    for each in range(3):
        with Producer(bootstrap, transactional_id=f"{topic}-{each}") as producer:
            for number in range(6):
                producer.begin_transaction()
                producer.send(topic, b"t" * 60, key=b"t%d" % each, partition=0).result()
                if number % 3:
                    producer.abort_transaction()
                else:
                    producer.commit_transaction()
    with Producer(bootstrap, enable_idempotence=False) as producer:
        for number in range(20):
            producer.send(topic, b"%d" % number * 40, key=b"last", partition=0).result()


def on_disk(directory: Path) -> tuple[Found, int]:
    """The records of all segments but the newest, and how many segments are without any."""
    found: Found = []
    empty = 0
    for path in sorted(directory.glob("*.log"))[:-1]:
        data = path.read_bytes()
        count = len(found)
        for position, header in headers(data):
            if not header.is_control:
                found += [(r.offset, r.key, r.value) for r in records(data, position)]
            elif header.record_count:
                count -= 1
        empty += count == len(found)
    return found, empty


@pytest.fixture(scope="module")
def compacted(cluster: Cluster, agents: Agents) -> tuple[str, int]:
    """A topic that is compacted as far as it will be, and how many records it has."""
    topic = "compacted-for-all"
    with agents.taken("minikafka", cluster.bootstrap) as (agent,):
        agent.ask("create_topics", topics=[{"name": topic, "partitions": 1, "configs": CONFIGS}])
        write(cluster.bootstrap, topic)

        def settled() -> bool:
            try:
                found, empty = on_disk(cluster.broker(1).data / f"{topic}-0")
            except FileNotFoundError:  # A segment was just removed.
                return False
            keys = [key for _, key, _ in found]
            return len(keys) == len(set(keys)) == KEYS + 3 + 1 and empty > 2

        wait_until(settled)
        found = agent.consume(topic, 200, partitions=1, wait_s=5)
    return topic, len(found)


@every_client
def test_a_compacted_topic_is_read_to_its_end(
    agent: Agent, compacted: tuple[str, int], client: str
) -> None:
    topic, count = compacted
    found = agent.consume(topic, count, partitions=1, fetch_bytes=1_000)
    newest = {one.key: one.value for one in found}
    assert len(found) == count
    assert newest[b"last"] == b"19" * 40
    assert len([key for key in newest if key and key[:1] == b"t"]) == 3
