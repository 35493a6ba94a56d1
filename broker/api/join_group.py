"""JoinGroup: a member enters a group's next generation; answered when the generation begins."""

from ...protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from ..coordinator.group.values import Join, Joined, Protocol, Who
from ..net.answer import Answer, Call
from .common import client_host
from .parked import Parked

KNOWN_ID_FROM = 4
NULL_PROTOCOL_FROM = 7
SKIP_ASSIGNMENT_FROM = 9
REASON_MAX = 255
"""The most characters of a client's reason that are logged (KIP-800)."""


def handle(call: Call, request: JoinGroupRequest) -> Answer:
    """Pass the member to its group; the answer may have to wait for a whole rebalance."""
    answer = Parked(call)
    join = Join(
        who=Who(request.member_id, request.group_instance_id),
        client_id=call.client_id or "",
        client_host=client_host(call),
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=(
            request.rebalance_timeout_ms if call.version >= 1 else request.session_timeout_ms
        ),
        protocol_type=request.protocol_type,
        protocols=tuple(
            Protocol(protocol.name, bytes(protocol.metadata)) for protocol in request.protocols
        ),
        fresh_id=_fresh_id(call),
        needs_known_id=call.version >= KNOWN_ID_FROM,
        can_skip_assignment=call.version >= SKIP_ASSIGNMENT_FROM,
        reason=(request.reason or "no reason given")[:REASON_MAX],
    )
    call.edge.groups.join(
        request.group_id, join, lambda joined: answer.finish(_response(call, joined))
    )
    return answer


def _fresh_id(call: Call) -> str:
    """Return a random UUID for a new member's id."""
    digits = call.edge.runtime.rng.randbytes(16).hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _response(call: Call, joined: Joined) -> JoinGroupResponse:
    protocol = joined.protocol
    if protocol is None and call.version < NULL_PROTOCOL_FROM:
        protocol = ""
    return JoinGroupResponse(
        error_code=joined.error,
        generation_id=joined.generation,
        protocol_type=joined.protocol_type,
        protocol_name=protocol,
        leader=joined.leader,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=each.member_id,
                group_instance_id=each.instance_id,
                metadata=each.metadata,
            )
            for each in joined.members
        ],
    )
