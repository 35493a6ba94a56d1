"""DescribeReplicas: each broker tells of its own copies, and an admin puts them together."""

from minikafka.aio import TopicPartition
from minikafka.broker.api.slices import ITEMS_AT_ONCE
from minikafka.client.admin.replica_types import (
    EpochStart,
    FollowerState,
    ReplicaRole,
    ReplicaState,
    UndecidedTransaction,
)
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.messages.describe_replicas import (
    MOST_REPLICAS,
    MOST_TRANSACTIONS,
    DescribeReplicasRequest,
    TopicRequest,
)
from minikafka.protocol.records.record_batch import BatchBuilder
from minikafka.protocol.types import uuid_to_text
from tests.simulation.stage import Stage, staged

from .conftest import MakeBroker
from .edge_support import TOPIC
from .test_long_requests import turns_until_answered

T0 = TopicPartition("t", 0)
Told = dict[int, ReplicaState | ApiError]


async def describe(stage: Stage, *brokers: int, timeout_ms: int = 2_000) -> Told:
    """Partition 0 of topic t, as these brokers have it."""
    asked = {T0: brokers or (1, 2, 3)}
    found = await stage.admin(lambda admin: admin.describe_replicas(asked, timeout_ms=timeout_ms))
    return found[T0]


async def states(stage: Stage, *brokers: int) -> list[ReplicaState]:
    found = (await describe(stage, *brokers)).values()
    return [each for each in found if isinstance(each, ReplicaState)]


def error(answer: ReplicaState | ApiError) -> ErrorCode:
    assert isinstance(answer, ApiError), answer
    return answer.code


def request(*topics: tuple[str, list[int]]) -> DescribeReplicasRequest:
    return DescribeReplicasRequest(
        topics=[TopicRequest(name=name, partition_indexes=indexes) for name, indexes in topics]
    )


@staged(brokers=3)
async def test_leader_and_followers_tell_how_they_stand(stage: Stage) -> None:
    await stage.create_topic("t", [[1, 2, 3]])
    await stage.send("t", b"a", b"b", b"c")
    await stage.sleep(1.0)
    leader, *followers = await states(stage)
    size = stage.partition(1, "t").log.size_bytes
    directory = stage.broker(1).parts.edge.partitions.store.directories[0]
    assert leader == ReplicaState(
        broker_id=1,
        role=ReplicaRole.LEADER,
        leader_id=1,
        leader_epoch=0,
        log_start_offset=0,
        log_end_offset=3,
        high_watermark=3,
        last_stable_offset=3,
        size_bytes=size,
        segment_count=1,
        directory_id=uuid_to_text(directory.meta.directory_id),
        epochs=(EpochStart(0, 0),),
        isr=(1, 2, 3),
        followers=(FollowerState(2, 3, 3, 0), FollowerState(3, 3, 3, 0)),
    )
    assert size > 0
    for follower, broker_id in zip(followers, (2, 3), strict=True):
        assert follower.broker_id == broker_id
        assert follower.role is ReplicaRole.FOLLOWER
        assert (follower.leader_id, follower.leader_epoch) == (1, 0)
        assert (follower.log_end_offset, follower.high_watermark) == (3, 3)
        assert follower.epochs == leader.epochs
        assert (follower.isr, follower.followers) == ((), ())
        assert follower.directory_id != leader.directory_id


@staged(brokers=3, broker={"replica.lag.time.max.ms": "4000"})
async def test_a_follower_that_is_cut_off_falls_behind_before_the_eyes_of_all(
    stage: Stage,
) -> None:
    await stage.create_topic("t", [[1, 2, 3]])
    await stage.send("t", b"a")
    await stage.sleep(1.0)
    stage.cut(1, 3)
    behind: list[tuple[int, ...]] = []
    for value in (b"b", b"c"):
        await stage.send("t", value, acks="1")
        await stage.sleep(1.0)
        (leader,) = await states(stage, 1)
        (near, far) = leader.followers
        assert (near.log_end_offset, near.behind_ms) == (leader.log_end_offset, 0)
        assert far.log_end_offset == 1
        behind.append((leader.high_watermark, leader.log_end_offset, far.behind_ms // 1000))
    assert behind == [(1, 2, 1), (1, 3, 2)], "it holds the high watermark back while it is in sync"
    await stage.until(lambda: stage.state("t").isr == (1, 2), "it left the ISR")
    await stage.sleep(1.0)
    (leader,) = await states(stage, 1)
    (near, far) = leader.followers
    assert (leader.isr, leader.high_watermark) == ((1, 2), 3)
    assert (far.log_end_offset, far.behind_ms // 1000) == (None, 5)
    stage.heal()


@staged(brokers=3)
async def test_a_failover_shows_in_the_epochs_and_in_the_place_of_the_dead(stage: Stage) -> None:
    await stage.create_topic("t", [[1, 2, 3]])
    await stage.send("t", b"a", b"b")
    stage.kill(1)
    await stage.until(lambda: stage.state("t").leader == 2, "another leads")
    await stage.send("t", b"c")
    await stage.sleep(1.0)
    found = await describe(stage)
    assert list(found) == [1, 2, 3]
    assert error(found[1]) is ErrorCode.NETWORK_EXCEPTION
    leader, follower = (each for each in found.values() if isinstance(each, ReplicaState))
    assert leader.role is ReplicaRole.LEADER
    assert leader.isr == (2, 3)
    assert leader.leader_epoch == follower.leader_epoch > 0
    assert leader.epochs == (EpochStart(0, 0), EpochStart(leader.leader_epoch, 2))
    assert follower.epochs == leader.epochs
    dead, alive = leader.followers
    assert (dead.broker_id, dead.log_end_offset) == (1, None)
    assert alive == FollowerState(3, 3, 3, 0)


@staged(brokers=3)
async def test_a_broker_that_hangs_is_not_waited_for(stage: Stage) -> None:
    await stage.create_topic("t", [[1, 2, 3]])
    await describe(stage)
    stage.pause(2)
    before = stage.now
    found = await describe(stage, timeout_ms=500)
    assert stage.now - before < 1.0
    assert error(found[2]) is ErrorCode.REQUEST_TIMED_OUT
    assert isinstance(found[1], ReplicaState)
    assert isinstance(found[3], ReplicaState)
    stage.resume(2)


@staged(brokers=2)
async def test_transactions_that_hold_readers_back_are_told_oldest_first(stage: Stage) -> None:
    await stage.create_topic("t", [[1, 2]])
    await stage.send("t", b"a")
    many = MOST_TRANSACTIONS + 2
    log = stage.partition(1, "t").log
    for number in range(many):
        builder = BatchBuilder(is_transactional=True)
        builder.append(1_000 + number, b"k", b"v")
        batch = builder.build(producer_id=70 + number, producer_epoch=number, base_sequence=0)
        partition = stage.partition(1, "t")
        attempt = partition.needs_verification(70 + number, number, 0)
        appended = partition.append_as_leader(
            memoryview(batch), acks=-1, wall_ms=5_000, guard=attempt
        )
        assert not appended.error
    await stage.until(lambda: log.log_end_offset == 1 + many, "written")
    await stage.sleep(1.0)
    for replica in await states(stage, 1, 2):
        assert (replica.high_watermark, replica.last_stable_offset) == (1 + many, 1)
        assert replica.open_transactions == tuple(
            UndecidedTransaction(70 + n, n, 1 + n, 1_000 + n) for n in range(MOST_TRANSACTIONS)
        )


@staged(brokers=2)
async def test_what_is_not_here_is_refused_by_itself(stage: Stage) -> None:
    await stage.create_topic("t", [[1]])
    await stage.create_topic("u", [[2]])
    asked = request(("t", [0, 7, 0]), ("u", [0]), ("nothing", [0]))
    response = await stage.ask(1, asked)
    assert not response.error_code
    told = [
        (topic.name, one.partition_index, ErrorCode(one.error_code))
        for topic in response.topics
        for one in topic.partitions
    ]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert told == [
        ("t", 0, ErrorCode.NONE),
        ("t", 7, unknown),
        ("u", 0, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ("nothing", 0, unknown),
    ]
    found = await describe(stage, 1, 2)
    assert isinstance(found[1], ReplicaState)
    assert error(found[2]) is ErrorCode.NOT_LEADER_OR_FOLLOWER


@staged(brokers=1)
async def test_a_replica_of_a_failed_disk_says_so(stage: Stage) -> None:
    await stage.create_topic("t", [[1]])
    partition = stage.partition(1, "t")
    partition.go_offline(ErrorCode.KAFKA_STORAGE_ERROR)
    (told,) = (await stage.ask(1, request(("t", [0])))).topics[0].partitions
    assert told.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert (told.role, told.leader_id, told.log_end_offset) == (ReplicaRole.NONE, 1, -1)


async def test_too_many_are_refused_and_many_are_told_in_slices(make_broker: MakeBroker) -> None:
    broker = make_broker()
    too_many = request((TOPIC, list(range(1, MOST_REPLICAS + 2))))
    refused = broker.connect().ask(too_many, 0)
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert refused.error_message == "501 partitions in one request: name at most 500"
    assert refused.topics == []
    many = request((TOPIC, list(range(1, MOST_REPLICAS + 1))))
    response, turns = await turns_until_answered(broker, many, 0)
    assert turns == MOST_REPLICAS // ITEMS_AT_ONCE
    assert len(response.topics[0].partitions) == MOST_REPLICAS
