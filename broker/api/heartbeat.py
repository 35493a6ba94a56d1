"""Heartbeat: a member reports that it is alive."""

from ...protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ..coordinator.group.values import Who
from ..net.answer import Call


def handle(call: Call, request: HeartbeatRequest) -> HeartbeatResponse:
    """Extend the member's session; the error code tells the member, for example, to join again."""
    who = Who(request.member_id, request.group_instance_id)
    error = call.edge.groups.heartbeat(request.group_id, who, request.generation_id)
    return HeartbeatResponse(error_code=error)
