"""DescribeGroups: state, members and assignments of groups, from their coordinator."""

from ...protocol.acls import Resource
from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ..coordinator.group.classic import ClassicGroup
from ..coordinator.group.member import Member
from ..coordinator.group.phases import Phase
from ..net.answer import Call
from .common import operations_told
from .slices import answer_each

NOT_FOUND_FROM = 6


def handle(call: Call, request: DescribeGroupsRequest) -> object:
    """Describe each group; an unknown one is `Dead`, from version 6 on with GROUP_ID_NOT_FOUND.

    A group that is named more than once is described once.
    """

    def described(group_id: str) -> DescribedGroup:
        group = _describe(call, group_id)
        if request.include_authorized_operations and not group.error_code:
            group.authorized_operations = operations_told(call, Resource.GROUP, group_id)
        return group

    asked = list(dict.fromkeys(request.groups))
    return answer_each(call, asked, described, lambda told: DescribeGroupsResponse(groups=told))


def _describe(call: Call, group_id: str) -> DescribedGroup:
    shard = call.edge.groups.shards.of(group_id)
    if isinstance(shard, ErrorCode):
        return DescribedGroup(group_id=group_id, error_code=shard)
    group = shard.state.groups.get(group_id)
    if group is None:
        dead = DescribedGroup(group_id=group_id, group_state=Phase.DEAD.value)
        if call.version >= NOT_FOUND_FROM:
            dead.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            dead.error_message = f"Group {group_id} not found."
        return dead
    is_stable = group.phase is Phase.STABLE
    return DescribedGroup(
        group_id=group_id,
        group_state=group.phase.value,
        protocol_type=group.roster.protocol_type or "",
        protocol_data=(group.phases.protocol or "") if is_stable else "",
        members=[_member(group, each, is_stable) for each in group.roster.members.values()],
    )


def _member(group: ClassicGroup, member: Member, is_stable: bool) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata(group.phases.protocol) if is_stable else b"",
        member_assignment=member.assignment if is_stable else b"",
    )
