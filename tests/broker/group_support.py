"""A broker that coordinates groups: its edge over real logs, without a network."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from minikafka.broker.coordinator.group.state import GroupsState
from minikafka.broker.coordinator.keys import GROUPS_TOPIC
from minikafka.broker.coordinator.shard import Shard
from minikafka.broker.edge import Edge
from minikafka.broker.net.answer import Api
from minikafka.broker.net.timing import RequestTimes
from minikafka.broker.peers import Peers
from minikafka.protocol.control.image import PartitionState
from minikafka.protocol.control.records import TOPIC as TOPIC_RESOURCE
from minikafka.protocol.control.records import (
    ConfigRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from minikafka.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from minikafka.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from minikafka.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)

from .edge_support import Client, FakeController, Front, Stock
from .group_lab import Client as Member
from .node_support import ME, Node, state

OFFSETS_ID = b"offsets-topic-id"
T_ID = b"topic-t-has-an-i"
ALONE = state(ME, replicas=(ME,), isr=(ME,))


class GroupBroker(Node):
    """Broker 1, which leads `__consumer_offsets` (one partition) and `t` (four)."""

    edge: Edge
    peers: Peers
    apis: Mapping[int, Api]
    times: RequestTimes | None = None

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.controller = FakeController()

    async def open(self, offsets: PartitionState = ALONE, **settings: str) -> "GroupBroker":
        """Start with these settings, keys with underscores for dots."""
        await self.start()
        given = {
            "group.initial.rebalance.delay.ms": "0",
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
        mapping = {"node.id": str(ME), "controller.quorum.bootstrap.servers": "c:1", **given}
        stock = Stock(self.runtime, self.partitions, self.wheel, self, self.controller)
        front = Front(stock, mapping, self.defaults)
        self.edge, self.peers, self.apis = front.edge, front.peers, front.apis
        self.loaded = asyncio.Event()
        shards = self.edge.groups.shards
        on_loaded = shards.care.on_loaded

        def note(shard: Shard[GroupsState]) -> None:
            on_loaded(shard)
            self.loaded.set()

        shards.care = replace(shards.care, on_loaded=note)
        await self.apply(
            TopicRecord("t", T_ID), *(_record(T_ID, index, ALONE) for index in range(4))
        )
        await self.make_offsets_topic(offsets)
        return self

    async def make_offsets_topic(self, of: PartitionState = ALONE) -> None:
        self.loaded.clear()
        await self.apply(
            TopicRecord(GROUPS_TOPIC, OFFSETS_ID),
            ConfigRecord(TOPIC_RESOURCE, GROUPS_TOPIC, "cleanup.policy", "compact"),
            _record(OFFSETS_ID, 0, of),
        )
        if of.leader == ME:
            await self.loaded.wait()

    async def remake(self, of: PartitionState) -> None:
        """Apply a change of the one partition of the offsets topic."""
        self.loaded.clear()
        await self.apply(_record(OFFSETS_ID, 0, of))

    async def fail_over(self, epoch: int = 2) -> None:
        """Lose the leadership and get it back, so that all state is read from the log."""
        gone = state(2, replicas=(ME,), isr=(ME,), leader_epoch=epoch, partition_epoch=epoch)
        await self.remake(gone)
        back = epoch + 1
        await self.remake(
            state(ME, replicas=(ME,), isr=(ME,), leader_epoch=back, partition_epoch=back)
        )
        await self.loaded.wait()

    async def forget_t(self) -> None:
        names = [topic.name for topic in self.image.topics.values() if topic.topic_id == T_ID]
        await self.apply(RemoveTopicRecord(T_ID))
        self.edge.groups.upkeep.forget_topics(names)

    async def close(self) -> None:
        await self.edge.groups.close()
        await self.edge.transactions.close()
        await self.peers.close()
        await self.edge.producer_ids.close()
        await self.stop()

    def connect(self) -> Client:
        return Client(self, "PLAINTEXT")  # type: ignore[arg-type]

    async def ask(self, message: object, version: int) -> Any:
        """Send one request over a connection of its own, and return the answer."""
        client = self.connect()
        client.send(message, version)
        found = client.responses() or await client.next_responses()
        (response,) = found
        return response

    # Members.

    async def join(self, group_id: str = "g", version: int = 9, **changes: Any) -> Any:
        """JoinGroup, twice for a new member."""
        answer = await self.ask(join_request(group_id, **changes), version)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            changes["member_id"] = answer.member_id
            answer = await self.ask(join_request(group_id, **changes), version)
        return answer

    async def stable(self, group_id: str = "g", **changes: Any) -> JoinGroupResponse:
        """Make a group of one member, with its assignment."""
        joined: JoinGroupResponse = await self.join(group_id, **changes)
        assert joined.error_code == 0
        synced = await self.ask(sync_request(group_id, joined, joined.member_id), 5)
        assert synced.error_code == 0
        return joined

    async def commit(self, *offsets: tuple[int, int], version: int = 9, **changes: Any) -> Any:
        """Commit (partition, offset) in `t`; return the error codes."""
        answer = await self.ask(commit_request(*offsets, **changes), version)
        return [
            ErrorCode(each.error_code).name for topic in answer.topics for each in topic.partitions
        ]

    async def committed(
        self, group_id: str = "g", *, stable: bool = False, version: int = 9
    ) -> dict[int, Any]:
        """Return the committed offsets in `t` by partition, or the error's name."""
        request = OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(
                    group_id=group_id,
                    topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0, 1, 2, 3])],
                )
            ],
            require_stable=stable,
        )
        (group,) = (await self.ask(request, version)).groups
        if group.error_code:
            return {-1: ErrorCode(group.error_code).name}
        return {
            each.partition_index: (
                ErrorCode(each.error_code).name if each.error_code else each.committed_offset
            )
            for topic in group.topics
            for each in topic.partitions
            if each.committed_offset >= 0 or each.error_code
        }


def join_request(group_id: str = "g", **changes: Any) -> JoinGroupRequest:
    protocols = changes.pop("protocols", ("range",))
    topics = changes.pop("topics", ("t",))
    said = Member("m", tuple(protocols), tuple(topics)).spoken()
    fields: dict[str, Any] = {
        "group_id": group_id,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 30_000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequestProtocol(name=n, metadata=m) for n, m in said],
    }
    return JoinGroupRequest(**(fields | changes))


def sync_request(group_id: str, joined: JoinGroupResponse, *members: str) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=group_id,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type=joined.protocol_type,
        protocol_name=joined.protocol_name,
        assignments=[
            SyncGroupRequestAssignment(member_id=each, assignment=each.encode()) for each in members
        ],
    )


def commit_request(*offsets: tuple[int, int], **changes: Any) -> OffsetCommitRequest:
    topic = changes.pop("topic", "t")
    metadata = changes.pop("metadata", None)
    fields: dict[str, Any] = {
        "group_id": "g",
        "topics": [
            OffsetCommitRequestTopic(
                name=topic,
                topic_id=changes.pop("topic_id", T_ID),
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index, committed_offset=offset, committed_metadata=metadata
                    )
                    for index, offset in offsets
                ],
            )
        ],
    }
    return OffsetCommitRequest(**(fields | changes))


def _record(topic_id: bytes, index: int, one: PartitionState) -> PartitionRecord:
    return PartitionRecord(
        topic_id=topic_id,
        partition=index,
        replicas=one.replicas,
        isr=one.isr,
        leader=one.leader,
        leader_epoch=one.leader_epoch,
        partition_epoch=one.partition_epoch,
    )
