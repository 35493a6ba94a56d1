"""Topics, settings and records administered by every client."""

import pytest

from minikafka import ErrorCode
from minikafka.protocol.api import ApiKey

from .agent import Agent, Record, Refused
from .clients import ALL, having, needs

pytestmark = pytest.mark.slow
every_client = pytest.mark.parametrize("client", ALL)


@every_client
def test_topics_are_made_grown_and_deleted(agent: Agent, topic: str) -> None:
    new = {"name": topic, "partitions": 2, "configs": {"retention.ms": "3600000"}}
    agent.ask("create_topics", topics=[new])
    assert topic in agent.ask("list_topics")
    assert agent.ask("partitions", topic=topic) == 2
    agent.ask("create_partitions", topic=topic, count=5)
    assert agent.ask("partitions", topic=topic) == 5
    assert agent.ask("describe_config", kind="topic", name=topic)["retention.ms"] == "3600000"
    agent.ask("delete_topics", names=[topic])
    assert topic not in agent.ask("list_topics")


@every_client
def test_what_cannot_be_made_is_refused_in_kafkas_words(agent: Agent, topic: str) -> None:
    agent.ask("create_topics", topics=[{"name": topic, "partitions": 1}])
    for new, code in (
        ({"name": topic, "partitions": 1}, ErrorCode.TOPIC_ALREADY_EXISTS),
        (
            {"name": f"{topic}-more", "partitions": 1, "replicas": 3},
            ErrorCode.INVALID_REPLICATION_FACTOR,
        ),
        ({"name": "not a name!", "partitions": 1}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        (
            {"name": f"{topic}-odd", "partitions": 1, "configs": {"retention.ms": "long"}},
            ErrorCode.INVALID_CONFIG,
        ),
    ):
        with pytest.raises(Refused) as refused:
            agent.ask("create_topics", topics=[new])
        assert refused.value.code == code, new
    assert agent.ask("partitions", topic=topic) == 1


@needs(ApiKey.ALTER_CONFIGS)
@every_client
def test_settings_of_a_topic_and_of_a_broker(agent: Agent, topic: str) -> None:
    agent.ask("create_topics", topics=[{"name": topic, "partitions": 1}])
    change = {"kind": "topic", "name": topic, "key": "retention.ms", "value": "7200000"}
    agent.ask("alter_config", **change)
    assert agent.ask("describe_config", kind="topic", name=topic)["retention.ms"] == "7200000"
    with pytest.raises(Refused) as refused:
        agent.ask("alter_config", **{**change, "value": "much"})
    assert refused.value.code == ErrorCode.INVALID_CONFIG
    assert agent.ask("describe_config", kind="broker", name="1")["num.partitions"] == "3"


@needs(ApiKey.ALTER_CONFIGS)
@pytest.mark.parametrize("client", having("alter config in full"))
def test_settings_replaced_as_a_whole(agent: Agent, topic: str) -> None:
    """AlterConfigs, the old way: what is not named goes back to its default."""
    configs = {"max.message.bytes": "5000"}
    agent.ask("create_topics", topics=[{"name": topic, "partitions": 1, "configs": configs}])
    agent.ask("alter_config_in_full", kind="topic", name=topic, key="retention.ms", value="7200000")
    found = agent.ask("describe_config", kind="topic", name=topic)
    assert found["retention.ms"] == "7200000"


@needs(ApiKey.DELETE_RECORDS)
@every_client
def test_records_are_deleted_from_the_beginning(agent: Agent, topic: str) -> None:
    agent.ask("create_topics", topics=[{"name": topic, "partitions": 1}])
    sent = [Record(0, None, b"%d" % n, (), 1000 + n) for n in range(20)]
    agent.produce(topic, sent)
    assert agent.ask("delete_records", topic=topic, partition=0, offset=15) == 15
    assert agent.ask("ends", topic=topic, partitions=1) == [[15, 20]]
    assert agent.consume(topic, 5, partitions=1) == sent[15:]
    with pytest.raises(Refused) as refused:
        agent.ask("delete_records", topic=topic, partition=0, offset=21)
    assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


@needs(ApiKey.DESCRIBE_LOG_DIRS)
@pytest.mark.parametrize("client", having("log dirs"))
def test_sizes_of_logs(agent: Agent, topic: str) -> None:
    agent.ask("create_topics", topics=[{"name": topic, "partitions": 2}])
    agent.produce(topic, [Record(1, None, bytes(50_000), (), 1000)])
    assert 50_000 < agent.ask("log_dirs", topic=topic, partitions=2) < 51_000
