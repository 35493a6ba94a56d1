"""ReportLogEnds: how far the replicas of leaderless partitions reach, for an unclean recovery."""

from typing import TYPE_CHECKING

from ...protocol.control.messages import Noted, ReportLogEnds

if TYPE_CHECKING:
    from .session import Session


async def answer(session: "Session", request: ReportLogEnds) -> Noted:
    """Keep it in memory; it may be the last one that was waited for."""
    return await session.server.upkeep.on_reported(request)
