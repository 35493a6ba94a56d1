"""The leader's lease: when it is held, and what leaves a broker without it."""

import pytest

from minikafka.broker.replica.lease import LeaderLease
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

from .conftest import MakeBroker
from .edge_support import TOPIC, FakePartition, batch


def test_where_leases_are_off_everything_is_allowed() -> None:
    lease = LeaderLease()
    assert lease.is_held(1 << 40)
    lease.on_heartbeat_answered(5, 0)
    assert not lease.is_required
    assert lease.is_held(1 << 40)


def test_a_lease_runs_from_the_sending_of_the_heartbeat() -> None:
    lease = LeaderLease()
    lease.on_heartbeat_answered(100, 50)
    assert [lease.is_held(now_ms) for now_ms in (100, 149, 150)] == [True, True, False]


def test_a_late_answer_does_not_shorten_a_lease() -> None:
    lease = LeaderLease()
    lease.on_heartbeat_answered(100, 50)
    lease.on_heartbeat_answered(90, 50)
    lease.on_heartbeat_answered(120, -1)
    assert lease.is_held(149)
    assert not lease.is_held(150)


def test_whoever_gave_it_up_needs_the_answer_to_a_later_heartbeat() -> None:
    lease = LeaderLease()
    lease.on_heartbeat_answered(100, 50)
    lease.give_up(110)
    assert not lease.is_held(111)
    lease.on_heartbeat_answered(110, 50)
    assert not lease.is_held(111)
    lease.on_heartbeat_answered(111, 50)
    assert lease.is_held(112)


def test_nothing_is_held_while_the_metadata_is_loaded_anew() -> None:
    lease = LeaderLease()
    lease.on_heartbeat_answered(100, 50)
    lease.is_blind = True
    assert not lease.is_held(101)


def produce_request(acks: int) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=batch(b"v"))
    topic = TopicProduceData(name=TOPIC, partition_data=[data])
    return ProduceRequest(acks=acks, timeout_ms=100, topic_data=[topic])


def fetch_request() -> FetchRequest:
    asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100)
    return FetchRequest(
        max_wait_ms=0, min_bytes=1, topics=[FetchTopic(topic=TOPIC, partitions=[asked])]
    )


@pytest.mark.parametrize("request_", [produce_request(1), fetch_request()])
async def test_an_answer_that_rests_on_a_lease_leaves_only_while_it_is_held(
    make_broker: MakeBroker, request_: object
) -> None:
    """The partition here decides without looking, as one does that stood still afterwards."""
    broker = make_broker(FakePartition(0))
    lease = broker.edge.lease
    now_ms = broker.edge.runtime.monotonic_ms()
    lease.on_heartbeat_answered(now_ms, 60_000)
    client = broker.connect()
    assert client.ask(request_, 9)
    lease.until_ms = now_ms - 1
    sent = len(client.transport.sent)
    client.send(request_, 9)
    assert client.transport.is_aborted
    assert len(client.transport.sent) == sent


async def test_an_error_or_acks_all_rests_on_no_lease(make_broker: MakeBroker) -> None:
    partition = FakePartition(0)
    broker = make_broker(partition)
    broker.edge.lease.is_required = True
    client = broker.connect()
    answer = client.ask(produce_request(-1), 9)
    assert answer.responses[0].partition_responses[0].error_code == 0
    partition.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    answer = client.ask(produce_request(1), 9)
    assert answer.responses[0].partition_responses[0].error_code == partition.error
