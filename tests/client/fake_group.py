"""A group coordinator for the fake cluster: one group, kept by one broker that tests may change.

A model: a rebalance ends as soon as every member has joined, and sessions never time out.
"""

import asyncio
from typing import Any

import pytest

from minikafka.protocol.api import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import find_coordinator as fc
from minikafka.protocol.messages import heartbeat as hb
from minikafka.protocol.messages import join_group as jg
from minikafka.protocol.messages import leave_group as lg
from minikafka.protocol.messages import offset_commit as oc
from minikafka.protocol.messages import offset_fetch as of
from minikafka.protocol.messages import sync_group as sg
from minikafka.protocol.types import TopicPartition

from . import fake_broker
from .fake_broker import FakeCluster, FakeNode

UNKNOWN, ILLEGAL = ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION


class FakeGroup:
    """What one broker knows of the group."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.coordinator = next(iter(cluster.nodes))
        self.generation = 0
        self.members: dict[str, jg.JoinGroupRequest] = {}
        self.joining: dict[str, asyncio.Future[None]] = {}
        self.assignments: dict[str, bytes] = {}
        self.assigned = asyncio.Event()
        self.committed: dict[TopicPartition, tuple[int, int, str]] = {}
        """Offset, leader epoch, note."""
        self.commits: list[dict[TopicPartition, int]] = []
        self.refuse_commits: list[ErrorCode] = []
        """Codes for the next commits, one each."""
        self.refuse_joins: list[ErrorCode] = []
        self._names = 0

    def throw_out(self) -> None:
        """Forget every member, as after a session timeout."""
        self.members.clear()
        self.assignments.clear()

    def rebalance(self) -> None:
        """Ask everybody to join again."""
        self.assigned.clear()
        self.assignments.clear()

    def find(self, node: FakeNode, request: fc.FindCoordinatorRequest) -> Any:
        keeper = self.cluster.nodes[self.coordinator]
        where: Any = {"node_id": keeper.node_id, "host": "127.0.0.1", "port": keeper.port}
        found = [fc.Coordinator(key=key, **where) for key in request.coordinator_keys]
        return fc.FindCoordinatorResponse(coordinators=found, **where)

    def _is_known(self, node: FakeNode, member_id: str, generation: int) -> ErrorCode:
        if node.node_id != self.coordinator:
            return ErrorCode.NOT_COORDINATOR
        if member_id not in self.members:
            return UNKNOWN
        return ErrorCode.NONE if generation == self.generation else ILLEGAL

    async def join(self, node: FakeNode, request: jg.JoinGroupRequest) -> Any:
        if self.refuse_joins:
            return jg.JoinGroupResponse(error_code=int(self.refuse_joins.pop(0)))
        if node.node_id != self.coordinator:
            return jg.JoinGroupResponse(error_code=int(ErrorCode.NOT_COORDINATOR))
        member_id = request.member_id
        if not member_id:
            self._names += 1
            required = int(ErrorCode.MEMBER_ID_REQUIRED)
            return jg.JoinGroupResponse(error_code=required, member_id=f"m{self._names}")
        self.members[member_id] = request
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.joining[member_id] = done
        self.rebalance()
        self._complete()
        await done
        leader = min(self.members)
        first = self.members[leader].protocols[0].name
        members = [
            jg.JoinGroupResponseMember(member_id=one, metadata=bytes(said.protocols[0].metadata))
            for one, said in self.members.items()
        ]
        return jg.JoinGroupResponse(
            generation_id=self.generation,
            protocol_type="consumer",
            protocol_name=first,
            leader=leader,
            member_id=member_id,
            members=members if member_id == leader else [],
        )

    def _complete(self) -> None:
        if self.joining and set(self.joining) >= set(self.members):
            self.generation += 1
            joining, self.joining = self.joining, {}
            for done in joining.values():
                done.set_result(None)

    async def sync(self, node: FakeNode, request: sg.SyncGroupRequest) -> Any:
        code = self._is_known(node, request.member_id, request.generation_id)
        if code:
            return sg.SyncGroupResponse(error_code=int(code))
        if request.member_id == min(self.members):
            self.assignments = {one.member_id: one.assignment for one in request.assignments}
            self.assigned.set()
        await self.assigned.wait()
        mine = self.assignments.get(request.member_id, b"")
        return sg.SyncGroupResponse(assignment=bytes(mine))

    def heartbeat(self, node: FakeNode, request: hb.HeartbeatRequest) -> Any:
        code = self._is_known(node, request.member_id, request.generation_id)
        if not code and not self.assigned.is_set():
            code = ErrorCode.REBALANCE_IN_PROGRESS
        return hb.HeartbeatResponse(error_code=int(code))

    def leave(self, node: FakeNode, request: lg.LeaveGroupRequest) -> Any:
        for member_id in [request.member_id, *(one.member_id for one in request.members)]:
            self.members.pop(member_id, None)
        self.rebalance()
        self._complete()
        return lg.LeaveGroupResponse()

    def commit(self, node: FakeNode, request: oc.OffsetCommitRequest) -> Any:
        code = ErrorCode.NONE
        if self.refuse_commits:
            code = self.refuse_commits.pop(0)
        elif request.member_id or self.members:
            generation = request.generation_id_or_member_epoch
            code = self._is_known(node, request.member_id, generation)
        done: dict[TopicPartition, int] = {}
        topics = []
        for topic in request.topics:
            found = self.cluster.find(topic.name, topic.topic_id)
            assert found is not None
            results = []
            for one in topic.partitions:
                if not code:
                    at = TopicPartition(found.name, one.partition_index)
                    done[at] = one.committed_offset
                    note = one.committed_metadata or ""
                    epoch = one.committed_leader_epoch
                    self.committed[at] = (one.committed_offset, epoch, note)
                results.append(
                    oc.OffsetCommitResponsePartition(
                        partition_index=one.partition_index, error_code=int(code)
                    )
                )
            topics.append(
                oc.OffsetCommitResponseTopic(
                    name=topic.name, topic_id=topic.topic_id, partitions=results
                )
            )
        if done:
            self.commits.append(done)
        return oc.OffsetCommitResponse(topics=topics)

    def fetch(self, node: FakeNode, request: of.OffsetFetchRequest) -> Any:
        if not request.groups:
            return self._fetch_old(request)
        (group,) = request.groups
        wanted: dict[str, list[int]] = {}
        if group.topics is None:
            for name, index in self.committed:
                wanted.setdefault(name, []).append(index)
        for asked in group.topics or []:
            found = self.cluster.find(asked.name, asked.topic_id)
            wanted[found.name if found else asked.name] = asked.partition_indexes
        topics = []
        for name, indexes in wanted.items():
            topic = self.cluster.topics.get(name)
            answers = []
            for index in indexes:
                answer = of.OffsetFetchResponsePartitions(partition_index=index)
                stored = self.committed.get(TopicPartition(name, index))
                if stored is not None:
                    answer.committed_offset = stored[0]
                    answer.committed_leader_epoch, answer.metadata = stored[1:]
                answers.append(answer)
            topic_id = topic.topic_id if topic else bytes(16)
            topics.append(
                of.OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=answers)
            )
        group_answer = of.OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)
        return of.OffsetFetchResponse(groups=[group_answer])

    def _fetch_old(self, request: of.OffsetFetchRequest) -> Any:
        """Answer in the versions before requests for several groups."""
        topics = []
        for asked in request.topics or []:
            answers = [
                of.OffsetFetchResponsePartitions(
                    partition_index=index, committed_offset=stored[0], metadata=stored[2]
                )
                for index in asked.partition_indexes
                for stored in [self.committed.get(TopicPartition(asked.name, index), (-1, -1, ""))]
            ]
            topics.append(of.OffsetFetchResponseTopics(name=asked.name, partitions=answers))
        return of.OffsetFetchResponse(topics=topics)


def install(monkeypatch: pytest.MonkeyPatch, nodes: int = 1) -> tuple[FakeCluster, FakeGroup]:
    """Make a cluster whose brokers know groups."""
    keys: dict[int, str] = {
        ApiKey.FIND_COORDINATOR: "find",
        ApiKey.JOIN_GROUP: "join",
        ApiKey.SYNC_GROUP: "sync",
        ApiKey.HEARTBEAT: "heartbeat",
        ApiKey.LEAVE_GROUP: "leave",
        ApiKey.OFFSET_COMMIT: "commit",
        ApiKey.OFFSET_FETCH: "fetch",
    }
    for key in keys:
        monkeypatch.setitem(fake_broker.HANDLERS, key, fake_broker.HANDLERS.get(key))
    cluster = FakeCluster(nodes)
    group = FakeGroup(cluster)
    for key, name in keys.items():
        monkeypatch.setitem(fake_broker.HANDLERS, key, getattr(group, name))
    return cluster, group
