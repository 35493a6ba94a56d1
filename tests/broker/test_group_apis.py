"""Group APIs over a whole edge: what each refuses and with which code, and that state stays."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from minikafka.broker.coordinator.keys import GROUPS_TOPIC
from minikafka.protocol.codec import decode
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from minikafka.protocol.messages.create_topics import CreateTopicsRequest
from minikafka.protocol.messages.delete_groups import DeleteGroupsRequest
from minikafka.protocol.messages.describe_groups import DescribeGroupsRequest
from minikafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from minikafka.protocol.messages.heartbeat import HeartbeatRequest
from minikafka.protocol.messages.init_producer_id import InitProducerIdRequest
from minikafka.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from minikafka.protocol.messages.list_groups import ListGroupsRequest
from minikafka.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from minikafka.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from minikafka.protocol.messages.sync_group import SyncGroupRequest

from .edge_support import settle
from .group_support import OFFSETS_ID, T_ID, GroupBroker, commit_request, join_request, sync_request
from .node_support import ME, B, C, batch, state


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[GroupBroker]:
    made = await GroupBroker(tmp_path).open()
    yield made
    await made.close()


def name(code: int) -> str:
    return ErrorCode(code).name


# FindCoordinator.


@pytest.mark.parametrize("version", range(7))
async def test_the_coordinator_leads_the_partition_of_the_key(
    broker: GroupBroker, version: int
) -> None:
    answer = await broker.ask(FindCoordinatorRequest(key="g", coordinator_keys=["g", "h"]), version)
    found = answer.coordinators if version >= 4 else [answer]
    assert [(each.error_code, each.node_id, each.port) for each in found] == [
        (0, ME, 9000 + ME)
    ] * len(found)
    assert len(found) == (2 if version >= 4 else 1)


async def test_the_internal_topic_is_made_on_demand_in_its_own_way(broker: GroupBroker) -> None:
    request = FindCoordinatorRequest(key_type=1, coordinator_keys=["mine"])
    (found,) = (await broker.ask(request, 6)).coordinators
    assert (name(found.error_code), found.node_id) == ("COORDINATOR_NOT_AVAILABLE", -1)
    await settle()
    (_, version, body), *_ = broker.controller.requests
    (topic,) = decode(CreateTopicsRequest, version, body).topics
    assert (topic.name, topic.num_partitions, topic.replication_factor) == (
        "__transaction_state",
        50,
        3,
    )
    assert {each.name: each.value for each in topic.configs}["cleanup.policy"] == "compact"


async def test_a_partition_without_leader_has_no_coordinator(broker: GroupBroker) -> None:
    await broker.remake(state(-1, leader_epoch=2, partition_epoch=2))
    (found,) = (await broker.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4)).coordinators
    assert name(found.error_code) == "COORDINATOR_NOT_AVAILABLE"


async def test_unknown_types_of_keys_are_refused(broker: GroupBroker) -> None:
    (found,) = (
        await broker.ask(FindCoordinatorRequest(key_type=7, coordinator_keys=["g"]), 4)
    ).coordinators
    assert name(found.error_code) == "INVALID_REQUEST"


# Membership.


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"group_id": ""}, "INVALID_GROUP_ID"),
        ({"session_timeout_ms": 5_999}, "INVALID_SESSION_TIMEOUT"),
        ({"session_timeout_ms": 1_800_001}, "INVALID_SESSION_TIMEOUT"),
        ({"member_id": "nobody"}, "UNKNOWN_MEMBER_ID"),
        ({"protocols": ()}, "INCONSISTENT_GROUP_PROTOCOL"),
        ({"protocol_type": ""}, "INCONSISTENT_GROUP_PROTOCOL"),
        ({}, "MEMBER_ID_REQUIRED"),
    ],
)
async def test_joins_that_are_refused_leave_no_group_behind(
    broker: GroupBroker, changes: dict[str, Any], error: str
) -> None:
    answer = await broker.ask(join_request(**changes), 9)
    assert name(answer.error_code) == error
    groups = (await broker.ask(ListGroupsRequest(), 5)).groups
    assert [each.group_id for each in groups] == (["g"] if error == "MEMBER_ID_REQUIRED" else [])


@pytest.mark.parametrize("version", range(10))
async def test_every_version_of_join_and_sync(broker: GroupBroker, version: int) -> None:
    joined = await broker.join(version=version)
    assert (joined.error_code, joined.generation_id, joined.protocol_name) == (0, 1, "range")
    assert joined.leader == joined.member_id
    assert [each.member_id for each in joined.members] == [joined.member_id]
    joined.protocol_type = "consumer"
    sync = sync_request("g", joined, joined.member_id)
    synced = await broker.ask(sync, min(version, 5))
    assert (synced.error_code, synced.assignment) == (0, joined.member_id.encode())


async def test_a_full_group_refuses(tmp_path: Path) -> None:
    broker = await GroupBroker(tmp_path).open(group_max_size="1")
    await broker.stable()
    answer = await broker.ask(join_request(), 9)
    assert name(answer.error_code) == "GROUP_MAX_SIZE_REACHED"
    await broker.close()


async def test_what_a_sync_is_refused_for(broker: GroupBroker) -> None:
    joined = await broker.stable()

    async def error(version: int = 5, **changes: Any) -> str:
        request = sync_request("g", joined, joined.member_id)
        for key, value in changes.items():
            setattr(request, key, value)
        return name((await broker.ask(request, version)).error_code)

    assert await error() == "NONE"
    assert await error(group_id="") == "INVALID_GROUP_ID"
    assert await error(group_id="unheard") == "UNKNOWN_MEMBER_ID"
    assert await error(member_id="nobody") == "UNKNOWN_MEMBER_ID"
    assert await error(generation_id=7) == "ILLEGAL_GENERATION"
    assert await error(protocol_type="connect") == "INCONSISTENT_GROUP_PROTOCOL"
    assert await error(protocol_name="sticky") == "INCONSISTENT_GROUP_PROTOCOL"
    assert await error(protocol_name=None) == "INCONSISTENT_GROUP_PROTOCOL"
    assert await error(group_instance_id="unheard") == "UNKNOWN_MEMBER_ID"


@pytest.mark.parametrize("version", range(5))
async def test_heartbeats(broker: GroupBroker, version: int) -> None:
    joined = await broker.stable()

    async def error(group: str, generation: int, member: str) -> str:
        request = HeartbeatRequest(group_id=group, generation_id=generation, member_id=member)
        return name((await broker.ask(request, version)).error_code)

    assert await error("g", 1, joined.member_id) == "NONE"
    assert await error("g", 0, joined.member_id) == "ILLEGAL_GENERATION"
    assert await error("g", 1, "nobody") == "UNKNOWN_MEMBER_ID"
    assert await error("unheard", 1, joined.member_id) == "UNKNOWN_MEMBER_ID"
    assert await error("", 1, joined.member_id) == "INVALID_GROUP_ID"


async def test_static_members_are_fenced(broker: GroupBroker) -> None:
    first = await broker.stable(group_instance_id="one")
    again = await broker.join(group_instance_id="one")
    assert (again.error_code, again.generation_id, again.skip_assignment) == (0, 1, True)
    beat = HeartbeatRequest(
        group_id="g", generation_id=1, member_id=first.member_id, group_instance_id="one"
    )
    assert name((await broker.ask(beat, 4)).error_code) == "FENCED_INSTANCE_ID"
    fenced: dict[str, Any] = {"member_id": first.member_id, "group_instance_id": "one"}
    assert await broker.commit((0, 1), generation_id_or_member_epoch=1, **fenced) == [
        "FENCED_INSTANCE_ID"
    ]
    answer = await broker.ask(
        LeaveGroupRequest(group_id="g", members=[MemberIdentity(**fenced)]), 5
    )
    assert [name(each.error_code) for each in answer.members] == ["FENCED_INSTANCE_ID"]


async def test_leaving_one_by_one_and_several_at_once(broker: GroupBroker) -> None:
    one = await broker.stable("one")
    answer = await broker.ask(LeaveGroupRequest(group_id="one", member_id=one.member_id), 2)
    assert answer.error_code == 0
    answer = await broker.ask(LeaveGroupRequest(group_id="one", member_id=one.member_id), 2)
    assert name(answer.error_code) == "UNKNOWN_MEMBER_ID"
    two = await broker.stable("two", group_instance_id="static")
    leaving = [
        MemberIdentity(member_id="nobody"),
        MemberIdentity(group_instance_id="static", reason="an operator says so"),
    ]
    answer = await broker.ask(LeaveGroupRequest(group_id="two", members=leaving), 5)
    assert [name(each.error_code) for each in answer.members] == ["UNKNOWN_MEMBER_ID", "NONE"]
    group = broker.edge.groups.shards.of("two").state.groups["two"]  # type: ignore[union-attr]
    assert two.member_id not in group.roster.members
    answer = await broker.ask(LeaveGroupRequest(group_id="unheard", members=leaving), 5)
    assert name(answer.error_code) == "UNKNOWN_MEMBER_ID"
    answer = await broker.ask(LeaveGroupRequest(group_id="", members=leaving), 5)
    assert name(answer.error_code) == "INVALID_GROUP_ID"


async def test_an_id_that_nobody_uses_goes_without_a_rebalance(broker: GroupBroker) -> None:
    """Whoever asked for it may have died, or have asked twice: the members go on."""
    joined = await broker.stable(session_timeout_ms=60_000)
    state = broker.edge.groups.shards.of("g").state  # type: ignore[union-attr]
    for ends in ("by time", "by itself"):
        asked = await broker.ask(join_request(), 9)
        assert name(asked.error_code) == "MEMBER_ID_REQUIRED"
        if ends == "by time":
            broker.now_ms += 10_010
            broker.wheel._turn()
        else:
            leaving = LeaveGroupRequest(group_id="g", member_id=asked.member_id)
            assert (await broker.ask(leaving, 2)).error_code == 0
        assert not state.groups["g"].roster.pending
        beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=joined.member_id)
        assert name((await broker.ask(beat, 4)).error_code) == "NONE", ends


async def test_a_member_gone_silent_is_found_by_the_wheel(broker: GroupBroker) -> None:
    await broker.stable()
    broker.now_ms += 10_010
    broker.wheel._turn()
    (group,) = (await broker.ask(ListGroupsRequest(), 5)).groups
    assert (group.group_state, group.protocol_type) == ("Empty", "consumer")


# Offsets.


@pytest.mark.parametrize("version", range(2, 11))
async def test_commits_of_every_version_are_read_in_every_version(
    broker: GroupBroker, version: int
) -> None:
    joined = await broker.stable()
    member: dict[str, Any] = {"generation_id_or_member_epoch": 1, "member_id": joined.member_id}
    assert await broker.commit((0, 5), (1, 7), version=version, metadata="note", **member) == [
        "NONE",
        "NONE",
    ]
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0, 3])]
    for older in range(1, 8):
        answer = await broker.ask(OffsetFetchRequest(group_id="g", topics=topics), older)
        found = [
            (each.partition_index, each.committed_offset, each.metadata, each.error_code)
            for topic in answer.topics
            for each in topic.partitions
        ]
        assert found == [(0, 5, "note", 0), (3, -1, "", 0)]
    for newer in (8, 9, 10):
        asked = [
            OffsetFetchRequestGroup(group_id="g"),
            OffsetFetchRequestGroup(
                group_id="g",
                topics=[
                    OffsetFetchRequestTopics(name="t", topic_id=T_ID, partition_indexes=[1]),
                    OffsetFetchRequestTopics(name="u", topic_id=b"u" * 16, partition_indexes=[0]),
                ],
            ),
            OffsetFetchRequestGroup(group_id="unheard"),
        ]
        every, some, nothing = (await broker.ask(OffsetFetchRequest(groups=asked), newer)).groups
        assert [each.committed_offset for each in every.topics[0].partitions] == [5, 7]
        assert (every.topics[0].topic_id == T_ID) is (newer == 10)
        assert [each.committed_offset for topic in some.topics for each in topic.partitions] == [
            7,
            -1,
        ]
        expected = "UNKNOWN_TOPIC_ID" if newer == 10 else "NONE"
        assert name(some.topics[1].partitions[0].error_code) == expected
        assert (nothing.error_code, nothing.topics) == (0, [])


async def test_what_a_commit_is_refused_for(broker: GroupBroker) -> None:
    joined = await broker.stable()
    member: dict[str, Any] = {"generation_id_or_member_epoch": 1, "member_id": joined.member_id}
    other: dict[str, Any] = {
        "group_id": "unheard",
        "generation_id_or_member_epoch": 1,
        "member_id": "x",
    }
    assert await broker.commit((0, 1), version=8, **other) == ["ILLEGAL_GENERATION"]
    assert await broker.commit((0, 1), version=9, **other) == ["GROUP_ID_NOT_FOUND"]
    assert await broker.commit((0, 1)) == ["UNKNOWN_MEMBER_ID"], "others are members"
    nobody: dict[str, Any] = member | {"member_id": "nobody"}
    assert await broker.commit((0, 1), **nobody) == ["UNKNOWN_MEMBER_ID"]
    late: dict[str, Any] = member | {"generation_id_or_member_epoch": 0}
    assert await broker.commit((0, 1), **late) == ["ILLEGAL_GENERATION"]
    unheard: dict[str, Any] = member | {"group_instance_id": "unheard"}
    assert await broker.commit((0, 1), **unheard) == ["UNKNOWN_MEMBER_ID"]
    assert await broker.commit((4, 1), (0, 1), **member) == ["UNKNOWN_TOPIC_OR_PARTITION", "NONE"]
    assert await broker.commit((0, 2), topic="u", **member) == ["UNKNOWN_TOPIC_OR_PARTITION"]
    assert await broker.commit((0, 2), topic_id=b"u" * 16, version=10, **member) == [
        "UNKNOWN_TOPIC_ID"
    ]
    assert await broker.commit((0, 2), metadata="x" * 4097, **member) == [
        "OFFSET_METADATA_TOO_LARGE"
    ]
    assert await broker.committed() == {0: 1}


async def test_no_commit_while_the_assignment_is_to_come(broker: GroupBroker) -> None:
    joined = await broker.join()
    member: dict[str, Any] = {"generation_id_or_member_epoch": 1, "member_id": joined.member_id}
    assert await broker.commit((0, 1), **member) == ["REBALANCE_IN_PROGRESS"]


async def test_simple_consumers_commit_without_a_group(broker: GroupBroker) -> None:
    assert await broker.commit((0, 3), (2, 4)) == ["NONE", "NONE"]
    assert await broker.commit((0, 9), group_id="") == ["NONE"], "as Kafka for old clients"
    assert await broker.committed() == {0: 3, 2: 4}
    (group, _) = (await broker.ask(ListGroupsRequest(), 5)).groups
    assert (group.group_id, group.protocol_type, group.group_state) == ("g", "", "Empty")


async def test_too_few_replicas_refuse_a_commit_and_change_nothing(broker: GroupBroker) -> None:
    assert await broker.commit((0, 3)) == ["NONE"]
    await broker.configure("min.insync.replicas", "2", topic=GROUPS_TOPIC)
    await broker.remake(state(ME, isr=(ME,), leader_epoch=1, partition_epoch=2))
    assert await broker.commit((0, 4)) == ["COORDINATOR_NOT_AVAILABLE"]
    assert await broker.committed() == {0: 3}


async def test_an_offset_is_told_once_it_is_committed(tmp_path: Path) -> None:
    """Else a failover could take back what a consumer has begun with."""
    broker = await GroupBroker(tmp_path).open(state(ME))
    committing = broker.connect()
    committing.send(commit_request((0, 5)), 9)
    reading = broker.connect()
    reading.send(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g")]), 9)
    await settle()
    assert (committing.responses(), reading.responses()) == ([], [])
    partition = broker.partitions.find(GROUPS_TOPIC, 0)
    assert not isinstance(partition, ErrorCode)
    assert partition.leader is not None
    partition.leader.high_watermark = 1
    partition.on_high_watermark_moved(1)
    await settle()
    (committed,), (read,) = committing.responses(), reading.responses()
    assert committed.topics[0].partitions[0].error_code == 0
    assert read.groups[0].topics[0].partitions[0].committed_offset == 5
    await broker.close()


async def test_an_offset_that_is_not_committed_in_time_sends_consumers_to_look_again(
    tmp_path: Path,
) -> None:
    """Not COORDINATOR_NOT_AVAILABLE, at which Java consumers before 3.9 give up (KAFKA-17267)."""
    broker = await GroupBroker(tmp_path).open(state(ME))
    broker.connect().send(commit_request((0, 5)), 9)
    reading = broker.connect()
    reading.send(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g")]), 9)
    await settle()
    broker.now_ms += 5_010
    broker.wheel._turn()
    await settle()
    (read,) = reading.responses()
    assert name(read.groups[0].error_code) == "NOT_COORDINATOR"
    await broker.close()


async def test_deleting_offsets(broker: GroupBroker) -> None:
    async def delete(group: str, topic: str, *indexes: int) -> Any:
        asked = OffsetDeleteRequestTopic(
            name=topic,
            partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes],
        )
        answer = await broker.ask(OffsetDeleteRequest(group_id=group, topics=[asked]), 0)
        if answer.error_code:
            return name(answer.error_code)
        return [name(each.error_code) for t in answer.topics for each in t.partitions]

    assert await delete("unheard", "t", 0) == "GROUP_ID_NOT_FOUND"
    assert await delete("", "t", 0) == "INVALID_GROUP_ID"
    assert await broker.commit((0, 1), (1, 2)) == ["NONE", "NONE"]
    assert await delete("g", "t", 0, 2, 9) == ["NONE", "NONE", "UNKNOWN_TOPIC_OR_PARTITION"]
    assert await broker.committed() == {1: 2}
    await broker.stable(topics=("t",))
    assert await delete("g", "t", 1) == ["GROUP_SUBSCRIBED_TO_TOPIC"]
    await broker.stable("w", protocol_type="connect")
    assert await delete("w", "t", 1) == "NON_EMPTY_GROUP"
    assert await broker.committed() == {1: 2}


# Groups.


async def test_deleting_groups(broker: GroupBroker) -> None:
    await broker.commit((0, 1))
    await broker.stable("busy")
    answer = await broker.ask(DeleteGroupsRequest(groups_names=["g", "busy", "unheard", "g"]), 2)
    assert {each.group_id: name(each.error_code) for each in answer.results} == {
        "g": "NONE",
        "busy": "NON_EMPTY_GROUP",
        "unheard": "GROUP_ID_NOT_FOUND",
    }
    assert await broker.committed() == {}
    await broker.fail_over()
    assert [each.group_id for each in (await broker.ask(ListGroupsRequest(), 5)).groups] == ["busy"]


async def test_a_group_may_be_larger_than_a_batch(broker: GroupBroker) -> None:
    """Long names, or thousands of partitions: it can be deleted none the less."""
    large = "g" * 32_000
    for index in range(4):
        assert await broker.commit((index, 1), group_id=large) == ["NONE"]
    await broker.configure("max.message.bytes", "140000", topic=GROUPS_TOPIC)
    assert await broker.commit((0, 2), group_id="other") == ["NONE"]
    answer = await broker.ask(DeleteGroupsRequest(groups_names=[large]), 2)
    assert [name(each.error_code) for each in answer.results] == ["NONE"]
    await broker.fail_over()
    assert await broker.committed(large) == {}
    groups = (await broker.ask(ListGroupsRequest(), 5)).groups
    assert [each.group_id for each in groups] == ["other"]


async def test_a_group_that_cannot_be_deleted_now_is_there_still(broker: GroupBroker) -> None:
    large = "g" * 32_000
    for index in range(4):
        await broker.commit((index, 1), group_id=large)
    await broker.configure("max.message.bytes", "1000", topic=GROUPS_TOPIC)
    answer = await broker.ask(DeleteGroupsRequest(groups_names=[large]), 2)
    assert [name(each.error_code) for each in answer.results] == ["INVALID_COMMIT_OFFSET_SIZE"]
    assert await broker.committed(large) == dict.fromkeys(range(4), 1)


async def test_listing_by_state_and_type(broker: GroupBroker) -> None:
    await broker.stable("stable")
    await broker.join("joining")
    await broker.commit((0, 1), group_id="simple")

    async def listed(version: int = 5, **filters: list[str]) -> list[str]:
        answer = await broker.ask(ListGroupsRequest(**filters), version)
        return sorted(each.group_id for each in answer.groups)

    assert await listed() == await listed(0) == ["joining", "simple", "stable"]
    assert await listed(states_filter=["stable", "EMPTY"]) == ["simple", "stable"]
    assert await listed(states_filter=["unheard"]) == []
    assert await listed(types_filter=["Classic"]) == ["joining", "simple", "stable"]
    assert await listed(types_filter=["consumer"]) == []


async def test_describing(broker: GroupBroker) -> None:
    joined = await broker.stable()
    waiting = await broker.join("w")
    request = DescribeGroupsRequest(
        groups=["g", "w", "unheard"], include_authorized_operations=True
    )
    stable, joining, dead = (await broker.ask(request, 6)).groups
    assert (stable.group_state, stable.protocol_type, stable.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    (member,) = stable.members
    assert (member.member_id, member.client_id, member.client_host) == (
        joined.member_id,
        "test",
        "/10.0.0.9",
    )
    assert member.member_assignment == joined.member_id.encode()
    assert len(member.member_metadata) > 0
    assert stable.authorized_operations == sum(1 << each for each in (3, 6, 8, 10, 11))
    assert (joining.group_state, joining.members[0].member_id) == (
        "CompletingRebalance",
        waiting.member_id,
    )
    assert joining.members[0].member_assignment == b""
    assert (dead.group_state, name(dead.error_code)) == ("Dead", "GROUP_ID_NOT_FOUND")
    (older,) = (await broker.ask(DescribeGroupsRequest(groups=["unheard"]), 5)).groups
    assert (older.group_state, older.error_code) == ("Dead", 0)


# Coordinators come and go.


async def test_whoever_is_not_the_coordinator_says_so(broker: GroupBroker) -> None:
    joined = await broker.stable()
    await broker.remake(state(B, leader_epoch=2, partition_epoch=2))
    for request, version in (
        (join_request(), 9),
        (sync_request("g", joined), 5),
        (HeartbeatRequest(group_id="g", generation_id=1, member_id=joined.member_id), 4),
        (LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="m")]), 5),
        (OffsetDeleteRequest(group_id="g", topics=[]), 0),
    ):
        assert name((await broker.ask(request, version)).error_code) == "NOT_COORDINATOR", request
    assert await broker.commit((0, 1)) == ["NOT_COORDINATOR"]
    assert await broker.committed() == {-1: "NOT_COORDINATOR"}
    (deleted,) = (await broker.ask(DeleteGroupsRequest(groups_names=["g"]), 2)).results
    (described,) = (await broker.ask(DescribeGroupsRequest(groups=["g"]), 6)).groups
    assert name(deleted.error_code) == name(described.error_code) == "NOT_COORDINATOR"


async def test_while_a_coordinator_loads(broker: GroupBroker) -> None:
    """Heartbeats are answered as if all were well: nobody knows better, and it is soon over."""
    joined = await broker.stable()
    await broker.remake(state(B, leader_epoch=2, partition_epoch=2))
    await broker.apply()
    shards = broker.edge.groups.shards
    await broker.remake(state(ME, leader_epoch=3, partition_epoch=3))
    assert shards.at(0) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    client = broker.connect()
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=joined.member_id)
    assert client.ask(beat, 4).error_code == 0
    assert name(client.ask(ListGroupsRequest(), 5).error_code) == "COORDINATOR_LOAD_IN_PROGRESS"
    client.send(join_request(), 9)
    await settle()
    (refused,) = client.responses()
    assert name(refused.error_code) == "COORDINATOR_LOAD_IN_PROGRESS"


async def test_members_that_wait_are_told_when_the_coordinator_goes(broker: GroupBroker) -> None:
    joined = await broker.stable()
    waiting = broker.connect()
    new = await broker.ask(join_request(), 9)
    waiting.send(join_request(member_id=new.member_id), 9)
    await settle()
    assert waiting.responses() == []
    await broker.remake(state(C, leader_epoch=2, partition_epoch=2))
    await settle()
    (told,) = waiting.responses()
    assert name(told.error_code) == "NOT_COORDINATOR"
    assert joined.member_id != new.member_id


async def test_a_deleted_topic_takes_its_offsets_along(broker: GroupBroker) -> None:
    await broker.commit((0, 1), (1, 2))
    await broker.forget_t()
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g")])
    assert (await broker.ask(request, 9)).groups[0].topics == []


async def test_sync_needs_its_protocol_from_version_5_on(broker: GroupBroker) -> None:
    joined = await broker.join()
    request = SyncGroupRequest(
        group_id="g", generation_id=1, member_id=joined.member_id, assignments=[]
    )
    assert (await broker.ask(request, 4)).error_code == 0


@pytest.mark.parametrize("version", [3, 9, 13])
async def test_clients_cannot_write_what_coordinators_keep(
    broker: GroupBroker, version: int
) -> None:
    data = PartitionProduceData(index=0, records=memoryview(batch(b"x")))
    topic = TopicProduceData(name=GROUPS_TOPIC, topic_id=OFFSETS_ID, partition_data=[data])
    client = broker.connect()
    for _ in range(2):
        client.send(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[topic]), version)
        (answer,) = client.responses()
        (refused,) = answer.responses[0].partition_responses
        assert name(refused.error_code) == "INVALID_TOPIC_EXCEPTION"
        data.records = memoryview(batch(b"x"))
    (shard,) = broker.edge.groups.shards
    assert shard.partition.log_end_offset == 0


async def test_what_is_too_large_for_the_log(broker: GroupBroker) -> None:
    await broker.configure("max.message.bytes", "300", topic=GROUPS_TOPIC)
    assert await broker.commit((0, 1)) == ["NONE"]
    assert await broker.commit((0, 2), metadata="x" * 300) == ["INVALID_COMMIT_OFFSET_SIZE"]
    assert await broker.committed() == {0: 1}
    joined = await broker.join()
    sync = sync_request("g", joined, joined.member_id)
    sync.assignments[0].assignment = bytes(300)
    assert name((await broker.ask(sync, 5)).error_code) == "UNKNOWN_SERVER_ERROR"
    described = (await broker.ask(DescribeGroupsRequest(groups=["g"]), 6)).groups[0]
    assert described.group_state == "PreparingRebalance"


async def test_names_that_no_record_can_hold(broker: GroupBroker) -> None:
    """Requests of flexible versions may carry them. Nothing is closed, nobody else notices."""
    long = "g" * 40_000
    assert name((await broker.ask(join_request(long), 9)).error_code) == "INVALID_GROUP_ID"
    assert await broker.commit((0, 1), group_id=long) == ["INVALID_GROUP_ID"]
    assert await broker.committed(long) == {-1: "INVALID_GROUP_ID"}
    for kind in (0, 1):
        looking = FindCoordinatorRequest(key_type=kind, coordinator_keys=[long, "g"])
        refused, _ = (await broker.ask(looking, 6)).coordinators
        assert (name(refused.error_code), refused.key) == ("INVALID_REQUEST", long)
    adding = AddOffsetsToTxnRequest(
        transactional_id="x", producer_id=1, producer_epoch=0, group_id=long
    )
    assert name((await broker.ask(adding, 4)).error_code) == "INVALID_GROUP_ID"
    begin = InitProducerIdRequest(transactional_id=long, transaction_timeout_ms=1_000)
    assert name((await broker.ask(begin, 4)).error_code) == "INVALID_REQUEST"
    joined = await broker.join(group_instance_id=long)
    sync = sync_request("g", joined, joined.member_id)
    sync.group_instance_id = long
    assert name((await broker.ask(sync, 5)).error_code) == "UNKNOWN_SERVER_ERROR"
    assert await broker.commit((0, 1), group_id="h") == ["NONE"]
