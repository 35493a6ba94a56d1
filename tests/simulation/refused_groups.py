"""Bad requests to groups: unknown or outdated members, static ones twice, groups in use."""

import asyncio
from dataclasses import replace
from typing import Any

from minikafka.protocol.consumer_protocol import ConsumerProtocolSubscription, encode_subscription
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from minikafka.protocol.messages.delete_groups import DeleteGroupsRequest
from minikafka.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from minikafka.protocol.messages.describe_groups import DescribeGroupsRequest
from minikafka.protocol.messages.find_coordinator import CoordinatorType
from minikafka.protocol.messages.heartbeat import HeartbeatRequest
from minikafka.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from minikafka.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from minikafka.protocol.messages.list_groups import ListGroupsRequest
from minikafka.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from minikafka.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from minikafka.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from minikafka.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

from .refusals import TOPIC, Due, Refused, Story, Unsaid, Wrong
from .variety import GROUP_MOST

BY_NAME = 9
"""The last version in which commits name topics; later ones have their ids."""
RETENTION_VERSION = 4
"""The last version in which a client may set how long offsets are kept."""
SESSION_MS = 20_000
SHORT_MS = 6000
LOOKED_FOR_S = 6
"""Seconds within which a broker looks for expired offsets."""
NONE = ErrorCode.NONE
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
OLD = ErrorCode.ILLEGAL_GENERATION
FENCED = ErrorCode.FENCED_INSTANCE_ID
MOVING = ErrorCode.REBALANCE_IN_PROGRESS
SPEAKS = encode_subscription(ConsumerProtocolSubscription(topics=[TOPIC]))
SPEAKS_OTHERWISE = encode_subscription(ConsumerProtocolSubscription(topics=["other", TOPIC]))


class Group:
    """One group, with requests to its coordinator."""

    def __init__(self, refused: Refused, name: str, broker: int) -> None:
        self.refused = refused
        self.name = name
        self.broker = broker

    @classmethod
    async def fresh(cls, refused: Refused) -> "Group":
        name = refused.fresh("refused-group")
        return cls(refused, name, await refused.coordinator(name, CoordinatorType.GROUP))

    async def due(self, request: Any, due: Due, version: int | None = None, lane: int = 0) -> Any:
        return await self.refused.due(self.broker, request, due, version, lane)

    async def join(
        self, due: Due, member: str = "", instance: str | None = None, **more: Any
    ) -> Any:
        """Send JoinGroup; `speaks` is the member's metadata, `kind` the protocol type."""
        protocol = JoinGroupRequestProtocol(name="range", metadata=more.get("speaks", SPEAKS))
        request = JoinGroupRequest(
            group_id=self.name,
            session_timeout_ms=more.get("session_ms", SESSION_MS),
            rebalance_timeout_ms=SESSION_MS,
            member_id=member,
            group_instance_id=instance,
            protocol_type=more.get("kind", "consumer"),
            protocols=[protocol],
        )
        return await self.due(request, due, lane=more.get("lane", 0))

    async def sync(self, due: Due, member: str, generation: int, protocol: str = "range") -> None:
        assignment = SyncGroupRequestAssignment(member_id=member, assignment=b"all")
        request = SyncGroupRequest(
            group_id=self.name,
            generation_id=generation,
            member_id=member,
            protocol_type="consumer",
            protocol_name=protocol,
            assignments=[assignment],
        )
        await self.due(request, due)

    async def heartbeat(
        self, due: Due, member: str, generation: int, instance: str | None = None
    ) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=self.name,
            generation_id=generation,
            member_id=member,
            group_instance_id=instance,
        )
        return ErrorCode((await self.due(request, due)).error_code)

    async def until_moving(self, member: str, generation: int) -> None:
        """Wait for a rebalance that another member has caused, on a connection of its own."""
        for _ in range(50):
            if await self.heartbeat((NONE, MOVING), member, generation) is MOVING:
                return
            await asyncio.sleep(0.1)
        await self.heartbeat(MOVING, member, generation)

    async def commit(self, due: Due, member: str = "", generation: int = -1, **more: Any) -> None:
        """Send OffsetCommit. `note` is the commit's metadata, `version` the request's version."""
        partition = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=0, committed_metadata=more.get("note", "")
        )
        topic = OffsetCommitRequestTopic(name=more.get("topic", TOPIC), partitions=[partition])
        request = OffsetCommitRequest(
            group_id=self.name,
            generation_id_or_member_epoch=generation,
            member_id=member,
            retention_time_ms=more.get("retention_ms", -1),
            topics=[topic],
        )
        # The coordinator may not have heard of the topic.
        wanted = due if isinstance(due, tuple) else (due,)
        wanted = (*wanted, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) if NONE in wanted else wanted
        await self.due(request, wanted, more.get("version", BY_NAME))

    async def leave(self, due: Due, member: str = "", instance: str | None = None) -> None:
        who = MemberIdentity(member_id=member, group_instance_id=instance)
        await self.due(LeaveGroupRequest(group_id=self.name, members=[who]), due)

    async def delete(self, due: Due) -> None:
        await self.due(DeleteGroupsRequest(groups_names=[self.name]), due)

    async def delete_offsets(self, due: Due, topic: str = TOPIC) -> None:
        partition = OffsetDeleteRequestPartition(partition_index=0)
        topics = [OffsetDeleteRequestTopic(name=topic, partitions=[partition])]
        await self.due(OffsetDeleteRequest(group_id=self.name, topics=topics), due)

    async def look(self) -> None:
        """Describe and list the group, which always succeeds."""
        await self.due(DescribeGroupsRequest(groups=[self.name]), NONE, version=5)
        await self.due(ListGroupsRequest(), NONE)
        await self.due(ListGroupsRequest(states_filter=["Stable"], types_filter=["classic"]), NONE)
        group = OffsetFetchRequestGroup(group_id=self.name, topics=None)
        await self.due(OffsetFetchRequest(groups=[group]), NONE, version=BY_NAME)


async def unknown(refused: Refused) -> None:
    """Send requests to an unknown group, of which only a commit without a member succeeds."""
    group = await Group.fresh(refused)
    gone = ErrorCode.GROUP_ID_NOT_FOUND
    await group.delete(gone)
    await group.delete_offsets(gone)
    await group.heartbeat(UNKNOWN, "nobody", 1)
    await group.sync(UNKNOWN, "nobody", 1)
    await group.leave(UNKNOWN, "nobody")
    await group.join(UNKNOWN, "nobody")
    await group.join(ErrorCode.INVALID_SESSION_TIMEOUT, session_ms=1)
    await group.join(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, kind="")
    await group.commit(gone, "nobody", 3)
    await group.commit(OLD, "nobody", 3, version=BY_NAME - 1)
    await group.commit(ErrorCode.OFFSET_METADATA_TOO_LARGE, note="x" * 5000)
    await group.commit(NONE)
    await group.look()
    await group.delete_offsets((NONE, gone))
    await group.commit(NONE)
    await group.delete((NONE, gone))
    await group.delete(gone)


async def members(refused: Refused) -> None:
    """Send requests to a group of one member, with wrong members and generations."""
    group = await Group.fresh(refused)
    given = (await group.join(ErrorCode.MEMBER_ID_REQUIRED)).member_id
    await group.join(UNKNOWN, given, "static")
    await group.leave(UNKNOWN, given, "static")
    joined = await group.join(NONE, given)
    generation = joined.generation_id
    await group.commit(MOVING, given, generation)
    await group.join(NONE, given)  # The answer was lost.
    await group.sync(OLD, given, generation + 1)
    await group.sync(UNKNOWN, "nobody", generation)
    await group.sync(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, given, generation, "roundrobin")
    await group.sync(NONE, given, generation)
    await group.sync(NONE, given, generation)
    await group.heartbeat(OLD, given, generation - 1)
    await group.heartbeat(UNKNOWN, "nobody", generation)
    await group.heartbeat(UNKNOWN, given, generation, "static")
    await group.heartbeat(NONE, given, generation)
    await group.commit(UNKNOWN)
    await group.commit(UNKNOWN, "nobody", generation)
    await group.commit(OLD, given, generation + 1)
    await group.commit(NONE, given, generation)
    await group.join(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, kind="connect")
    await group.look()
    await group.delete(ErrorCode.NON_EMPTY_GROUP)
    await group.delete_offsets(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
    await group.delete_offsets(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no-such-topic")
    await group.leave(UNKNOWN, instance="static")
    await group.leave(UNKNOWN, "nobody")
    await group.leave(NONE, given)
    await group.heartbeat(UNKNOWN, given, generation)
    await group.delete_offsets(NONE)
    # Without members and offsets, upkeep may have been first.
    await group.delete((NONE, ErrorCode.GROUP_ID_NOT_FOUND))
    await group.delete(ErrorCode.GROUP_ID_NOT_FOUND)


async def static(refused: Refused) -> None:
    """Let a static member join a second time, which fences the first."""
    group = await Group.fresh(refused)
    first = await group.join(NONE, instance="one")
    await group.sync(NONE, first.member_id, first.generation_id)
    again = await group.join(NONE, instance="one")
    await group.heartbeat(FENCED, first.member_id, first.generation_id, "one")
    await group.leave(FENCED, first.member_id, "one")
    await group.join(FENCED, first.member_id, "one")
    await group.commit(NONE, again.member_id, again.generation_id)
    # A second one: the group waits until the first has joined again.
    joining = asyncio.ensure_future(group.join(NONE, instance="two", lane=1))
    try:
        await group.until_moving(again.member_id, again.generation_id)
        await group.sync(MOVING, again.member_id, again.generation_id)
        await group.join(NONE, again.member_id, "one", speaks=SPEAKS_OTHERWISE)
        second = await joining
    finally:
        await _given_up([joining])
    await group.leave(NONE, instance="two")
    await group.heartbeat(UNKNOWN, second.member_id, second.generation_id, "two")
    await group.delete(ErrorCode.NON_EMPTY_GROUP)
    await group.leave(NONE, instance="one")
    await group.delete(NONE)


async def _given_up(joining: list["asyncio.Task[Any]"]) -> None:
    """End the joins that are still under way, and retrieve their errors."""
    for each in joining:
        each.cancel()
    await asyncio.gather(*joining, return_exceptions=True)


async def full(refused: Refused) -> None:
    """Let more members join than a group may have; some of them must be refused."""
    group = await Group.fresh(refused)
    full_or_in = (NONE, ErrorCode.GROUP_MAX_SIZE_REACHED)
    joining = [
        asyncio.ensure_future(
            group.join(full_or_in, instance=f"member-{lane}", lane=lane, session_ms=SHORT_MS)
        )
        for lane in range(1, GROUP_MOST + 3)
    ]
    try:
        # The first is alone, or in with all who came soon enough; the others wait for it.
        await asyncio.wait(joining, timeout=2)
        answers = [each.result() for each in joining if each.done()]
        if not any(each.error_code for each in answers):
            raise Wrong(f"{len(joining)} joined {group.name}, {GROUP_MOST} may be in")
    finally:
        await _given_up(joining)


async def forgotten(refused: Refused) -> None:
    """Commit an offset that is kept for a millisecond; the group must be gone soon after."""
    group = await Group.fresh(refused)
    await group.commit(NONE, version=RETENTION_VERSION, retention_ms=1)
    await asyncio.sleep(LOOKED_FOR_S)
    gone = ErrorCode.GROUP_ID_NOT_FOUND
    await group.delete(gone if refused.stopping else (gone, NONE))


async def of_a_topic(refused: Refused) -> None:
    """Commit an offset of a topic, and delete the topic; the offset must go with it."""
    group = await Group.fresh(refused)
    name = refused.fresh("refused-mortal")
    shape = replace(refused.topic, name=name)
    configs = [CreatableTopicConfig(name=key, value=value) for key, value in shape.configs.items()]
    topic = CreatableTopic(
        name=name, num_partitions=1, replication_factor=shape.replication, configs=configs
    )
    made = await group.due(
        CreateTopicsRequest(topics=[topic], timeout_ms=2000),
        (NONE, ErrorCode.INVALID_REPLICATION_FACTOR),
    )
    if made.topics[0].error_code:
        raise Unsaid("too few brokers are alive")
    await asyncio.sleep(1)
    await group.commit(NONE, topic=name)
    gone = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=2000)
    await group.due(gone, NONE)
    await asyncio.sleep(1)
    unheard = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await group.commit(unheard if refused.stopping else (unheard, NONE), topic=name)
    await group.delete((NONE, ErrorCode.GROUP_ID_NOT_FOUND))


STORIES: dict[str, Story] = {
    "unknown-groups": unknown,
    "unknown-members": members,
    "static-members": static,
    "full-groups": full,
    "forgotten-offsets": forgotten,
    "offsets-of-a-topic": of_a_topic,
}
