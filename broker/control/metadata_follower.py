"""Follows the metadata log: fetches what is committed, replays it, has the partitions act on it.

The follower owns the broker's metadata image. Until the image includes this broker's own
registration, records are only replayed, because the roles in past records are out of date. Then
partitions get one delta from an empty image to the present one. If a controller's log lacks a
record that this broker has acted upon, now or before a restart, metadata is lost, and the broker
does not follow that log (metadata_position.py).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from ...client.net.backoff import Backoff
from ...protocol.control.image import Delta, MetadataImage
from ...protocol.control.messages import FetchMetadata, FetchSnapshot, MetadataFetched, SnapshotId
from ...protocol.control.records import decode_record
from ...protocol.errors import ApiError, ErrorCode
from ...protocol.records.record_batch import headers, records
from ...protocol.types import Buffer, OffsetAndEpoch
from ...runtime.owned_task import OwnedTask
from ...runtime.runtime import Runtime
from .controller_channel import ControllerChannel
from .metadata_position import MetadataLost, MetadataPosition

RETRY: Final = Backoff(first_ms=20, most_ms=1000, steady_count=10)
MAX_WAIT_MS: Final = 5_000
ANSWER_SLACK_MS: Final = 5_000
DEPOSED_MS: Final = 5_000
"""The longest time, in ms, for which a deposed controller may believe that it is still active."""

Publish = Callable[[Delta, MetadataImage], Awaitable[None]]

log = logging.getLogger(__name__)


class MetadataFollower:
    """Keeps `image` up to date with the controllers' committed log."""

    def __init__(
        self,
        runtime: Runtime,
        channel: ControllerChannel,
        publish: Publish,
        position: MetadataPosition,
        on_lost: Callable[[MetadataLost], None],
    ) -> None:
        """`publish` is called with each delta and the image, which later changes modify in place.

        `on_lost` is called once if the controllers have lost metadata; following ends then.
        """
        self._runtime = runtime
        self._channel = channel
        self._publish = publish
        self._position = position
        self._on_lost = on_lost
        self._is_held = position.seen is None
        """True if a controller's log is known to contain the last record acted upon before this
        start. Also True if there is no such record."""
        self._outdated_since_ms: int | None = None
        """The time (monotonic ms) since which controllers of an older epoch than ours lack records
        that we have; None if no controller does."""
        self.image = MetadataImage()
        self.is_caught_up = False
        self._caught_up = asyncio.Event()
        self._task = OwnedTask(runtime, "metadata follower")
        self._fresh_start = True

    def start(self) -> None:
        """Begin to follow."""
        self._task.start(self._run)

    async def close(self) -> None:
        """Stop following."""
        await self._task.stop()

    async def wait_until_caught_up(self) -> None:
        """Return once everything up to our own registration has been published."""
        await self._caught_up.wait()

    async def _run(self) -> None:
        failures = 0
        while True:
            try:
                await (self._step() if self._is_held else self._compare())
                failures, self._outdated_since_ms = 0, None
            except MetadataLost as error:
                self._on_lost(error)
                return
            except ApiError as error:
                if failures == 0 and error.code is not ErrorCode.REQUEST_TIMED_OUT:
                    log.info("metadata: %s", error)
                failures += 1
                if error.code is not ErrorCode.FENCED_LEADER_EPOCH:
                    self._outdated_since_ms = None
                await asyncio.sleep(RETRY.after(failures, self._runtime.rng) / 1000)

    def _lacking(self, seen: OffsetAndEpoch, answer: MetadataFetched) -> Exception:
        """Return the error for a controller without the record `seen`: outdated, or data lost."""
        now_ms = self._runtime.monotonic_ms()
        if self._outdated_since_ms is None:
            self._outdated_since_ms = now_ms
        if answer.epoch >= seen.epoch or now_ms >= self._outdated_since_ms + DEPOSED_MS:
            return MetadataLost(seen)
        detail = f"a controller of epoch {answer.epoch} lacks what one of epoch {seen.epoch} had"
        return ApiError(ErrorCode.FENCED_LEADER_EPOCH, detail)

    async def _compare(self) -> None:
        """Check that the controller's log holds the last record acted upon before this start.

        Raise MetadataLost if it does not, or ApiError if the controller cannot tell now.
        """
        seen = self._position.seen
        assert seen is not None
        answer = await self._channel.call(FetchMetadata(seen.offset + 1, seen.epoch, 0))
        if answer.error == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise self._lacking(seen, answer)
        if answer.error:
            raise ApiError(ErrorCode(answer.error), answer.message)
        self._is_held = True

    async def _step(self) -> None:
        """Fetch once and replay the answer.

        Raise MetadataLost if the controllers lack a record that we have, or ApiError if this try
        failed.
        """
        image = self.image
        request = FetchMetadata(image.offset + 1, image.epoch, MAX_WAIT_MS)
        answer = await self._channel.call(request, timeout_ms=MAX_WAIT_MS + ANSWER_SLACK_MS)
        if answer.error == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise self._lacking(OffsetAndEpoch(image.offset, image.epoch), answer)
        if answer.error:
            raise ApiError(ErrorCode(answer.error), answer.message)
        delta = Delta()
        if answer.snapshot is not None:
            self.image = await self._load_snapshot(answer.snapshot)
            self._start_afresh()
        else:
            replay(answer.records, self.image, delta)
        if self._is_current(answer):
            await self._act(delta)

    def _start_afresh(self) -> None:
        """Publish nothing until the image, loaded from a snapshot, is complete.

        Until then the lease counts as not held, because our state may be out of date.
        """
        self._fresh_start = self._channel.lease.is_blind = True

    def _is_current(self, answer: MetadataFetched) -> bool:
        """True if the image is complete; from then on each change is published immediately."""
        if not self._fresh_start:
            return True
        epoch = self._channel.broker_epoch
        return 0 <= epoch <= self.image.offset and self.image.offset + 1 >= answer.high_watermark

    async def _act(self, delta: Delta) -> None:
        if self._fresh_start:
            self._fresh_start, delta.is_snapshot = False, True
        if delta:
            await self._publish(delta, self.image)
            self._position.seen = OffsetAndEpoch(self.image.offset, self.image.epoch)
        self._channel.lease.is_blind = False
        if not self.is_caught_up:
            self.is_caught_up = True
            self._caught_up.set()
        if self._channel.lifecycle.wants_shutdown:
            self._channel.poke()  # The controller waits until we know who leads in our place.

    async def _load_snapshot(self, snapshot: SnapshotId) -> MetadataImage:
        data, size = bytearray(), 1
        while len(data) < size:
            part = await self._channel.call(FetchSnapshot(snapshot, len(data)))
            if part.error:
                raise ApiError(ErrorCode(part.error), part.message)
            if not part.data:
                raise ApiError(ErrorCode.INVALID_RECORD, "a snapshot ended before its end")
            data += part.data
            size = part.size
        image = MetadataImage()
        replay(data, image, Delta())
        image.offset, image.epoch = snapshot.end_offset - 1, snapshot.epoch
        log.info("metadata: loaded the snapshot up to offset %d", image.offset)
        return image


def replay(data: Buffer, image: MetadataImage, delta: Delta) -> None:
    """Apply every record of whole batches that the image does not hold yet."""
    for position, header in headers(data):
        if header.last_offset <= image.offset:
            continue
        for record in records(data, position):
            if record.offset > image.offset and record.value is not None and not header.is_control:
                image.apply(decode_record(record.value), record.offset, delta)
        image.offset = max(image.offset, header.last_offset)
        image.epoch = header.leader_epoch
