"""A group member that sends raw requests to simulated brokers, for scenarios of groups."""

from collections.abc import Mapping
from typing import Any

from minikafka.protocol.errors import ErrorCode, ProtocolError
from minikafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from minikafka.protocol.messages.heartbeat import HeartbeatRequest
from minikafka.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from minikafka.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from minikafka.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from minikafka.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from minikafka.runtime.errors import MinikafkaError

from ..simulation.stage import Stage

OFFSETS = "__consumer_offsets"
BROKER: Mapping[str, str] = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "3",
    "min.insync.replicas": "2",
}
MOVED = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)
PATIENCE_S = 60.0


class Member:
    """One member of a group, or somebody who only commits; asks again where that may help."""

    def __init__(self, stage: Stage, group: str = "g") -> None:
        self.stage = stage
        self.group = group
        self.member_id = ""
        self.generation = -1
        self.leads = False

    async def coordinator(self) -> int:
        """The broker that coordinates the group."""
        deadline = self.stage.now + PATIENCE_S
        while True:
            assert self.stage.now < deadline, "nobody coordinates the group"
            for broker_id, daemon in self.stage.cluster.brokers.items():
                if not daemon.alive:
                    continue
                try:
                    request = FindCoordinatorRequest(coordinator_keys=[self.group])
                    (found,) = (await self.stage.ask(broker_id, request, 4)).coordinators
                except (MinikafkaError, ProtocolError, OSError, TimeoutError):
                    continue
                if not found.error_code and self.stage.cluster.brokers[found.node_id].alive:
                    return int(found.node_id)
            await self.stage.sleep(0.05)

    async def coordinator_but(self, other: int) -> int:
        """Return the coordinator once it is another broker than `other`."""
        deadline = self.stage.now + PATIENCE_S
        while (found := await self.coordinator()) == other:
            assert self.stage.now < deadline, f"broker {other} coordinates the group for ever"
            await self.stage.sleep(0.05)
        return found

    async def ask(self, request: Any, version: int) -> Any:
        """Return the answer of the broker that is the coordinator by then."""
        deadline = self.stage.now + PATIENCE_S
        while True:
            assert self.stage.now < deadline, f"no answer to {request}"
            try:
                answer = await self.stage.ask(await self.coordinator(), request, version)
            except (MinikafkaError, ProtocolError, OSError, TimeoutError):
                continue
            if error_in(answer) not in MOVED:
                return answer
            await self.stage.sleep(0.02)

    async def commit(self, offset: int, partition: int = 0, topic: str = "t") -> str:
        """Commit; gives the error's name."""
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=offset
                        )
                    ],
                )
            ],
        )
        return error_in(await self.ask(request, 9)).name

    async def committed(self) -> dict[int, int]:
        """Offsets by partition of `t`."""
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=self.group)])
        (group,) = (await self.ask(request, 9)).groups
        return {
            each.partition_index: each.committed_offset
            for topic in group.topics
            for each in topic.partitions
        }

    async def join(self) -> str:
        """Join the group; return the error's name."""
        for _ in range(6):
            request = JoinGroupRequest(
                group_id=self.group,
                session_timeout_ms=10_000,
                rebalance_timeout_ms=10_000,
                member_id=self.member_id,
                protocol_type="test",
                protocols=[JoinGroupRequestProtocol(name="p", metadata=b"")],
            )
            answer = await self.ask(request, 9)
            error = ErrorCode(answer.error_code)
            if error is ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            elif error is not ErrorCode.MEMBER_ID_REQUIRED:
                self.generation = answer.generation_id
                self.leads = answer.leader == answer.member_id
                return error.name
            else:
                self.member_id = answer.member_id
        return error.name

    async def sync(self, assignments: Mapping[str, bytes] | None = None) -> bytes | str:
        """SyncGroup; the assignment, or the error's name."""
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type="test",
            protocol_name="p",
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
                for member_id, assignment in (assignments or {}).items()
            ],
        )
        answer = await self.ask(request, 5)
        error = ErrorCode(answer.error_code)
        return error.name if error else bytes(answer.assignment)

    async def beat(self) -> str:
        """Heartbeat; gives the error's name."""
        request = HeartbeatRequest(
            group_id=self.group, generation_id=self.generation, member_id=self.member_id
        )
        return ErrorCode((await self.ask(request, 4)).error_code).name


def error_in(answer: Any) -> ErrorCode:
    """The one error of an answer, wherever it stands."""
    if hasattr(answer, "groups"):
        return ErrorCode(answer.groups[0].error_code)
    if hasattr(answer, "topics"):
        return ErrorCode(answer.topics[0].partitions[0].error_code)
    return ErrorCode(answer.error_code)
