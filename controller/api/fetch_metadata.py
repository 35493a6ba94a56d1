"""FetchMetadata and FetchSnapshot: the committed log from an offset on, and snapshots of it."""

from typing import TYPE_CHECKING, Final

from ...protocol.control.messages import (
    FetchMetadata,
    FetchSnapshot,
    MetadataFetched,
    SnapshotFetched,
)
from ...protocol.errors import ErrorCode

if TYPE_CHECKING:
    from .session import Session

WAIT_MAX_MS: Final = 60_000
BYTES_MAX: Final = 8 << 20
"""The largest answer in bytes, whatever the request allows."""


async def fetch_metadata(session: "Session", request: FetchMetadata) -> MetadataFetched:
    """Answer with committed records once there are some, or name the snapshot to load first."""
    controller = session.server.controller
    quorum = controller.quorum
    controller.check_active()
    if request.offset < 0 or not quorum.holds(request.offset, request.epoch):
        detail = f"no record of epoch {request.epoch} before offset {request.offset} in this log:"
        detail = f"{detail} start again at offset 0"
        return MetadataFetched(ErrorCode.OFFSET_OUT_OF_RANGE, detail, epoch=quorum.epoch)
    if session.broker is not None:
        session.server.handovers.on_applied(session.broker[0], request.offset - 1)
    await controller.wait_for_metadata(request.offset, min(request.max_wait_ms, WAIT_MAX_MS))
    controller.check_active()  # This controller may have been deposed during the wait.
    if request.offset < quorum.log_start_offset:
        return MetadataFetched(
            ErrorCode.NONE,
            high_watermark=quorum.high_watermark,
            epoch=quorum.epoch,
            snapshot=quorum.snapshot,
        )
    max_bytes = max(1, min(request.max_bytes, BYTES_MAX))
    high_watermark = quorum.high_watermark
    records = await quorum.read(request.offset, max_bytes)
    return MetadataFetched(
        ErrorCode.NONE, high_watermark=high_watermark, epoch=quorum.epoch, records=records
    )


async def fetch_snapshot(session: "Session", request: FetchSnapshot) -> SnapshotFetched:
    """Read a part of the snapshot's file; the broker asks for the later parts in turn."""
    max_bytes = max(1, min(request.max_bytes, BYTES_MAX))
    quorum = session.server.controller.quorum
    return await quorum.read_snapshot(request.snapshot, request.position, max_bytes)
