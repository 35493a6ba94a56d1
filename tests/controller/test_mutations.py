"""The quota of partitions created and deleted (KIP-599): who is refused, who waits afterwards."""

import pytest

from minikafka.controller.metadata import topics
from minikafka.controller.metadata.decision import Decision
from minikafka.controller.metadata.mutations import UNLIMITED, Allowance, allowance_of
from minikafka.protocol.api import ApiKey
from minikafka.protocol.control import messages as m
from minikafka.protocol.control import records as r
from minikafka.protocol.control.image import Delta
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from minikafka.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from minikafka.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from minikafka.protocol.messages.delete_topics import DeleteTopicsRequest
from minikafka.security.quotas import MUTATION, Quotas

from .conftest import FakeBroker, Lab
from .machine import Machine
from .test_quotas import entry

OVER = int(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
OLD = {ApiKey.CREATE_TOPICS: 5, ApiKey.DELETE_TOPICS: 4, ApiKey.CREATE_PARTITIONS: 2}
NEW = {ApiKey.CREATE_TOPICS: 6, ApiKey.DELETE_TOPICS: 5, ApiKey.CREATE_PARTITIONS: 3}
"""The first versions whose clients know the error."""


def new(name: str, partitions: int) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)


class Stage:
    """A controller's decisions, with the quota of one partition a second for user alice."""

    def __init__(self) -> None:
        self.machine = Machine(brokers_up=1)
        self.quotas = Quotas((MUTATION,))
        self.now_ms = 0
        record, delta = r.ClientQuotaRecord({"user": "alice"}, MUTATION.key, 1.0), Delta()
        self.machine.carry_out(Decision(None, [record]))
        self.machine.image.apply(record, self.machine.image.offset, delta)
        self.quotas.on_metadata(delta, self.machine.image)

    def allowance(
        self, key: ApiKey, version: int, principal: str = "User:alice", client_id: str = "app"
    ) -> Allowance:
        request = m.ForwardedRequest(int(key), version, b"", principal, 1, client_id=client_id)
        return allowance_of(self.quotas, request, self.now_ms)

    def create(
        self, *wanted: CreatableTopic, version: int = 7, validate_only: bool = False, seed: int = 0
    ) -> tuple[list[int], int]:
        """Create topics; return the error of each, and the throttle time."""
        request = CreateTopicsRequest(topics=list(wanted), validate_only=validate_only)
        decision = topics.create_topics(
            self.machine.cluster,
            request,
            lambda name: name.encode().ljust(16, bytes([seed])),
            self.allowance(ApiKey.CREATE_TOPICS, version),
        )
        answer = self.machine.carry_out(decision)
        return [topic.error_code for topic in answer.topics], answer.throttle_time_ms

    def change(self, key: ApiKey, version: int, name: str, count: int = 0) -> tuple[int, int]:
        """Delete a topic, or have it grow; return the error and the throttle time."""
        cluster, allowance = self.machine.cluster, self.allowance(key, version)
        if key is ApiKey.DELETE_TOPICS:
            asked = DeleteTopicsRequest(timeout_ms=1, topic_names=[name])
            gone = self.machine.carry_out(topics.delete_topics(cluster, asked, allowance))
            return gone.responses[0].error_code, gone.throttle_time_ms
        wanted = CreatePartitionsTopic(name=name, count=count)
        more = CreatePartitionsRequest(topics=[wanted], timeout_ms=1, validate_only=False)
        answer = self.machine.carry_out(topics.create_partitions(cluster, more, allowance))
        return answer.results[0].error_code, answer.throttle_time_ms


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_s_46_one_request_may_exceed_the_quota_then_the_next_is_refused(stage: Stage) -> None:
    assert stage.create(new("large", 100)) == ([0], 0)
    before = len(stage.machine.log)
    assert stage.create(new("small", 1)) == ([OVER], 89_000)
    assert stage.create(new("small", 1), version=6) == ([OVER], 89_000)
    assert len(stage.machine.log) == before
    assert stage.create(new("small", 1), version=5) == ([0], 90_000)
    stage.now_ms += 89_000
    assert stage.create(new("late", 1))[0] == [OVER]
    stage.now_ms += 1_001
    assert stage.create(new("late", 1)) == ([0], 0)


def test_of_one_request_topics_are_refused_once_there_is_a_debt(stage: Stage) -> None:
    wanted = [new("a", 11), new("b", 1), new("c", 1), new("d", 1)]
    assert stage.create(*wanted) == ([0, 0, OVER, OVER], 1_000)
    assert list(stage.machine.image.topic_ids) == ["a", "b"]


@pytest.mark.parametrize("key", [ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS])
def test_deletions_and_more_partitions_count_too(stage: Stage, key: ApiKey) -> None:
    """A topic that grows costs what is added, one that is deleted all that it has."""
    cost = 5 if key is ApiKey.DELETE_TOPICS else 15
    for name in ("a", "b", "c"):
        stage.create(new(name, 5))
    stage.now_ms += 60_000
    assert stage.change(key, NEW[key], "a", 20) == (0, 0)
    stage.create(new("rest", 12 - min(cost, 11)), version=5)
    code, throttle_ms = stage.change(key, NEW[key], "b", 20)
    assert (code, throttle_ms > 0) == (OVER, True)
    assert "b" in stage.machine.image.topic_ids
    old = stage.change(key, OLD[key], "b", 20)
    assert old == (0, throttle_ms + cost * 1000)


def test_what_changes_nothing_costs_nothing(stage: Stage) -> None:
    stage.create(new("t", 11))
    for _ in range(3):
        assert stage.create(new("t", 11)) == ([0], 0), "the same request again"
        assert stage.create(new("more", 50), validate_only=True) == ([0], 0)
        code = int(ErrorCode.INVALID_REPLICATION_FACTOR)
        wrong = CreatableTopic(name="wrong", num_partitions=9, replication_factor=3)
        assert stage.create(wrong) == ([code], 0)
    assert stage.create(new("u", 1)) == ([0], 0)
    assert stage.create(new("v", 1)) == ([OVER], 1_000)


def test_who_has_no_quota_is_not_limited(stage: Stage) -> None:
    create = ApiKey.CREATE_TOPICS
    stage.allowance(create, 7).spend(100)
    for _ in range(2):
        stage.allowance(create, 7, "User:bob").spend(100)
        stage.allowance(create, 7, "").spend(100)
    assert stage.allowance(ApiKey.ELECT_LEADERS, 2) is UNLIMITED


async def test_the_active_controller_refuses_a_client_over_its_quota(lab: Lab) -> None:
    broker: FakeBroker = await lab.broker(1)
    await broker.come_up()
    quota = entry({"user": "test", "client-id": None}, controller_mutation_rate=0.5)
    alter = AlterClientQuotasRequest(entries=[quota], validate_only=False)
    assert not (await broker.forward(ApiKey.ALTER_CLIENT_QUOTAS, 1, alter)).entries[0].error_code
    assert not (await broker.create_topic("large", 100, 1)).error_code
    request = CreateTopicsRequest(topics=[new("small", 1)])
    refused = await broker.forward(ApiKey.CREATE_TOPICS, 7, request)
    assert refused.topics[0].error_code == OVER
    assert refused.throttle_time_ms > 100_000
