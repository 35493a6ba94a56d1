import itertools
from typing import Any

import pytest

from minikafka.aio import Admin, NewTopic, TopicPartition
from minikafka.client.errors import AdminError, ClientClosed, RequestTimedOut
from minikafka.protocol.api import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.runtime.runtime import SystemRuntime

from .fake_broker import Close, FakeCluster, FakeNode, Refuse
from .test_producer import first_times

RUNTIME = SystemRuntime("test")


async def test_topics_are_created_listed_described_and_deleted() -> None:
    async with FakeCluster(2) as cluster, Admin(cluster.bootstrap) as admin:
        made = await admin.create_topics([NewTopic("a", 2), NewTopic("b", 1)])
        assert made["a"].topic_id == (await admin.list_topics())[0].topic_id
        described = (await admin.describe_topics(["a"]))["a"]
        assert [one.partition for one in described.partitions] == [0, 1]
        assert {one.leader_id for one in described.partitions} == {1, 2}
        await admin.delete_topics(["a"])
        assert [topic.name for topic in await admin.list_topics()] == ["b"]


@pytest.mark.parametrize("version", [1, 12])
async def test_all_topics_are_described_by_one_request(version: int) -> None:
    async with FakeCluster(2) as cluster, Admin(cluster.bootstrap) as admin:
        cluster.versions[ApiKey.METADATA] = (0, version)
        cluster.create("b", 2)
        cluster.create("a")
        described = await admin.describe_topics()
        assert [(name, len(one.partitions)) for name, one in described.items()] == [
            ("a", 1),
            ("b", 2),
        ]


async def test_what_is_refused_is_named_and_the_rest_is_done() -> None:
    async with FakeCluster() as cluster, Admin(cluster.bootstrap) as admin:
        cluster.create("a")
        with pytest.raises(AdminError, match="a: TOPIC_ALREADY_EXISTS") as caught:
            await admin.create_topics([NewTopic("a"), NewTopic("b")])
        assert list(caught.value.errors) == ["a"]
        assert caught.value.errors["a"].code is ErrorCode.TOPIC_ALREADY_EXISTS
        assert "b" in cluster.topics
        with pytest.raises(AdminError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            await admin.describe_topics(["none"])
        with pytest.raises(AdminError, match="none: UNKNOWN_TOPIC_OR_PARTITION"):
            await admin.delete_topics(["none", "b"])
        assert "b" not in cluster.topics


async def test_a_lost_connection_is_tried_again() -> None:
    async with FakeCluster() as cluster:
        cluster.fault = first_times(3, Close(), ApiKey.CREATE_TOPICS)
        async with Admin(cluster.bootstrap, retry_backoff_ms=5) as admin:
            await admin.create_topics([NewTopic("a")])
        assert "a" in cluster.topics


async def test_what_a_quota_forbids_for_now_is_asked_again_when_it_may_be() -> None:
    """KIP-599: the error comes with a throttle time."""
    times: list[int] = []

    def refuse_two(node: FakeNode, api: int, request: Any) -> None:
        if api == ApiKey.CREATE_TOPICS:
            times.append(RUNTIME.monotonic_ms())
            if len(times) <= 2:
                raise Refuse(ErrorCode.THROTTLING_QUOTA_EXCEEDED)

    async with FakeCluster() as cluster, Admin(cluster.bootstrap, retry_backoff_ms=1) as admin:
        cluster.fault, cluster.throttle_ms[ApiKey.CREATE_TOPICS] = refuse_two, 150
        await admin.create_topics([NewTopic("a")])
        assert "a" in cluster.topics
    assert len(times) == 3
    assert min(after - before for before, after in itertools.pairwise(times)) >= 150


@pytest.mark.parametrize("version", [1, 3, 5, 6])
async def test_topics_are_deleted_by_name_in_every_version(version: int) -> None:
    async with FakeCluster() as cluster:
        cluster.versions[ApiKey.DELETE_TOPICS] = (1, version)
        cluster.create("a")
        async with Admin(cluster.bootstrap) as admin:
            await admin.delete_topics(["a"])
        assert cluster.topics == {}


async def test_validate_only_creates_nothing() -> None:
    async with FakeCluster() as cluster, Admin(cluster.bootstrap) as admin:
        await admin.create_topics([NewTopic("a", 3)], validate_only=True)
        assert cluster.topics == {}


async def test_a_call_has_a_deadline() -> None:
    async with FakeCluster() as cluster:
        cluster.fault = first_times(10_000, Close(), ApiKey.CREATE_TOPICS)
        async with Admin(cluster.bootstrap, retry_backoff_ms=5, default_api_timeout_ms=60) as admin:
            with pytest.raises(RequestTimedOut, match="not done in 60 ms"):
                await admin.create_topics([NewTopic("a")])


async def test_offsets_are_listed() -> None:
    async with FakeCluster() as cluster, Admin(cluster.bootstrap) as admin:
        cluster.create("a")
        found = await admin.list_offsets({TopicPartition("a", 0): -1})
        assert found[TopicPartition("a", 0)].offset == 0


async def test_a_closed_admin_says_so() -> None:
    async with FakeCluster() as cluster:
        admin = Admin(cluster.bootstrap)
        with pytest.raises(ClientClosed, match="not started"):
            await admin.list_topics()
        await admin.start()
        await admin.close()
        with pytest.raises(ClientClosed):
            await admin.list_topics()


async def test_an_old_broker_describes_the_cluster_by_metadata() -> None:
    async with FakeCluster(2) as cluster, Admin(cluster.bootstrap) as admin:
        described = await admin.describe_cluster()
        assert described.cluster_id == "fake"
        assert [broker.node_id for broker in described.brokers] == [1, 2]
