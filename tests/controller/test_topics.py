"""Topics come, grow and go; where their replicas go."""

from collections import Counter
from typing import Any

import pytest

from minikafka.controller.metadata import topics
from minikafka.controller.metadata.forwarding import check_internal
from minikafka.controller.metadata.topic_names import check_topic_name
from minikafka.protocol.control.records import TOPIC
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.messages.create_partitions import CreatePartitionsAssignment
from minikafka.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from minikafka.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from minikafka.protocol.types import (
    AUDIT_TOPIC,
    INTERNAL_TOPICS,
    NO_LEADER,
    TRACE_TOPIC,
    ZERO_UUID,
)

from .machine import Machine, error, uuid


def test_a_topic_is_one_batch_and_everyone_alive_is_in_sync() -> None:
    machine = Machine(brokers_up=3)
    before = len(machine.log)
    result = machine.create("t", 2, 3, configs={"retention.ms": "1000"})
    assert error(result) == 0
    assert len(machine.log) - before == 1 + 1 + 2
    assert machine.image.configs[TOPIC, "t"] == {"retention.ms": "1000"}
    described = {each.name: each.value for each in result.configs}
    assert described["retention.ms"] == "1000"
    assert described["message.timestamp.type"] == "CreateTime"
    for state in machine.states("t"):
        assert sorted(state.isr) == [1, 2, 3]
        assert state.leader == state.replicas[0]
        assert (state.leader_epoch, state.partition_epoch) == (0, 0)


def test_numbers_left_open_are_the_clusters() -> None:
    machine = Machine(brokers_up=4)
    machine.create("t")
    assert [len(state.replicas) for state in machine.states("t")] == [3]


@pytest.mark.parametrize(
    ("how", "code", "words"),
    [
        ({"factor": 4, "partitions": 1}, ErrorCode.INVALID_REPLICATION_FACTOR, "3 brokers alive"),
        ({"factor": 0, "partitions": 1}, ErrorCode.INVALID_REPLICATION_FACTOR, "at least 1"),
        ({"factor": 1, "partitions": 0}, ErrorCode.INVALID_PARTITIONS, "at least 1"),
        ({"factor": 1, "partitions": 10_001}, ErrorCode.POLICY_VIOLATION, "ask for fewer"),
        ({"replicas": [(1,)], "partitions": 1}, ErrorCode.INVALID_REQUEST, "by hand"),
        ({"replicas": [(1,), (1, 2)]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "1 replicas"),
        ({"replicas": [(1, 1)]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "different"),
        ({"replicas": [()]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "has replicas"),
        ({"replicas": [(1, 8)]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "[8] are not registered"),
        ({"replicas": [(4,)]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "none of these"),
        ({"configs": {"retention.mss": "1"}}, ErrorCode.INVALID_CONFIG, "did you mean"),
        ({"configs": {"retention.ms": "x"}}, ErrorCode.INVALID_CONFIG, "retention.ms=x"),
        ({"configs": {"cleanup.policy": "x" * 40_000}}, ErrorCode.INVALID_CONFIG, "longer than"),
        ({"configs": {"retention.ms": None}}, ErrorCode.INVALID_CONFIG, "needs a value"),
    ],
)
def test_what_cannot_be_created_says_why(how: dict[str, Any], code: ErrorCode, words: str) -> None:
    machine = Machine(brokers_up=4)
    machine.fence(4)
    before = len(machine.log)
    result = machine.create("t", **how)
    assert error(result) == code
    assert words in result.error_message
    assert len(machine.log) == before


def test_one_bad_topic_does_not_spoil_its_neighbours() -> None:
    machine = Machine(brokers_up=1)
    names = ["a", "b", "b", "bad name", "c"]
    wanted = [CreatableTopic(name=n, num_partitions=1, replication_factor=1) for n in names]
    answer = machine.create_many(wanted)
    assert [error(each) for each in answer.topics] == [
        ErrorCode.NONE,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.NONE,
    ]
    assert list(machine.image.topic_ids) == ["a", "c"]


def test_a_partition_assigned_to_the_dead_as_well_is_led_by_the_living() -> None:
    machine = Machine(brokers_up=3)
    machine.fence(1)
    machine.create("t", replicas=[(1, 2, 3)])
    state = machine.state("t")
    assert (state.replicas, state.isr, state.leader) == ((1, 2, 3), (2, 3), 2)


def test_two_names_of_one_request_may_not_collide_either() -> None:
    machine = Machine(brokers_up=1)
    wanted = [
        CreatableTopic(name=n, num_partitions=1, replication_factor=1) for n in ("a.b", "a_b")
    ]
    answer = machine.create_many(wanted)
    codes = [error(each) for each in answer.topics]
    assert codes == [ErrorCode.NONE, ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert "'a.b'" in answer.topics[1].error_message


def test_a_name_is_taken_until_its_topic_is_gone() -> None:
    machine = Machine(brokers_up=1)
    machine.create("t", 1, 1, configs={"retention.ms": "1"})
    assert error(machine.create("t", 1, 1)) == ErrorCode.TOPIC_ALREADY_EXISTS
    old = machine.image.topic_ids["t"]
    assert machine.delete("t", "t", "x") == [
        ErrorCode.NONE,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert machine.image.configs == {}
    assert error(machine.create("t", 1, 1)) == 0
    assert machine.image.topic_ids["t"] != old


def test_a_repeated_request_finds_its_own_topic_and_answers_the_same() -> None:
    """The controller was killed after the commit and before the answer."""
    machine = Machine(brokers_up=3)
    topic = CreatableTopic(name="t", num_partitions=2, replication_factor=3)
    request = CreateTopicsRequest(topics=[topic])
    first = machine.carry_out(topics.create_topics(machine.cluster, request, lambda _: uuid(1)))
    length = len(machine.log)
    again = machine.carry_out(topics.create_topics(machine.cluster, request, lambda _: uuid(1)))
    assert first.topics[0].error_code == 0
    assert again == first
    assert len(machine.log) == length
    other = machine.carry_out(topics.create_topics(machine.cluster, request, lambda _: uuid(2)))
    assert error(other.topics[0]) == ErrorCode.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize("name", [AUDIT_TOPIC, TRACE_TOPIC])
def test_only_brokers_create_what_only_brokers_write(name: str) -> None:
    machine = Machine(brokers_up=1)
    assert error(machine.create(name, 1, 1)) == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert machine.image.topic_ids == {}
    machine.create_as_broker(name)
    assert list(machine.image.topic_ids) == [name]


@pytest.mark.parametrize("name", INTERNAL_TOPICS)
def test_records_of_internal_topics_neither_expire_nor_go_elsewhere(name: str) -> None:
    fates = {
        "minikafka.ttl.ms": "5",
        "minikafka.delay.target": "t",
        "minikafka.route.rules": '[{"to":"t"}]',
        "minikafka.deadletter.topic": "t",
    }
    for key, value in fates.items():
        with pytest.raises(ApiError, match=f"{key}: {name} is an internal topic"):
            check_internal(name, {key: value}, {})
        check_internal(name, {key: value}, {key: value})
        check_internal("t", {key: value}, {})


def test_the_audit_topic_takes_every_batch_of_the_audit() -> None:
    key, enough = "max.message.bytes", str(1 << 20)
    for after in ({key: "100"}, {}):
        with pytest.raises(ApiError, match="needs at least 1048576"):
            check_internal(AUDIT_TOPIC, after, {key: enough})
        check_internal(TRACE_TOPIC, after, {key: enough})
        check_internal(AUDIT_TOPIC, after, after)
    check_internal(AUDIT_TOPIC, {key: enough}, {key: "100"})


@pytest.mark.parametrize("name", [each for each in INTERNAL_TOPICS if each != TRACE_TOPIC])
def test_what_coordinators_keep_is_not_deleted(name: str) -> None:
    machine = Machine(brokers_up=1)
    machine.create_as_broker(name)
    machine.create("t", 1, 1)
    assert machine.delete(name, "t") == [ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.NONE]
    by_id = DeleteTopicState(topic_id=machine.image.topic_ids[name])
    request = DeleteTopicsRequest(topics=[by_id], timeout_ms=0)
    (result,) = machine.carry_out(topics.delete_topics(machine.cluster, request)).responses
    assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert "is internal and cannot be deleted" in (result.error_message or "")
    assert list(machine.image.topic_ids) == [name]


def test_topics_are_deleted_by_id_too() -> None:
    machine = Machine(brokers_up=1)
    machine.create("t", 1, 1)
    topic_id = machine.image.topic_ids["t"]
    request = DeleteTopicsRequest(
        topics=[
            DeleteTopicState(topic_id=topic_id),
            DeleteTopicState(topic_id=uuid(9)),
            DeleteTopicState(name="t", topic_id=topic_id),
            DeleteTopicState(name=None, topic_id=ZERO_UUID),
        ],
        timeout_ms=0,
    )
    answer = machine.carry_out(topics.delete_topics(machine.cluster, request))
    assert [(each.name, each.error_code) for each in answer.responses] == [
        ("t", ErrorCode.NONE),
        (None, ErrorCode.UNKNOWN_TOPIC_ID),
        ("t", ErrorCode.INVALID_REQUEST),
        (None, ErrorCode.INVALID_REQUEST),
    ]
    assert machine.image.topics == {}


def test_a_topic_grows_and_never_shrinks() -> None:
    machine = Machine(brokers_up=3)
    machine.create("t", 2, 2)
    before = machine.states("t")
    assert error(machine.grow("t", 5)) == 0
    assert machine.states("t")[:2] == before
    assert all(len(state.replicas) == 2 for state in machine.states("t"))
    for count in (5, 1):
        assert error(machine.grow("t", count)) == ErrorCode.INVALID_PARTITIONS
    assert error(machine.grow("x", 5)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    by_hand = [CreatePartitionsAssignment(broker_ids=[3, 1])]
    assert error(machine.grow("t", 7, by_hand)) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert error(machine.grow("t", 6, by_hand)) == 0
    assert machine.state("t", 5).replicas == (3, 1)
    machine.fence(1, 2)
    answer = machine.grow("t", 7)
    assert error(answer) == ErrorCode.INVALID_REPLICATION_FACTOR


@pytest.mark.parametrize("name", ["a", "A-b_c.9", "x" * 249, "__consumer_offsets"])
def test_names_that_are_allowed(name: str) -> None:
    check_topic_name(name, {"other": "other"})


@pytest.mark.parametrize(
    "name", ["", ".", "..", "x" * 250, "a b", "a/b", "ä", "a\0", "__cluster_metadata", "a.b"]
)
def test_names_that_are_not(name: str) -> None:
    with pytest.raises(ApiError) as refused:
        check_topic_name(name, {"a_b": "a_b"})
    assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("partitions", [1, 3, 6, 7, 12])
@pytest.mark.parametrize("count", [1, 3, 5])
def test_leaders_and_replicas_are_spread_evenly(count: int, partitions: int) -> None:
    machine = Machine(brokers_up=count)
    factor = min(3, count)
    for name in ("a", "b"):
        machine.create(name, partitions, factor)
    states = machine.states("a") + machine.states("b")
    leaders = Counter(state.leader for state in states)
    replicas = Counter(each for state in states for each in state.replicas)
    assert max(leaders.values()) - min(leaders[b] for b in range(1, count + 1)) <= 1
    assert max(replicas.values()) - min(replicas.values()) <= 2
    assert all(len(set(state.replicas)) == factor for state in states)


def test_the_heirs_of_a_lost_leader_are_spread_too() -> None:
    machine = Machine(brokers_up=3)
    machine.create("t", 12, 3)
    machine.fence(1)
    assert Counter(state.leader for state in machine.states("t")) == {2: 6, 3: 6}


def test_replicas_go_to_different_racks_while_there_are_some() -> None:
    machine = Machine()
    for broker_id, rack in enumerate(["a", "a", "b", "b", "c", "c"], 1):
        machine.come_up(broker_id, rack=rack)
    machine.create("t", 12, 3)
    for state in machine.states("t"):
        assert {machine.broker(each).rack for each in state.replicas} == {"a", "b", "c"}
    machine.create("wide", 3, 4)
    for state in machine.states("wide"):
        racks = Counter(machine.broker(each).rack for each in state.replicas)
        assert sorted(racks.values()) == [1, 1, 2]


def test_a_topic_created_while_nobody_lives_is_refused() -> None:
    machine = Machine(brokers_up=1)
    machine.fence(1)
    assert error(machine.create("t", 1, 1)) == ErrorCode.INVALID_REPLICATION_FACTOR


def test_new_partitions_without_the_living_have_no_leader() -> None:
    machine = Machine(brokers_up=2)
    machine.create("t", replicas=[(1, 2)])
    machine.fence(1)
    machine.fence(2)
    assert machine.state("t").leader == NO_LEADER


def test_a_new_broker_leads_no_more_of_a_topic_than_the_others() -> None:
    machine = Machine(brokers_up=3)
    machine.create("busy", 50, 3)
    machine.create("grows", 6, 3)
    machine.come_up(4)
    machine.create("fresh", 8, 4)
    fresh = machine.states("fresh")
    assert Counter(state.leader for state in fresh) == {1: 2, 2: 2, 3: 2, 4: 2}
    behind = Counter(state.replicas[:2] for state in fresh)
    assert set(behind.values()) == {1}, "nobody succeeds a leader in both of its partitions"
    machine.grow("grows", 12)
    assert Counter(state.leader for state in machine.states("grows")) == {1: 3, 2: 3, 3: 3, 4: 3}
