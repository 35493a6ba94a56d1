"""Committed offsets as state: replay in any order, transactions, expiry, deletion."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from minikafka.broker.api.write_txn_markers import COMMIT_TIMEOUT_MS
from minikafka.broker.assembly import PEER_REQUEST_MS
from minikafka.broker.coordinator.group import classic, deletion
from minikafka.broker.coordinator.group.config import GroupConfig
from minikafka.broker.coordinator.group.offsets import Offsets, tombstone
from minikafka.broker.coordinator.group.phases import Phase
from minikafka.broker.coordinator.group.state import GroupsState
from minikafka.broker.coordinator.keys import GROUPS_TOPIC
from minikafka.protocol.consumer_protocol import topics_of
from minikafka.protocol.coordinator_records import (
    GroupMetadataKey,
    GroupMetadataRecord,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitRecord,
    OffsetCommitValue,
)
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from minikafka.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from minikafka.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from minikafka.protocol.types import TopicPartition
from minikafka.runtime.config import from_mapping
from minikafka.storage.markers import TransactionMarker

from .edge_support import settle
from .group_lab import Client
from .group_support import GroupBroker
from .node_support import ME
from .node_support import state as partition_state

DAY_MS = 86_400_000
WEEK_MS = 7 * DAY_MS


def committed(
    offset: int, partition: int = 0, *, at_ms: int = 0, expires_ms: int = -1, topic: str = "t"
) -> OffsetCommitRecord:
    key = OffsetCommitKey(group="g", topic=topic, partition=partition)
    value = OffsetCommitValue(offset=offset, commit_timestamp=at_ms, expire_timestamp=expires_ms)
    return OffsetCommitRecord(key, value)


def group_record(*topics: str, at_ms: int = 0, kind: str = "consumer") -> GroupMetadataRecord:
    """A group that is stable with one member, or empty where it reads nothing."""
    members = [
        MemberMetadata(
            member_id="m",
            client_id="c",
            client_host="/h",
            session_timeout=10_000,
            subscription=Client("m", topics=topics).spoken()[0].metadata,
            assignment=b"",
        )
    ]
    value = GroupMetadataValue(
        protocol_type=kind,
        generation=3,
        protocol="range" if topics else None,
        leader="m" if topics else None,
        current_state_timestamp=at_ms,
        members=members if topics else [],
    )
    return GroupMetadataRecord(GroupMetadataKey(group="g"), value)


def of(*records: OffsetCommitRecord | GroupMetadataRecord) -> GroupsState:
    state = GroupsState(from_mapping(GroupConfig, {}))
    for position, record in enumerate(records):
        state.apply(record, position)
    state.complete_loading()
    return state


def offsets_of(state: GroupsState) -> dict[tuple[str, int], int]:
    return {place: each.offset for place, each in state.offsets.of("g").items()}


# Replaying.


def test_the_last_record_of_a_place_counts() -> None:
    assert offsets_of(of(committed(1), committed(2), committed(9, 1))) == {("t", 0): 2, ("t", 1): 9}


def test_tombstones_of_nothing_are_nothing() -> None:
    """Compaction may leave a tombstone before, or without, what it buried (KAFKA-17306)."""
    gone = GroupMetadataRecord(GroupMetadataKey(group="g"), None)
    state = of(tombstone("g", ("t", 0)), gone, committed(5), tombstone("g", ("t", 7)))
    assert offsets_of(state) == {("t", 0): 5}
    assert [*state.groups] == ["g"]


def test_a_group_is_what_its_last_record_says() -> None:
    state = of(group_record("t"), group_record("t", "u"), group_record())
    assert (state.groups["g"].phase, state.groups["g"].phases.generation) == (Phase.EMPTY, 3)
    state = of(group_record(), group_record("t"))
    group = state.groups["g"]
    assert (group.phase, [*group.roster.members], group.roster.leader) == (Phase.STABLE, ["m"], "m")


# Transactions.


def pending(*offsets: tuple[int, OffsetCommitRecord, int]) -> Offsets:
    """(position, record, producer id; -1: none)"""
    state = Offsets()
    for position, record, producer in offsets:
        state.replay(record, position, None if producer < 0 else producer)
    return state


def told(state: Offsets) -> dict[int, int]:
    return {place[1]: each.offset for place, each in state.of("g").items()}


def test_a_transactions_offsets_count_when_it_commits() -> None:
    state = pending((0, committed(1), -1), (1, committed(5), 7), (2, committed(6, 1), 7))
    assert told(state) == {0: 1}
    assert state.is_pending("g", ("t", 0))
    assert state.complete(7, is_commit=True) == ["g"]
    assert told(state) == {0: 5, 1: 6}
    assert not state.has_pending("g")


def test_a_transactions_offsets_are_forgotten_when_it_aborts() -> None:
    state = pending((0, committed(1), -1), (1, committed(5), 7))
    assert state.complete(7, is_commit=False) == ["g"]
    assert told(state) == {0: 1}


def test_of_two_commits_the_one_later_in_the_log_counts() -> None:
    state = pending((1, committed(5), 7), (2, committed(9), -1))
    state.complete(7, is_commit=True)
    assert told(state) == {0: 9}


def test_each_producer_ends_its_own_transaction() -> None:
    state = pending((0, committed(5), 7), (1, committed(6, 1), 8))
    assert state.complete(9, is_commit=True) == []
    state.complete(7, is_commit=True)
    assert (told(state), state.pending("g")) == ({0: 5}, [("t", 1)])


def test_what_is_deleted_does_not_come_back_with_a_transaction() -> None:
    state = pending((0, committed(5), 7), (1, tombstone("g", ("t", 0)), -1))
    assert not state.has_pending("g")
    state.complete(7, is_commit=True)
    assert told(state) == {}


# Expiry.


def expired(state: GroupsState, wall_ms: int) -> list[str]:
    records = deletion.expire(state, "g", wall_ms=wall_ms, retention_ms=WEEK_MS)
    return [
        f"{each.key.topic}-{each.key.partition}"
        if isinstance(each, OffsetCommitRecord)
        else "group"
        for each in records
    ]


def test_simple_consumers_offsets_expire_after_their_commit() -> None:
    state = of(committed(1), committed(2, 1, at_ms=DAY_MS))
    assert expired(state, WEEK_MS - 1) == []
    assert expired(state, WEEK_MS) == ["t-0"]
    assert expired(state, WEEK_MS + DAY_MS) == ["t-0", "t-1", "group"]


def test_an_empty_groups_offsets_expire_after_its_last_member_left() -> None:
    state = of(committed(1), group_record(at_ms=DAY_MS))
    assert expired(state, WEEK_MS) == []
    assert expired(state, WEEK_MS + DAY_MS) == ["t-0", "group"]


def test_offsets_that_members_read_do_not_expire() -> None:
    state = of(committed(1), committed(2, topic="old"), group_record("t"))
    assert expired(state, 10 * WEEK_MS) == ["old-0"]
    assert expired(of(committed(1), group_record("t", kind="connect")), 10 * WEEK_MS) == []


def test_offsets_of_a_group_that_is_being_rebalanced_do_not_expire() -> None:
    """However long that takes (KAFKA-13636)."""
    state = of(committed(1), committed(2, topic="old"), group_record("t"))
    for phase in (Phase.PREPARING, Phase.COMPLETING):
        state.groups["g"].phases.phase = phase
        assert expired(state, 10 * WEEK_MS) == []


def test_a_client_may_have_asked_for_a_retention_of_its_own() -> None:
    state = of(committed(1, expires_ms=DAY_MS), committed(2, 1, expires_ms=9 * WEEK_MS))
    assert expired(state, DAY_MS) == ["t-0"]
    assert expired(state, 8 * WEEK_MS) == ["t-0"]


def test_what_a_transaction_is_about_to_commit_does_not_expire() -> None:
    state = of(committed(1))
    state.apply(committed(2), 1, 7)
    assert expired(state, 10 * WEEK_MS) == []
    state.complete(7, 2, is_commit=False)
    assert expired(state, 10 * WEEK_MS) == ["t-0", "group"]


# Over a whole broker.


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[GroupBroker]:
    made = await GroupBroker(tmp_path).open()
    yield made
    await made.close()


class Coordinator:
    """Stands in for the transaction coordinator: every partition is in the transaction, or none."""

    def __init__(self, broker: GroupBroker, error: ErrorCode = ErrorCode.NONE) -> None:
        self.error = error
        self.asked: list[tuple[str, bool]] = []
        broker.edge.transactions.verify = self.verify  # type: ignore[method-assign]

    def verify(self, asked: Any, done: Any, *, adds: bool = False) -> None:
        (place,) = asked.partitions
        self.asked.append((place.topic, adds))
        done({TopicPartition(*place): self.error})


async def commit_in_transaction(
    broker: GroupBroker, offset: int, version: int = 5, **changes: Any
) -> str:
    fields: dict[str, Any] = {
        "transactional_id": "x",
        "group_id": "g",
        "producer_id": 7,
        "producer_epoch": 0,
        "topics": [
            TxnOffsetCommitRequestTopic(
                name=changes.pop("topic", "t"),
                partitions=[
                    TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
                ],
            )
        ],
    }
    answer = await broker.ask(TxnOffsetCommitRequest(**(fields | changes)), version)
    return ErrorCode(answer.topics[0].partitions[0].error_code).name


async def end(broker: GroupBroker, *, is_commit: bool, producer_id: int = 7) -> str:
    said: list[ErrorCode] = []
    marker = TransactionMarker(producer_id, 0, 1, is_commit=is_commit)
    broker.edge.groups.complete_transaction(0, marker, said.append)
    return said[0].name


@pytest.mark.parametrize("is_commit", [True, False])
async def test_a_transaction_from_commit_to_marker(broker: GroupBroker, is_commit: bool) -> None:
    coordinator = Coordinator(broker)
    await broker.commit((0, 1))
    assert await commit_in_transaction(broker, 5) == "NONE"
    assert coordinator.asked == [("__consumer_offsets", True)]
    assert await broker.committed() == {0: 1}
    assert await broker.committed(stable=True) == {0: "UNSTABLE_OFFSET_COMMIT"}
    assert await end(broker, is_commit=is_commit) == "NONE"
    expected = {0: 5 if is_commit else 1}
    assert await broker.committed(stable=True) == expected
    await broker.fail_over()
    assert await broker.committed(stable=True) == expected


async def test_an_open_transaction_survives_a_failover(broker: GroupBroker) -> None:
    Coordinator(broker)
    assert await commit_in_transaction(broker, 5) == "NONE"
    await broker.fail_over()
    assert await broker.committed(stable=True) == {0: "UNSTABLE_OFFSET_COMMIT"}
    every = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g")], require_stable=True)
    (group,) = (await broker.ask(every, 9)).groups
    assert [each.error_code for each in group.topics[0].partitions] == [
        ErrorCode.UNSTABLE_OFFSET_COMMIT
    ]
    assert await end(broker, is_commit=True) == "NONE"
    assert await broker.committed(stable=True) == {0: 5}


async def test_the_second_commit_of_a_transaction_asks_nobody(broker: GroupBroker) -> None:
    coordinator = Coordinator(broker)
    await commit_in_transaction(broker, 5, version=4)
    await commit_in_transaction(broker, 6, version=4)
    assert coordinator.asked == [("__consumer_offsets", False)]
    await end(broker, is_commit=True)
    assert await broker.committed() == {0: 6}


@pytest.mark.parametrize(
    ("said", "version", "error"),
    [
        (ErrorCode.TRANSACTION_ABORTABLE, 4, "TRANSACTION_ABORTABLE"),
        (ErrorCode.TRANSACTION_ABORTABLE, 3, "INVALID_TXN_STATE"),
        (ErrorCode.NOT_COORDINATOR, 5, "COORDINATOR_LOAD_IN_PROGRESS"),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 5, "COORDINATOR_LOAD_IN_PROGRESS"),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 5, "INVALID_PRODUCER_ID_MAPPING"),
        (ErrorCode.PRODUCER_FENCED, 5, "PRODUCER_FENCED"),
    ],
)
async def test_what_the_transactions_coordinator_refuses(
    broker: GroupBroker, said: ErrorCode, version: int, error: str
) -> None:
    Coordinator(broker, said)
    assert await commit_in_transaction(broker, 5, version) == error
    assert await broker.committed(stable=True) == {}


async def test_what_the_group_refuses_of_a_transaction(broker: GroupBroker) -> None:
    Coordinator(broker)
    joined = await broker.stable()
    old: dict[str, Any] = {"generation_id": 0, "member_id": joined.member_id}
    assert await commit_in_transaction(broker, 5, **old) == "ILLEGAL_GENERATION"
    assert await commit_in_transaction(broker, 5, generation_id=1) == "UNKNOWN_MEMBER_ID"
    unheard: dict[str, Any] = {"group_id": "unheard", "generation_id": 1, "member_id": "m"}
    assert await commit_in_transaction(broker, 5, **unheard) == "ILLEGAL_GENERATION"
    assert await commit_in_transaction(broker, 5, group_id="") == "INVALID_GROUP_ID"
    assert await commit_in_transaction(broker, 5, topic="u") == "UNKNOWN_TOPIC_OR_PARTITION"
    assert await broker.committed(stable=True) == {}
    present: dict[str, Any] = {"generation_id": 1, "member_id": joined.member_id}
    assert await commit_in_transaction(broker, 5, **present) == "NONE"
    assert await commit_in_transaction(broker, 6) == "NONE", "older producers name no member"


async def test_a_marker_for_somebody_elses_shard_is_the_leaders_to_write(
    broker: GroupBroker,
) -> None:
    said: list[ErrorCode] = []
    marker = TransactionMarker(7, 0, 1, is_commit=True)
    broker.edge.groups.complete_transaction(4, marker, said.append)
    assert said == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


async def test_the_broker_forgets_what_nobody_uses(broker: GroupBroker) -> None:
    await broker.commit((0, 1))
    groups = broker.edge.groups
    (shard,) = groups.shards
    groups.upkeep.expire(shard)
    assert await broker.committed() == {0: 1}
    wall_ms = broker.runtime.wall_ms()
    broker.runtime.wall_ms = lambda: wall_ms + WEEK_MS  # type: ignore[method-assign]
    broker.now_ms += 600_010
    broker.wheel._turn()
    assert await broker.committed() == {}
    await broker.fail_over()
    (again,) = groups.shards
    assert again.state.groups == {}


async def test_markers_that_are_not_replicated_in_time_do_not_hold_up_others(
    tmp_path: Path,
) -> None:
    """The coordinator gives a request up after a while, and would repeat every marker of it."""
    broker = await GroupBroker(tmp_path).open(partition_state(ME))
    marker = WritableTxnMarker(
        producer_id=7,
        producer_epoch=0,
        transaction_result=True,
        coordinator_epoch=1,
        topics=[
            WritableTxnMarkerTopic(name=topic, partition_indexes=[0])
            for topic in ("t", GROUPS_TOPIC)
        ],
    )
    coordinator = broker.connect()
    coordinator.send(WriteTxnMarkersRequest(markers=[marker]), 1)
    await settle()
    assert coordinator.responses() == []
    broker.now_ms += COMMIT_TIMEOUT_MS + 10
    assert COMMIT_TIMEOUT_MS < PEER_REQUEST_MS
    broker.wheel._turn()
    await settle()
    (answer,) = coordinator.responses()
    written, slow = answer.markers[0].topics
    assert written.partitions[0].error_code == ErrorCode.NONE
    assert slow.partitions[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    partition = broker.partitions.find(GROUPS_TOPIC, 0)
    assert not isinstance(partition, ErrorCode)
    assert partition.leader is not None
    partition.leader.high_watermark = 1
    partition.on_high_watermark_moved(1)
    await settle()
    assert coordinator.responses() == [], "what comes too late is nobody's"
    await broker.close()


def test_what_members_read_is_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for each offset: a group may have thousands, and metadata of any size."""
    decoded: list[bytes] = []

    def note(metadata: bytes) -> tuple[str, ...]:
        decoded.append(metadata)
        return topics_of(metadata)

    monkeypatch.setattr(classic, "topics_of", note)
    state = of(group_record("t"), *(committed(5, at) for at in range(50)))
    found = deletion.delete_offsets(state, "g", [("t", at) for at in range(50)])
    assert not isinstance(found, ErrorCode)
    assert found.errors == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC] * 50
    assert deletion.expire(state, "g", wall_ms=WEEK_MS, retention_ms=WEEK_MS) == []
    assert len(decoded) == 2


def test_topics_that_are_gone_take_their_offsets_along() -> None:
    state = of(committed(1), committed(2, topic="u"), committed(3, topic="v"))
    found = deletion.delete_topics(state, dict.fromkeys(("t", "v")))
    assert [each.key.topic for each in found if isinstance(each, OffsetCommitRecord)] == ["t", "v"]
