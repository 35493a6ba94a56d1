"""Records through every client: byte for byte, compressed, small, large, too large, many topics."""

import pytest

from minikafka import ErrorCode

from ..support.cluster import Cluster
from . import javascript
from .agent import Agent, Agents, Record, Refused
from .clients import ALL
from .payloads import COMPRESSIONS, PARTITIONS, payloads

pytestmark = pytest.mark.slow
every_client = pytest.mark.parametrize("client", ALL)
LIMIT = 200_000
TOPICS = 210


def make(agent: Agent, topic: str, partitions: int = PARTITIONS, **configs: str) -> None:
    agent.ask(
        "create_topics", topics=[{"name": topic, "partitions": partitions, "configs": configs}]
    )


def sent_by(agent: Agent, seed: int, count: int = 120) -> list[Record]:
    return [Record(*one) for one in payloads(seed, count)]


def of_partition(records: list[Record], partition: int) -> list[Record]:
    return [one for one in records if one.partition == partition]


def assert_same(found: list[Record], sent: list[Record]) -> None:
    for partition in range(PARTITIONS):
        assert of_partition(found, partition) == of_partition(sent, partition)


@pytest.mark.parametrize("compression", COMPRESSIONS)
@every_client
def test_records_come_back_byte_for_byte(agent: Agent, topic: str, compression: str) -> None:
    if (agent.client, compression) == ("platformatic", "zstd"):
        javascript.skip_if_older(javascript.ZSTD_FROM)
    make(agent, topic)
    sent = sent_by(agent, 41)
    offsets = agent.produce(topic, sent, compression=compression)
    for partition in range(PARTITIONS):
        given = [offset for index, offset in offsets if index == partition]
        assert given == list(range(len(given)))
    assert_same(agent.consume(topic, len(sent), partitions=PARTITIONS), sent)


@pytest.mark.parametrize("acks", [0, 1])
@every_client
def test_records_sent_without_waiting_for_replicas(agent: Agent, topic: str, acks: int) -> None:
    make(agent, topic)
    sent = sent_by(agent, 42, 60)
    agent.produce(topic, sent, acks=acks)
    assert_same(agent.consume(topic, len(sent), partitions=PARTITIONS), sent)


@every_client
def test_an_idempotent_producer(agent: Agent, topic: str) -> None:
    make(agent, topic)
    sent = sent_by(agent, 43)
    agent.produce(topic, sent, idempotent=True)
    assert_same(agent.consume(topic, len(sent), partitions=PARTITIONS), sent)


@every_client
def test_a_topic_is_made_by_writing_to_it(agent: Agent, topic: str) -> None:
    sent = sent_by(agent, 44, 30)
    agent.produce(topic, sent)
    assert_same(agent.consume(topic, len(sent), partitions=PARTITIONS), sent)


@every_client
def test_offsets_at_both_ends_and_by_time(agent: Agent, topic: str) -> None:
    make(agent, topic, 2)
    agent.produce(topic, [Record(0, None, b"%d" % n, (), 5000 + 10 * n) for n in range(50)])
    assert agent.ask("ends", topic=topic, partitions=2) == [[0, 50], [0, 0]]
    for ms, offset in ((5000, 0), (5101, 11), (5490, 49)):
        assert agent.ask("offset_for_time", topic=topic, partition=0, ms=ms) == offset


@every_client
def test_a_large_record_and_one_that_is_too_large(agent: Agent, topic: str) -> None:
    """Close to max.message.bytes; above it the broker's own refusal reaches the user."""
    make(agent, topic, 1, **{"max.message.bytes": str(LIMIT)})
    close = Record(0, b"close", bytes(LIMIT - 200), (), 1000)
    agent.produce(topic, [close])
    with pytest.raises(Refused) as refused:
        agent.produce(topic, [Record(0, b"over", bytes(LIMIT + 1), (), 1000)])
    assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE
    assert agent.consume(topic, 1, partitions=1) == [close]


@every_client
def test_a_record_larger_than_what_is_fetched_at_once(agent: Agent, topic: str) -> None:
    make(agent, topic, 1)
    sent = [Record(0, None, bytes([n]) * 900_000, (), 1000 + n) for n in range(3)]
    for one in sent:
        agent.produce(topic, [one])
    found = agent.consume(topic, len(sent), partitions=1, fetch_bytes=100_000)
    assert found == sent


@pytest.fixture(scope="module")
def many(cluster: Cluster, agents: Agents) -> list[str]:
    names = [f"many-{number:03}" for number in range(TOPICS)]
    with agents.taken("confluent-kafka", cluster.bootstrap) as (agent,):
        agent.ask("create_topics", topics=[{"name": name, "partitions": 2} for name in names])
    return names


@every_client
def test_many_topics(agent: Agent, many: list[str], client: str) -> None:
    found = set(agent.ask("list_topics"))
    assert found.issuperset(many)
    mine = many[ALL.index(client) :: 35]
    for name in mine:
        sent = Record(1, client.encode(), name.encode(), (), 1000)
        agent.produce(name, [sent])
        assert agent.consume(name, 1, partitions=2) == [sent]
