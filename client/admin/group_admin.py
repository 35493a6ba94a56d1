"""The part of the admin that is about groups: who is in them, and how far they have come.

Knows the messages. A group is asked about at its coordinator, which is found for each.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from ...protocol.api import ApiKey
from ...protocol.consumer_protocol import decode_assignment
from ...protocol.errors import ApiError, ErrorCode, ProtocolError
from ...protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ...protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ...protocol.messages.find_coordinator import CoordinatorType
from ...protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ...protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ...protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ...protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from ...protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from ...protocol.types import TopicPartition
from ..coordinator import Coordinator
from ..errors import AdminError
from ..group_types import OffsetAndMetadata, with_metadata
from ..net.connection import KafkaConnection
from .asking import Asking
from .group_types import GroupDescription, GroupListing, GroupMember

T = TypeVar("T")
CONSUMERS: Final = ("consumer", "")
"""Protocol types of groups whose assignments are partitions."""
BY_NAME: Final = 9
"""Up to this version offsets name topics, later ones their ids."""
STATES_VERSION: Final = 4
TYPES_VERSION: Final = 5
MANY_MEMBERS_VERSION: Final = 3
MOST_COORDINATORS: Final = 256
"""Remembered for groups and transactional ids; some are asked about once and never again."""


class GroupAdmin(Asking):
    """What an admin can ask about groups, and change of them."""

    _coordinators: dict[tuple[CoordinatorType, str], Coordinator]

    async def list_groups(
        self, *, states: Sequence[str] = (), types: Sequence[str] = ()
    ) -> list[GroupListing]:
        """List groups by name, of all brokers; only in these states and of these types."""

        async def ask(connection: KafkaConnection) -> list[GroupListing]:
            version = connection.version_of(ApiKey.LIST_GROUPS)
            request = ListGroupsRequest(
                states_filter=list(states) if version >= STATES_VERSION else [],
                types_filter=list(types) if version >= TYPES_VERSION else [],
            )
            response: ListGroupsResponse = await self._request(connection, request)
            raise_for(response.error_code, f"broker at {connection.address}")
            return [
                GroupListing(one.group_id, one.protocol_type, one.group_state, one.group_type)
                for one in response.groups
            ]

        found = await self._every_broker(ask)
        return sorted({one.group_id: one for part in found.values() for one in part}.values())

    async def describe_groups(self, group_ids: Iterable[str]) -> dict[str, GroupDescription]:
        """Describe groups; AdminError names those that do not exist."""

        async def ask(coordinator: Coordinator, group_id: str) -> GroupDescription:
            request = DescribeGroupsRequest(groups=[group_id])
            response: DescribeGroupsResponse = await self._coordinated(
                coordinator, request, lambda answer: answer.groups[0].error_code
            )
            (group,) = response.groups
            raise_for(group.error_code, group.error_message or group_id)
            return _description(group, -1 if coordinator.node_id is None else coordinator.node_id)

        return await self._each_coordinated(group_ids, ask)

    async def delete_groups(self, group_ids: Iterable[str]) -> None:
        """Delete groups without members, and their offsets; AdminError names those refused."""

        async def ask(coordinator: Coordinator, group_id: str) -> None:
            request = DeleteGroupsRequest(groups_names=[group_id])
            response: DeleteGroupsResponse = await self._coordinated(
                coordinator, request, lambda answer: answer.results[0].error_code
            )
            raise_for(response.results[0].error_code)

        await self._each_coordinated(group_ids, ask)

    async def remove_members(
        self,
        group_id: str,
        *,
        instance_ids: Iterable[str] | None = None,
        reason: str = "removed by an admin",
    ) -> None:
        """Send static members away, or all members; AdminError names those that are not there."""
        if instance_ids is not None:
            members = [
                MemberIdentity(group_instance_id=name, reason=reason) for name in instance_ids
            ]
        else:
            described = (await self.describe_groups([group_id]))[group_id]
            members = [
                MemberIdentity(
                    member_id="" if one.group_instance_id else one.member_id,
                    group_instance_id=one.group_instance_id,
                    reason=reason,
                )
                for one in described.members
            ]
        if not members:
            return
        request = LeaveGroupRequest(group_id=group_id, members=members)
        coordinator = self._coordinator(CoordinatorType.GROUP, group_id)
        response: LeaveGroupResponse = await self._coordinated(
            coordinator, request, lambda answer: answer.error_code
        )
        raise_for(response.error_code, group_id)
        _raise_refused(
            {
                one.group_instance_id or one.member_id: one.error_code
                for one in response.members
                if one.error_code
            }
        )

    # -- offsets

    async def list_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Give what a group has committed, in these partitions or in all.

        With `require_stable` waits for transactions that are about to change it.
        """
        topics = None if partitions is None else _indexes_by_topic(partitions)
        request = OffsetFetchRequest(
            group_id=group_id,
            topics=None
            if topics is None
            else [
                OffsetFetchRequestTopic(name=name, partition_indexes=indexes)
                for name, indexes in topics.items()
            ],
            groups=[
                OffsetFetchRequestGroup(
                    group_id=group_id,
                    topics=None
                    if topics is None
                    else [
                        OffsetFetchRequestTopics(name=name, partition_indexes=indexes)
                        for name, indexes in topics.items()
                    ],
                )
            ],
            require_stable=require_stable,
        )
        coordinator = self._coordinator(CoordinatorType.GROUP, group_id)
        response: OffsetFetchResponse = await self._coordinated(
            coordinator, request, _fetch_error, at_most=BY_NAME
        )
        raise_for(_fetch_error(response), group_id)
        found: dict[TopicPartition, OffsetAndMetadata] = {}
        for part in _parts(response):
            for topic in part.topics:
                for one in topic.partitions:
                    if one.committed_offset >= 0:
                        found[TopicPartition(topic.name, one.partition_index)] = OffsetAndMetadata(
                            one.committed_offset, one.metadata or "", one.committed_leader_epoch
                        )
        return found

    async def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata | int]
    ) -> None:
        """Commit offsets for a group without members; AdminError names partitions refused."""
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for (name, index), given in offsets.items():
            position = with_metadata(given)
            topic = topics.setdefault(name, OffsetCommitRequestTopic(name=name, partitions=[]))
            topic.partitions.append(
                OffsetCommitRequestPartition(
                    partition_index=index,
                    committed_offset=position.offset,
                    committed_leader_epoch=position.leader_epoch,
                    committed_metadata=position.metadata,
                )
            )
        request = OffsetCommitRequest(group_id=group_id, topics=list(topics.values()))
        coordinator = self._coordinator(CoordinatorType.GROUP, group_id)
        response: OffsetCommitResponse = await self._coordinated(
            coordinator, request, _partition_error, at_most=BY_NAME
        )
        _raise_refused(_refused_partitions(response))

    async def delete_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> None:
        """Forget a group's offsets in partitions that it does not read any more."""
        request = OffsetDeleteRequest(
            group_id=group_id,
            topics=[
                OffsetDeleteRequestTopic(
                    name=name,
                    partitions=[OffsetDeleteRequestPartition(partition_index=i) for i in indexes],
                )
                for name, indexes in _indexes_by_topic(partitions).items()
            ],
        )
        coordinator = self._coordinator(CoordinatorType.GROUP, group_id)
        response: OffsetDeleteResponse = await self._coordinated(
            coordinator, request, lambda answer: answer.error_code or _partition_error(answer)
        )
        raise_for(response.error_code, group_id)
        _raise_refused(_refused_partitions(response))

    # -- coordinators

    def _coordinator(self, kind: CoordinatorType, key: str) -> Coordinator:
        known = self._coordinators.pop((kind, key), None)
        if known is None:
            known = Coordinator(self._runtime, self.config, self._metadata, key, kind)
        self._coordinators[kind, key] = known
        if len(self._coordinators) > MOST_COORDINATORS:
            # The one that was used longest ago; whoever still asks it goes on.
            del self._coordinators[next(iter(self._coordinators))]
        return known

    async def _coordinated(
        self,
        coordinator: Coordinator,
        request: object,
        code_of: Callable[[Any], int],
        *,
        at_most: int | None = None,
    ) -> Any:
        self._check_open()
        return await coordinator.ask(
            request,
            lambda answer: ErrorCode(code_of(answer)),
            timeout_ms=self.config.default_api_timeout_ms,
            at_most=at_most,
        )

    async def _each_coordinated(
        self,
        keys: Iterable[str],
        ask: Callable[[Coordinator, str], Awaitable[T]],
        kind: CoordinatorType = CoordinatorType.GROUP,
    ) -> dict[str, T]:
        """Ask the coordinator of each key, all at once; AdminError where some are refused."""
        names = list(dict.fromkeys(keys))
        answers = await asyncio.gather(
            *(ask(self._coordinator(kind, name), name) for name in names), return_exceptions=True
        )
        done: dict[str, T] = {}
        errors: dict[str, ApiError] = {}
        for name, answer in zip(names, answers, strict=True):
            if isinstance(answer, ApiError):
                errors[name] = answer
            elif isinstance(answer, BaseException):
                raise answer
            else:
                done[name] = answer
        if errors:
            raise AdminError(errors)
        return done


def raise_for(code: int, detail: str = "") -> None:
    """Raise ApiError unless the code is NONE."""
    if code:
        raise ApiError(ErrorCode(code), detail)


def _description(group: DescribedGroup, coordinator_id: int) -> GroupDescription:
    is_of_consumers = group.protocol_type in CONSUMERS
    return GroupDescription(
        group.group_id,
        group.group_state,
        group.protocol_type,
        group.protocol_data,
        tuple(_member(one, is_of_consumers=is_of_consumers) for one in group.members),
        coordinator_id,
    )


def _member(member: DescribedGroupMember, *, is_of_consumers: bool) -> GroupMember:
    assigned: list[TopicPartition] = []
    if is_of_consumers and member.member_assignment:
        try:
            decoded = decode_assignment(bytes(member.member_assignment))
        except ProtocolError:
            decoded = None  # of some other protocol that calls itself consumer
        if decoded is not None:
            for topic in decoded.assigned_partitions:
                assigned.extend(TopicPartition(topic.topic, i) for i in topic.partitions)
    return GroupMember(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        tuple(sorted(assigned)),
    )


def _indexes_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, index in partitions:
        found.setdefault(topic, []).append(index)
    return found


def _parts(
    response: OffsetFetchResponse,
) -> Sequence[OffsetFetchResponse | OffsetFetchResponseGroup]:
    """One group's offsets up to version 7, a list of groups from then on."""
    return response.groups or [response]


def _fetch_error(response: OffsetFetchResponse) -> int:
    for part in _parts(response):
        if part.error_code:
            return int(part.error_code)
        for topic in part.topics:
            for one in topic.partitions:
                if one.error_code:
                    return int(one.error_code)
    return 0


def _partition_error(response: OffsetCommitResponse | OffsetDeleteResponse) -> int:
    codes = _refused_partitions(response).values()
    # The group's own trouble is told in every partition.
    return next(iter(codes), 0)


def _refused_partitions(response: OffsetCommitResponse | OffsetDeleteResponse) -> dict[str, int]:
    return {
        f"{topic.name}-{one.partition_index}": one.error_code
        for topic in response.topics
        for one in topic.partitions
        if one.error_code
    }


def _raise_refused(codes: Mapping[str, int]) -> None:
    if codes:
        raise AdminError({name: ApiError(ErrorCode(code)) for name, code in codes.items()})
