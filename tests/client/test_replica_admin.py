"""Replicas, as an admin asks their brokers about them."""

from typing import Any

import pytest

from minikafka.aio import Admin, TopicPartition
from minikafka.client.admin.replica_types import ReplicaRole, ReplicaState
from minikafka.client.errors import UnsupportedVersion
from minikafka.protocol.api import ApiKey
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.messages import describe_replicas as dr

from . import fake_broker
from .fake_broker import FakeCluster, FakeNode

A0 = TopicPartition("a", 0)


def describe(node: FakeNode, request: Any) -> dr.DescribeReplicasResponse:
    """Every replica is there, and led by broker 1."""
    role = ReplicaRole.LEADER if node.node_id == 1 else ReplicaRole.FOLLOWER
    return dr.DescribeReplicasResponse(
        topics=[
            dr.TopicResponse(
                name=topic.name,
                partitions=[
                    dr.PartitionResponse(partition_index=index, role=role, log_end_offset=index)
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )


@pytest.fixture
def spoken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fake_broker.HANDLERS, ApiKey.DESCRIBE_REPLICAS, describe)


def code_of(answer: ReplicaState | ApiError) -> ErrorCode | None:
    return answer.code if isinstance(answer, ApiError) else None


@pytest.mark.usefixtures("spoken")
async def test_each_broker_is_asked_for_its_own_in_requests_of_a_bounded_size() -> None:
    many = 2 * dr.MOST_REPLICAS + 1
    wanted = {TopicPartition("a", n): [2, 1] if n else [1] for n in range(many)}
    async with FakeCluster(2) as cluster, Admin(cluster.bootstrap) as admin:
        found = await admin.describe_replicas(wanted)
        asked = [
            (node_id, [len(topic.partition_indexes) for topic in request.topics])
            for node_id, key, request in cluster.requests
            if key == ApiKey.DESCRIBE_REPLICAS
        ]
    most = [dr.MOST_REPLICAS]
    assert sorted(asked) == [(1, [1]), (1, most), (1, most), (2, most), (2, most)]
    assert list(found) == list(wanted)
    assert list(found[A0]) == [1]
    last = found[TopicPartition("a", many - 1)]
    assert list(last) == [2, 1]
    told = [each for each in last.values() if isinstance(each, ReplicaState)]
    assert [(each.broker_id, each.role) for each in told] == [
        (2, ReplicaRole.FOLLOWER),
        (1, ReplicaRole.LEADER),
    ]
    assert [each.log_end_offset for each in told] == [many - 1] * 2


@pytest.mark.usefixtures("spoken")
async def test_a_broker_that_is_not_there_keeps_nothing_from_the_others() -> None:
    async with FakeCluster(3) as cluster, Admin(cluster.bootstrap) as admin:
        await cluster.nodes[2].stop()
        cluster.nodes[3].freeze()
        found = await admin.describe_replicas({A0: [1, 2, 3, 9]}, timeout_ms=300)
        cluster.nodes[3].thaw()
    assert {broker: code_of(answer) for broker, answer in found[A0].items()} == {
        1: None,
        2: ErrorCode.NETWORK_EXCEPTION,
        3: ErrorCode.REQUEST_TIMED_OUT,
        9: ErrorCode.NETWORK_EXCEPTION,
    }


async def test_another_cluster_is_said_not_to_know_the_question() -> None:
    async with FakeCluster() as cluster, Admin(cluster.bootstrap) as admin:
        with pytest.raises(UnsupportedVersion, match="it is minikafka's own"):
            await admin.describe_replicas({A0: [1]})
        assert await admin.describe_replicas({}) == {}
