"""LeaveGroup: members leave their group, or an operator removes static members."""

from ...protocol.errors import ErrorCode
from ...protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from ..coordinator.group.values import Who
from ..net.answer import Call

SEVERAL_FROM = 3


def handle(call: Call, request: LeaveGroupRequest) -> LeaveGroupResponse:
    """Remove each member, with a result for each; up to version 2 a request has one member."""
    members = request.members
    if call.version < SEVERAL_FROM:
        members = [MemberIdentity(member_id=request.member_id)]
    leaving = [Who(each.member_id, each.group_instance_id) for each in members]
    errors = call.edge.groups.leave(request.group_id, leaving)
    if isinstance(errors, ErrorCode):
        return LeaveGroupResponse(error_code=errors)
    if call.version < SEVERAL_FROM:
        return LeaveGroupResponse(error_code=errors[0])
    return LeaveGroupResponse(
        members=[
            MemberResponse(
                member_id=each.member_id,
                group_instance_id=each.group_instance_id,
                error_code=error,
            )
            for each, error in zip(members, errors, strict=True)
        ]
    )
