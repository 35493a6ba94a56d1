"""Fetch over a connection: long polls, limits, cold pages, sessions, followers."""

from collections.abc import Callable
from typing import Any

import pytest

from minikafka.broker.api.fetch import STORAGE_FAILURE_WAIT_MS
from minikafka.broker.deadlines import Deadline
from minikafka.broker.partition.requests import FetchAnswer, FetchSpec
from minikafka.protocol.control import records as r
from minikafka.protocol.control.messages import VersionRange
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from minikafka.protocol.types import ZERO_UUID, OffsetAndEpoch
from minikafka.runtime.errors import CorruptLog, StorageError
from minikafka.storage.log import OffsetOutOfRange

from .conftest import MakeBroker
from .edge_support import TOPIC, TOPIC_ID, FakeBroker, FakePartition, batch, heard_by, settle

SECRET = b"incarnation of 2"


def fetch(*indexes: int, offset: int = 0, **fields: Any) -> FetchRequest:
    """A fetch that names topics both ways, for every version."""
    limit = fields.pop("partition_max_bytes", 1 << 20)
    topic = FetchTopic(
        topic=TOPIC,
        topic_id=TOPIC_ID,
        partitions=[
            FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=limit)
            for index in indexes
        ],
    )
    return FetchRequest(
        max_wait_ms=fields.pop("max_wait_ms", 10_000),
        min_bytes=fields.pop("min_bytes", 1),
        topics=[topic] if indexes else [],
        **fields,
    )


def put(broker: FakeBroker, *values: bytes, index: int = 0) -> None:
    for value in values:
        broker.partitions.all[index].append_as_leader(memoryview(batch(value)), acks=1, wall_ms=0)
    broker.partitions.write_staged()


def only(response: Any) -> PartitionData:
    ((data,),) = [topic.partitions for topic in response.responses]
    assert isinstance(data, PartitionData)
    return data


@pytest.mark.parametrize("version", range(4, 19))
async def test_every_version_reads_the_bytes_that_were_produced(
    make_broker: MakeBroker, version: int
) -> None:
    broker = make_broker()
    put(broker, b"a", b"b")
    data = only(broker.connect().ask(fetch(0), version))
    assert bytes(data.records or b"") == b"".join(b for _, _, b in broker.partition.batches)
    assert data.high_watermark == 2


async def test_a_long_poll_is_answered_by_the_event_that_brings_data(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker()
    client = broker.connect()
    client.send(fetch(0), 12)
    await settle()
    assert client.responses() == []
    put(broker, b"news")
    await settle()
    (response,) = client.responses()
    assert len(only(response).records or b"") > 0
    assert broker.partition.data_waiters.waiting is None


async def test_a_long_poll_ends_with_its_time(make_broker: MakeBroker) -> None:
    broker = make_broker()
    client = broker.connect()
    client.send(fetch(0, max_wait_ms=20), 12)
    found = await client.next_responses()
    assert only(found[0]).records == b""
    assert broker.partition.data_waiters.waiting is None


async def test_min_bytes_is_waited_for_over_all_partitions(make_broker: MakeBroker) -> None:
    broker = make_broker(FakePartition(0), FakePartition(1))
    client = broker.connect()
    client.send(fetch(0, 1, min_bytes=150), 12)
    put(broker, b"x" * 50, index=0)
    await settle()
    assert client.responses() == []
    put(broker, b"x" * 50, index=1)
    await settle()
    (response,) = client.responses()
    assert [len(data.records) > 0 for data in response.responses[0].partitions] == [True, True]


async def test_only_partitions_that_called_are_read_again(make_broker: MakeBroker) -> None:
    broker = make_broker(FakePartition(0), FakePartition(1))
    client = broker.connect()
    client.send(fetch(0, 1), 12)
    put(broker, b"x", index=1)
    await settle()
    assert [len(each.fetches) for each in broker.partitions.all.values()] == [1, 2]
    assert len(client.responses()) == 1


async def test_an_error_is_answered_at_once_and_its_neighbours_with_it(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker(FakePartition(0), FakePartition(1))
    broker.partitions.all[1].error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    put(broker, b"x")
    response = broker.connect().ask(fetch(0, 1, 7), 16)
    good, moved, unknown = response.responses[0].partitions
    assert len(good.records) > 0
    assert moved.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (moved.current_leader.leader_id, moved.current_leader.leader_epoch) == (2, 4)
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (node,) = response.node_endpoints
    assert (node.node_id, node.host, node.rack) == (2, "plaintext-2.example", "rack2")


async def test_j_07_max_bytes_below_one_batch_still_gives_one_batch(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker(FakePartition(0), FakePartition(1))
    put(broker, b"x" * 500, b"y" * 500)
    put(broker, b"z" * 500, index=1)
    client = broker.connect()
    for limits in ({"max_bytes": 1}, {"max_bytes": 0}, {"partition_max_bytes": 0}):
        response = client.ask(fetch(0, 1, **limits), 12)
        sizes = [len(data.records) for data in response.responses[0].partitions]
        first = len(broker.partition.batches[0][2])
        assert sizes == [first, 0], limits


async def test_a_storage_error_alone_is_not_answered_at_once(
    make_broker: MakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some clients ask again without a pause: the next answer is as useless as this one."""
    broker = make_broker(FakePartition(0), FakePartition(1))
    bad = broker.partitions.all[0]
    bad.error = ErrorCode.KAFKA_STORAGE_ERROR
    waits: list[int] = []
    at = broker.edge.deadlines.at

    def noted(deadline_ms: int, expire: Callable[[], None]) -> Deadline:
        waits.append(deadline_ms - broker.edge.runtime.monotonic_ms())
        return at(deadline_ms, expire)

    monkeypatch.setattr(broker.edge.deadlines, "at", noted)
    client = broker.connect()
    client.send(fetch(0, 1), 12)
    await settle()
    assert client.responses() == []
    (response,) = await client.next_responses()
    assert 0 < waits[-1] <= STORAGE_FAILURE_WAIT_MS
    first, second = response.responses[0].partitions
    assert (first.error_code, second.error_code) == (ErrorCode.KAFKA_STORAGE_ERROR, 0)
    # It ends as soon as there is anything else to say.
    client.send(fetch(0, 1), 12)
    await settle()
    assert client.responses() == []
    put(broker, b"x", index=1)
    await settle()
    (response,) = client.responses()
    assert len(response.responses[0].partitions[1].records) > 0
    assert only(client.ask(fetch(0, max_wait_ms=0), 12)).error_code == bad.error
    assert [each.data_waiters.waiting for each in broker.partitions.all.values()] == [None, None]


async def test_a_leader_that_moved_is_told_at_once_beside_a_storage_error(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker(FakePartition(0), FakePartition(1))
    broker.partitions.all[0].error = ErrorCode.KAFKA_STORAGE_ERROR
    client = broker.connect()
    client.send(fetch(0, 1), 12)
    await settle()
    assert client.responses() == []
    moved = broker.partitions.all[1]
    moved.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    for waiter in list(moved.data_waiters.waiting or ()):
        waiter.on_data(moved)
    await settle()
    (response,) = client.responses()
    assert [each.error_code for each in response.responses[0].partitions] == [
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ]


async def test_the_brokers_own_bound_holds_whatever_is_asked(make_broker: MakeBroker) -> None:
    broker = make_broker(FakePartition(0), FakePartition(1), fetch_max_bytes="1024")
    for index in (0, 1):
        put(broker, *[b"x" * 300] * 10, index=index)
    response = broker.connect().ask(fetch(0, 1), 12)
    assert 0 < sum(len(data.records) for data in response.responses[0].partitions) <= 1024


async def test_cold_pages_are_read_off_the_loop_while_the_fetch_is_parked(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker()
    put(broker, b"old")
    broker.partition.is_cold = True
    cold, warm = broker.connect(), broker.connect()
    cold.send(fetch(0), 12)
    assert cold.responses() == []
    broker.partition.is_cold = False
    assert len(warm.responses()) == 0
    assert len(only(warm.ask(fetch(0), 12)).records or b"") > 0
    await settle()
    (response,) = cold.responses()
    assert bytes(only(response).records or b"") == broker.partition.batches[0][2]
    assert broker.partition.cold_reads == 1


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (CorruptLog("/d", 3, "torn"), ErrorCode.KAFKA_STORAGE_ERROR),
        (OffsetOutOfRange(0, 5, 9), ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
async def test_a_cold_read_that_fails_is_that_partitions_error(
    make_broker: MakeBroker,
    monkeypatch: pytest.MonkeyPatch,
    failure: StorageError,
    code: ErrorCode,
) -> None:
    broker = make_broker(FakePartition(0), FakePartition(1))
    put(broker, b"fine")

    async def fail() -> bytes:
        raise failure

    def answer(spec: FetchSpec, now_ms: int) -> FetchAnswer:
        return FetchAnswer(high_watermark=1, cold=fail)

    monkeypatch.setattr(broker.partitions.all[1], "fetch", answer)
    client = broker.connect()
    client.send(fetch(0, 1), 12)
    await settle()
    good, bad = client.responses()[0].responses[0].partitions
    assert good.error_code == 0
    assert bad.error_code == code
    # A storage error waits here too if there is nothing else to say; no other error does.
    client.send(fetch(1), 12)
    await settle()
    told = client.responses()
    assert len(told) == (code is not ErrorCode.KAFKA_STORAGE_ERROR)
    assert only((told or await client.next_responses())[0]).error_code == code


async def test_a_session_tells_only_news_over_the_wire(make_broker: MakeBroker) -> None:
    broker = make_broker(FakePartition(0), FakePartition(1))
    client = broker.connect()
    first = client.ask(fetch(0, 1, session_epoch=0, max_wait_ms=0), 13)
    assert first.session_id > 0
    assert len(first.responses[0].partitions) == 2
    put(broker, b"x", index=1)
    second = client.ask(fetch(session_id=first.session_id, session_epoch=1), 13)
    assert [data.partition_index for data in second.responses[0].partitions] == [1]
    wrong = client.ask(fetch(session_id=first.session_id, session_epoch=9), 13)
    assert wrong.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert wrong.responses == []


async def test_a_name_that_no_topic_can_have_ends_a_session(make_broker: MakeBroker) -> None:
    client = make_broker().connect()
    first = client.ask(fetch(0, session_epoch=0, max_wait_ms=0), 12)
    assert first.session_id > 0
    long = fetch(0, session_id=first.session_id, session_epoch=1)
    long.topics[0].topic = "x" * 250
    told = client.ask(long, 12)
    assert told.session_id == 0
    assert only(told).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    gone = client.ask(fetch(session_id=first.session_id, session_epoch=1), 12)
    assert gone.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_a_parked_session_fetch_stays_quiet_and_its_session_goes_on(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker()
    client = broker.connect()
    first = client.ask(fetch(0, session_epoch=0, max_wait_ms=0), 13)
    client.send(fetch(session_id=first.session_id, session_epoch=1, max_wait_ms=20), 13)
    found = await client.next_responses()
    assert found[0].responses == []
    assert found[0].session_id == first.session_id


def follower(offset: int, **fields: Any) -> FetchRequest:
    state = ReplicaState(replica_id=2, replica_epoch=8)
    return fetch(0, offset=offset, replica_state=state, **fields)


async def test_a_followers_fetch_carries_its_identity_and_is_woken_by_appends(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker(FakePartition(0, commits=False))
    client = broker.connect()
    client.send(follower(0), 17)
    spec = broker.partition.fetches[0]
    assert (spec.replica_id, spec.broker_epoch, spec.leader_only) == (2, 8, True)
    assert client.connection.is_replica
    put(broker, b"uncommitted")
    await settle()
    (response,) = client.responses()
    assert len(only(response).records or b"") > 0


async def test_a_follower_that_knows_an_older_high_watermark_is_not_made_to_wait(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker()
    put(broker, b"x")
    client = broker.connect()
    behind = follower(1)
    behind.topics[0].partitions[0].high_watermark = 0
    assert only(client.ask(behind, 18)).high_watermark == 1
    level = follower(1)
    level.topics[0].partitions[0].high_watermark = 1
    client.send(level, 18)
    assert client.responses() == []


async def test_a_diverging_epoch_is_answered_at_once(
    make_broker: MakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = make_broker()

    def answer(spec: FetchSpec, now_ms: int) -> FetchAnswer:
        return FetchAnswer(high_watermark=1, diverging=OffsetAndEpoch(17, 2))

    monkeypatch.setattr(broker.partition, "fetch", answer)
    data = only(broker.connect().ask(follower(30), 17))
    assert data.diverging_epoch is not None
    assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (2, 17)


@pytest.mark.parametrize("version", [12, 17])
async def test_m_08_nobody_poses_as_a_follower(make_broker: MakeBroker, version: int) -> None:
    """Not from a listener for clients, and not without a broker epoch."""
    broker = make_broker(
        listeners="PLAINTEXT://:1,OUTSIDE://:2",
        advertised_listeners="PLAINTEXT://h:1,OUTSIDE://h:2",
        listener_security_protocol_map="OUTSIDE:PLAINTEXT",
    )
    listener, posing = "OUTSIDE", follower(0)
    if version < 15:
        listener, posing = "PLAINTEXT", fetch(0, replica_id=2)
    response = broker.connect(listener).ask(posing, version)
    if version >= 7:
        assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert broker.partition.fetches == []


@pytest.mark.parametrize(
    ("epoch", "incarnation", "error"),
    [
        (50, SECRET, ErrorCode.NONE),
        (51, SECRET, ErrorCode.NONE),  # Registered anew, which is not known here yet.
        (50, ZERO_UUID, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (49, b"an earlier start", ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (51, b"a newer start...", ErrorCode.BROKER_ID_NOT_REGISTERED),
        (1 << 62, ZERO_UUID, ErrorCode.BROKER_ID_NOT_REGISTERED),
    ],
)
async def test_m_08_nobody_poses_as_a_follower_without_its_incarnation_id(
    make_broker: MakeBroker, epoch: int, incarnation: bytes, error: ErrorCode
) -> None:
    """Ids and epochs can be guessed; the incarnation id of a registration cannot."""
    broker = make_broker()
    known = broker.image.brokers[2]
    features = {r.REPLICA_PROOF: VersionRange(1, 1)}
    broker.image.apply(
        r.RegisterBrokerRecord(2, SECRET, known.directory_ids, known.endpoints, None, features), 50
    )
    client = broker.connect()
    state = ReplicaState(replica_id=2, replica_epoch=epoch, incarnation_id=incarnation)
    assert (
        client.ask(fetch(0, offset=0, max_wait_ms=0, replica_state=state), 17).error_code == error
    )
    assert len(broker.partition.fetches) == client.connection.is_replica == (not error)


async def test_m_08_nobody_poses_as_a_broker_that_is_not_registered(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker()
    client = broker.connect()
    state = ReplicaState(replica_id=9, replica_epoch=1 << 40, incarnation_id=SECRET)
    asked = fetch(0, offset=0, max_wait_ms=0, replica_state=state)
    assert client.ask(asked, 17).error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert heard_by(broker) == []
    broker.image.cluster_id = None  # Its metadata is loaded anew.
    assert client.ask(asked, 17).error_code == ErrorCode.NONE
    assert heard_by(broker) == [9]
    assert not client.connection.is_replica


async def test_a_follower_may_come_by_its_own_inter_broker_listener(
    make_broker: MakeBroker,
) -> None:
    """Brokers get another listener one after the other; until then their listeners differ."""
    broker = make_broker(
        listeners="PLAINTEXT://:1,INSIDE://:2",
        advertised_listeners="PLAINTEXT://h:1,INSIDE://h:2",
        listener_security_protocol_map="INSIDE:PLAINTEXT",
        inter_broker_listener_name="INSIDE",
    )
    put(broker, b"a")
    for listener in ("INSIDE", "PLAINTEXT"):
        assert broker.connect(listener).ask(follower(0), 17).error_code == ErrorCode.NONE


async def test_a_follower_of_another_cluster_is_refused_and_said_so_once(
    make_broker: MakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    broker = make_broker()
    client = broker.connect()
    for _ in range(3):
        response = client.ask(follower(0, cluster_id="another"), 17)
        assert response.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert broker.partition.fetches == []
    assert [each for each in caplog.messages if "INCONSISTENT_CLUSTER_ID" in each] == [
        "broker 2, epoch 8: a fetch from 10.0.0.9:5555 is refused: INCONSISTENT_CLUSTER_ID"
    ]


async def test_whoever_poses_as_many_brokers_does_not_fill_the_log(
    make_broker: MakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    broker = make_broker()
    client = broker.connect()
    for number in range(50):
        state = ReplicaState(replica_id=100 + number, replica_epoch=number)
        client.ask(fetch(0, offset=0, cluster_id="another", replica_state=state), 17)
    assert [each for each in caplog.messages if "is refused" in each] == [
        "broker 100, epoch 0: a fetch from 10.0.0.9:5555 is refused: INCONSISTENT_CLUSTER_ID"
    ]


async def test_j_05_an_offset_beyond_the_high_watermark_is_no_reason_to_reset(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker(FakePartition(0, commits=False))
    put(broker, b"a", b"b")
    data = only(broker.connect().ask(fetch(0, offset=2, max_wait_ms=0), 12))
    assert data.error_code == ErrorCode.NONE
    assert data.high_watermark == 0
