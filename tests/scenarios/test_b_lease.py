"""B-20 with leader leases: a leader that is cut off stops before another one starts."""

from minikafka.client.errors import ConnectionLost
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.elect_leaders import ElectionType
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.protocol.messages.list_offsets import (
    LATEST_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from minikafka.protocol.records import record_batch
from minikafka.protocol.types import TopicPartition

from ..simulation.stage import Stage, staged

LEASES = {"leader.lease.enable": "true"}
MIN_2 = {"min.insync.replicas": "2"}
SESSION_S = 2.0


async def produce(stage: Stage, broker: int, value: bytes, acks: int = 1) -> ErrorCode:
    """One record to one broker, whoever leads."""
    batch = record_batch.build([(0, None, value)])
    data = PartitionProduceData(index=0, records=memoryview(batch))
    request = ProduceRequest(
        acks=acks, timeout_ms=500, topic_data=[TopicProduceData(name="t", partition_data=[data])]
    )
    try:
        answer = await stage.ask(broker, request, version=9)
    except ConnectionLost:
        return ErrorCode.NETWORK_EXCEPTION
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


async def consume(stage: Stage, broker: int) -> tuple[ErrorCode, int]:
    """Fetch as a consumer; the error and the high watermark told."""
    asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic="t", partitions=[asked])]
    request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics)
    answer = await stage.ask(broker, request, version=11)
    data = answer.responses[0].partitions[0]
    return ErrorCode(data.error_code), data.high_watermark


async def latest(stage: Stage, broker: int) -> ErrorCode:
    asked = ListOffsetsPartition(partition_index=0, timestamp=LATEST_TIMESTAMP)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[asked])])
    answer = await stage.ask(broker, request)
    return ErrorCode(answer.topics[0].partitions[0].error_code)


def leaders(stage: Stage) -> list[int]:
    """Who believes to lead."""
    return [each for each in (1, 2, 3) if stage.partition(each, "t").leader is not None]


@staged(controllers=3, controller=LEASES)
async def test_b_20_with_leases_a_leader_that_is_cut_off_refuses_before_another_one_leads(
    stage: Stage,
) -> None:
    """Given leases, and a leader that only clients can reach; when its lease has ended; then it
    refuses acks=1 and reads, and only after that does another one start."""
    await stage.create_topic("t", [[1, 2, 3]], configs=MIN_2)
    await stage.send("t", b"0")
    assert await produce(stage, 1, b"1") == ErrorCode.NONE
    stage.isolate(1, "desk")
    cut = stage.now
    refused_at = None
    while leaders(stage) == [1]:
        error = await produce(stage, 1, b"in between")
        if error:
            refused_at = refused_at or stage.now
        else:
            assert refused_at is None, "it does not come back by itself"
        await stage.sleep(0.02)
    assert refused_at is not None
    assert 0 < refused_at - cut <= SESSION_S
    assert await produce(stage, 1, b"late") == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert await consume(stage, 1) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    assert await latest(stage, 1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    (new,) = [each for each in leaders(stage) if each != 1]
    assert await produce(stage, new, b"2") == ErrorCode.NONE
    stage.heal()
    await stage.until(lambda: len(stage.state("t").isr) == 3, "all in sync")
    assert b"late" not in await stage.read("t")


@staged(controller=LEASES)
async def test_b_20_with_leases_a_crash_is_waited_out_unless_the_same_disk_comes_back(
    stage: Stage,
) -> None:
    """Given leases; when a leader dies, its lease is waited out; when it starts anew with its
    directories, or stops cleanly, nothing is waited for."""
    await stage.create_topic("t", [[1, 2, 3]], configs=MIN_2)
    await stage.send("t", b"0")
    stage.kill(1)
    await stage.until(lambda: stage.is_fenced(1), "the crash is noticed", 0.5)
    assert stage.state("t").leader == -1
    died = stage.now
    await stage.until(lambda: stage.state("t").leader > 0, "another leads")
    assert 0.5 * SESSION_S < stage.now - died <= SESSION_S
    second = stage.state("t").leader
    await stage.send("t", b"1")
    stage.start(1)
    await stage.until(lambda: len(stage.state("t").isr) == 3, "all in sync")

    killed = stage.now
    stage.restart(second)
    await stage.until(lambda: stage.state("t").leader not in (-1, second), "another leads")
    assert stage.now - killed < 0.5 * SESSION_S
    await stage.until(lambda: len(stage.state("t").isr) == 3, "all in sync")

    third = stage.state("t").leader
    stopped = stage.now
    stage.terminate(third)
    await stage.until(lambda: stage.state("t").leader not in (-1, third), "another leads")
    assert stage.now - stopped < 0.2


@staged(controller=LEASES)
async def test_b_20_with_leases_a_leader_that_stood_still_sends_nothing_it_decided_before(
    stage: Stage,
) -> None:
    """Given leases; when a leader is stopped for longer than its lease, with clients' requests in
    its sockets; then after it wakes up they are refused, or their connection is closed."""
    await stage.create_topic("t", [[1, 2, 3]], configs=MIN_2)
    await stage.send("t", b"0")
    producer = await stage.producer("quick", acks="1", delivery_timeout_ms=20_000)
    await producer.send("t", b"1")
    stage.pause(1)
    waiting = producer.send("t", b"while it stands still")
    await stage.until(lambda: stage.state("t").leader not in (-1, 1), "another leads")
    stage.resume(1)
    await waiting
    await stage.until(lambda: len(stage.state("t").isr) == 3, "all in sync")
    assert await stage.read("t") == [b"0", b"1", b"while it stands still"]


@staged(controllers=3, controller=LEASES)
async def test_b_20_with_leases_a_new_controller_waits_out_what_another_may_have_granted(
    stage: Stage,
) -> None:
    """Given leases; when the active controller dies and right after it a leader; then the next
    controller waits for a full lease before it has another one elected."""
    await stage.create_topic("t", [[1, 2, 3]], configs=MIN_2)
    await stage.send("t", b"0")
    name = stage.active_name()
    assert name is not None
    stage.isolate(1, "desk")
    stage.kill(name)
    await stage.until(lambda: stage.active_name() not in (None, name), "another is active")
    active = stage.now
    while leaders(stage) == [1]:
        await produce(stage, 1, b"x")
        await stage.sleep(0.05)
    assert stage.now - active >= SESSION_S
    assert await produce(stage, 1, b"late") == ErrorCode.NOT_LEADER_OR_FOLLOWER


@staged(controllers=3, controller=LEASES)
async def test_b_20_a_controller_without_a_majority_grants_nothing(stage: Stage) -> None:
    """Given leases; when the active controller is cut off together with a leader; then that leader
    is granted nothing more, and stops before the others have elected theirs."""
    await stage.create_topic("t", [[1, 2, 3]], configs=MIN_2)
    await stage.send("t", b"0")
    name = stage.active_name()
    assert name is not None
    stage.isolate(1, "desk", name)
    stage.isolate(name, 1)
    while leaders(stage) == [1]:
        await produce(stage, 1, b"x")
        await stage.sleep(0.05)
    assert await produce(stage, 1, b"late") == ErrorCode.NOT_LEADER_OR_FOLLOWER
    stage.heal()
    await stage.until(lambda: len(stage.state("t").isr) == 3, "all in sync")
    assert b"late" not in await stage.read("t")


@staged(controller=LEASES)
async def test_b_20_with_leases_leadership_moves_between_the_living_within_moments(
    stage: Stage,
) -> None:
    """Given leases; when the preferred leader is elected; then the other one has stepped down
    before it, and nobody waited for a lease to end."""
    await stage.create_topic("t", [[1, 2, 3]], configs=MIN_2)
    await stage.send("t", b"0")
    await stage.stop(1)
    stage.start(1)
    await stage.until(lambda: len(stage.state("t").isr) == 3, "all in sync")
    assert stage.state("t").leader != 1
    began = stage.now
    there = [TopicPartition("t", 0)]
    await stage.admin(lambda admin: admin.elect_leaders(ElectionType.PREFERRED, there))
    await stage.until(lambda: stage.state("t").leader == 1, "the preferred one leads")
    assert stage.now - began < 0.2
    assert (await stage.send("t", b"1")) == [1]
