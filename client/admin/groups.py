"""Lists, describes and deletes groups, and removes their members.

Requests about one group are sent to its coordinator.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from ...protocol.api import ApiKey
from ...protocol.consumer_protocol import decode_assignment
from ...protocol.errors import ProtocolError
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
from ...protocol.types import TopicPartition
from ..coordinator import Coordinator
from ..net.connection import KafkaConnection
from ..outcomes import Outcomes, done_of, error_of, raise_for
from .asking import Asking
from .group_types import GroupDescription, GroupListing, GroupMember

CONSUMERS: Final = ("consumer", "")
"""The protocol types of groups whose members' assignments are partitions."""
STATES_VERSION: Final = 4
TYPES_VERSION: Final = 5


async def list_groups(
    asking: Asking, *, states: Sequence[str] = (), types: Sequence[str] = ()
) -> list[GroupListing]:
    """List the groups of all brokers, sorted by name.

    If `states` or `types` is given, list only groups in these states or of these types. Raise
    ApiError if a broker refuses.
    """

    async def ask(connection: KafkaConnection) -> list[GroupListing]:
        version = connection.versions.of(ApiKey.LIST_GROUPS)
        request = ListGroupsRequest(
            states_filter=list(states) if version >= STATES_VERSION else [],
            types_filter=list(types) if version >= TYPES_VERSION else [],
        )
        response: ListGroupsResponse = await asking.request(connection, request)
        raise_for(response.error_code, f"broker at {connection.address}")
        return [
            GroupListing(one.group_id, one.protocol_type, one.group_state, one.group_type)
            for one in response.groups
        ]

    found = await asking.every_broker(ask)
    return sorted({one.group_id: one for part in found.values() for one in part}.values())


async def describe_groups(asking: Asking, group_ids: Iterable[str]) -> dict[str, GroupDescription]:
    """Describe groups; AdminError names those that do not exist."""

    async def ask(coordinator: Coordinator, group_id: str) -> GroupDescription:
        request = DescribeGroupsRequest(groups=[group_id])
        response: DescribeGroupsResponse = await asking.coordinated(
            coordinator, request, lambda answer: answer.groups[0].error_code
        )
        (group,) = response.groups
        raise_for(group.error_code, group.error_message or group_id)
        return _description(group, -1 if coordinator.node_id is None else coordinator.node_id)

    return await asking.each_coordinated(CoordinatorType.GROUP, group_ids, ask)


async def delete_groups(asking: Asking, group_ids: Iterable[str]) -> None:
    """Delete groups without members, and their offsets; AdminError names the refused groups."""

    async def ask(coordinator: Coordinator, group_id: str) -> None:
        request = DeleteGroupsRequest(groups_names=[group_id])
        response: DeleteGroupsResponse = await asking.coordinated(
            coordinator, request, lambda answer: answer.results[0].error_code
        )
        raise_for(response.results[0].error_code)

    await asking.each_coordinated(CoordinatorType.GROUP, group_ids, ask)


async def remove_members(
    asking: Asking,
    group_id: str,
    *,
    instance_ids: Iterable[str] | None = None,
    reason: str = "removed by an admin",
) -> None:
    """Remove these static members, or all members if `instance_ids` is None.

    Raise AdminError with the members that the group does not have.
    """
    if instance_ids is not None:
        members = [MemberIdentity(group_instance_id=name, reason=reason) for name in instance_ids]
    else:
        described = (await describe_groups(asking, [group_id]))[group_id]
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
    coordinator = asking.coordinators.of(CoordinatorType.GROUP, group_id)
    response: LeaveGroupResponse = await asking.coordinated(
        coordinator,
        LeaveGroupRequest(group_id=group_id, members=members),
        lambda answer: answer.error_code,
    )
    raise_for(response.error_code, group_id)
    outcomes: Outcomes[None] = {
        one.group_instance_id or one.member_id: error_of(one.error_code) for one in response.members
    }
    done_of(outcomes)


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
            decoded = None  # written by another protocol that is also named consumer
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
