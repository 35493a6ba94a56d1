"""SyncGroup: each member gets the assignment that the leader made, once it is committed."""

from ...protocol.errors import ErrorCode
from ...protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ..coordinator.group.values import Sync, Synced, Who
from ..net.answer import Answer, Call
from .parked import Parked

PROTOCOL_FROM = 5


def handle(call: Call, request: SyncGroupRequest) -> SyncGroupResponse | Answer:
    """Pass the request to the group; the answer waits for the group leader's assignment."""
    if call.version >= PROTOCOL_FROM and None in (request.protocol_type, request.protocol_name):
        # The fields may be null only for clients of older versions.
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    answer = Parked(call)
    sync = Sync(
        who=Who(request.member_id, request.group_instance_id),
        generation=request.generation_id,
        protocol_type=request.protocol_type,
        protocol=request.protocol_name,
        assignments=[(each.member_id, bytes(each.assignment)) for each in request.assignments],
    )
    call.edge.groups.sync(request.group_id, sync, lambda synced: answer.finish(_response(synced)))
    return answer


def _response(synced: Synced) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=synced.error,
        protocol_type=synced.protocol_type,
        protocol_name=synced.protocol,
        assignment=synced.assignment,
    )
