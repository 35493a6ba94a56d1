"""FetchSnapshot: a part of a snapshot's file."""

from typing import TYPE_CHECKING, Final

from ...protocol.control.messages import FetchSnapshot, SnapshotFetched

if TYPE_CHECKING:
    from .session import Session

PART_BYTES_MAX: Final = 8 << 20


async def answer(session: "Session", request: FetchSnapshot) -> SnapshotFetched:
    """Read it; the asker repeats with a higher position until it has all."""
    max_bytes = max(1, min(request.max_bytes, PART_BYTES_MAX))
    quorum = session.server.controller.quorum
    return await quorum.read_snapshot(request.snapshot, request.position, max_bytes)
