"""Lag, as an admin asks leaders about it: ours, and those of other clusters."""

from typing import Any

import pytest

from minikafka.aio import Admin, TopicPartition
from minikafka.client.admin import topics
from minikafka.client.admin.lag_types import PartitionLag
from minikafka.protocol.api import ApiKey
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.messages import describe_lag as dl

from . import fake_broker
from .fake_broker import FakeCluster, FakeNode

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def code_of(answer: PartitionLag | ApiError) -> ErrorCode | None:
    return answer.code if isinstance(answer, ApiError) else None


async def test_of_a_cluster_that_knows_no_lag_the_offsets_are_told() -> None:
    async with FakeCluster(2) as cluster, Admin(cluster.bootstrap) as admin:
        topic = cluster.create("a", 2)
        topic.partitions[0].log_end_offset = 10
        found = await admin.describe_lag({A0: 4, A1: 3, B0: 0})
    assert list(found) == [A0, A1, B0]
    assert found[A0] == PartitionLag(4, 10, None, None, None, None, False)
    lags = [one.offsets for one in found.values() if isinstance(one, PartitionLag)]
    assert lags == [6, 0], "never below zero"
    assert code_of(found[B0]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_each_leader_is_asked_in_requests_of_a_bounded_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def answer(node: FakeNode, request: Any) -> dl.DescribeLagResponse:
        return dl.DescribeLagResponse(
            topics=[
                dl.TopicLag(
                    name=topic.name,
                    partitions=[
                        dl.PartitionLag(
                            partition_index=one.partition_index,
                            high_watermark=100,
                            last_stable_offset=90,
                            records=one.committed_offset and 7,
                            size_bytes=one.committed_offset and 70,
                            oldest_timestamp=-1,
                            is_estimated=True,
                        )
                        for one in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    monkeypatch.setitem(fake_broker.HANDLERS, ApiKey.DESCRIBE_LAG, answer)
    many = dl.MOST_PARTITIONS + 2
    async with FakeCluster() as cluster, Admin(cluster.bootstrap) as admin:
        cluster.create("a", many)
        offsets = {TopicPartition("a", n): n for n in range(many)}
        found = await admin.describe_lag(offsets)
        sizes = [len(one.topics[0].partitions) for one in cluster.sent(ApiKey.DESCRIBE_LAG)]
    assert sizes == [dl.MOST_PARTITIONS, 2]
    assert list(found) == list(offsets)
    assert found[A0] == PartitionLag(0, 100, 90, 0, 0, 0.0, True)
    assert found[A1] == PartitionLag(1, 100, 90, 7, 70, None, True), "records without timestamps"


async def test_of_many_topics_the_leaders_come_with_the_answer_about_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(topics, "MOST_NAMED", 1)
    async with FakeCluster(2) as cluster, Admin(cluster.bootstrap) as admin:
        cluster.create("a", 2)
        cluster.create("not asked for")
        found = await admin.describe_lag({A0: 0, A1: 0, B0: 0})
    assert list(found) == [A0, A1, B0]
    assert [code_of(one) for one in found.values()] == [
        None,
        None,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


async def test_a_leader_that_is_not_there_keeps_nothing_from_the_others() -> None:
    async with FakeCluster(3) as cluster, Admin(cluster.bootstrap) as admin:
        cluster.create("a", 3)
        cluster.nodes[3].freeze()
        found = await admin.describe_lag(
            {TopicPartition("a", n): 0 for n in range(3)}, timeout_ms=300
        )
        cluster.nodes[3].thaw()
    assert [code_of(one) for one in found.values()] == [None, None, ErrorCode.REQUEST_TIMED_OUT]
