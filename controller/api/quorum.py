"""The requests of voters to each other, which are passed to the quorum."""

from typing import TYPE_CHECKING, Any

from ...protocol.control.messages import ROLE_CONTROLLER
from ...protocol.control.quorum_messages import QuorumRequest
from ...protocol.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from .session import Session


async def answer(session: "Session", request: QuorumRequest) -> Any:
    """Pass the request to the quorum; raise ApiError if the sender is not a controller."""
    greeting = session.greeting
    if greeting is None or greeting.role != ROLE_CONTROLLER:
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "only controllers vote and fetch")
    return await session.server.controller.quorum.answer(request)
