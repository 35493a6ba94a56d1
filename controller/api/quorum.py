"""The requests of voters to each other, which are passed to the quorum."""

from typing import TYPE_CHECKING, Any

from ...protocol.control.quorum_messages import QuorumRequest

if TYPE_CHECKING:
    from .session import Session


async def answer(session: "Session", request: QuorumRequest) -> Any:
    """Have the quorum answer the request."""
    return await session.server.controller.quorum.answer(request)
