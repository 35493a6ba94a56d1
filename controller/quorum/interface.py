"""The quorum as its controller needs it, for any number of voters.

The leader places records at the end of the log with `append`; they are provisional until
`on_committed` says otherwise. Only committed records leave the process. Every node learns what is
committed, leader or not. A deposed leader forgets what it built on uncommitted records.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from ...protocol.control.image import MetadataImage
from ...protocol.control.messages import Endpoint, SnapshotFetched, SnapshotId
from ...protocol.control.quorum_messages import QuorumRequest
from ...protocol.control.records import MetadataRecord
from .description import QuorumDescription


class QuorumListener(Protocol):
    """The controller, as its quorum sees it. Nothing here may raise."""

    def on_elected(self, epoch: int) -> None:
        """Begin to lead: append; nothing is committed before a record of this epoch is."""

    def on_deposed(self, why: str) -> None:
        """Stop leading: records that were appended and are not committed may never be."""

    def on_leader_changed(self) -> None:
        """`leader_id` is another one, or known at last, or unknown."""

    def on_committed(self, high_watermark: int) -> None:
        """Take note that everything below is stable for good, and may leave the process."""

    def on_quorum_failed(self, why: str) -> None:
        """End the process: this node can no longer vouch for its log."""


class Quorum(Protocol):
    """One node's part in the quorum, and its copy of the metadata log."""

    @property
    def epoch(self) -> int:
        """The newest controller epoch that this node knows."""

    @property
    def is_leader(self) -> bool:
        """True if `append` may be called."""

    @property
    def leader_id(self) -> int:
        """The leader of `epoch`; -1 while it is not known."""

    def leader_endpoint(self) -> Endpoint | None:
        """The address at which the leader listens, as the configuration names it."""

    @property
    def high_watermark(self) -> int:
        """Everything below is committed, as far as this node knows."""

    @property
    def log_start_offset(self) -> int:
        """Everything below is only in the snapshot."""

    @property
    def log_end_offset(self) -> int:
        """Offset that the next record gets."""

    def majority_contact_ms(self) -> int:
        """On the leader: no one else led before this time, by its own monotonic clock.

        A majority of the voters, itself among them, has sent something in this epoch in answer to
        what the leader sent at this time or later. -1: nothing is known, or this node does not
        lead.
        """

    async def answer(self, request: QuorumRequest) -> Any:
        """Answer another controller's request."""

    def on_cluster_id(self, cluster_id: str) -> None:
        """The metadata says which cluster this is."""

    def start(self, listener: QuorumListener) -> None:
        """Take part, and report to `listener`."""

    def append(self, records: Sequence[MetadataRecord]) -> int:
        """Place records after the last; give the offset of the last of them. Leader only."""

    async def load(self) -> MetadataImage:
        """The newest snapshot, an empty image if there is none."""

    def holds(self, offset: int, epoch: int) -> bool:
        """True if a log reaches `offset` whose record before it was written in `epoch`."""

    async def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole committed batches from `offset` on, at least one if the log still has one."""

    @property
    def unsnapshotted_bytes(self) -> int:
        """Size of the committed log since the newest snapshot."""

    @property
    def snapshot(self) -> SnapshotId | None:
        """The newest snapshot."""

    async def read_snapshot(
        self, snapshot: SnapshotId, position: int, max_bytes: int
    ) -> SnapshotFetched:
        """A part of a snapshot's file."""

    async def write_snapshot(self, image: MetadataImage) -> None:
        """Keep the committed image, and let the log before it go."""

    def describe(self) -> QuorumDescription:
        """The quorum at this moment, as this leader sees it."""

    async def resign(self) -> None:
        """Lead no more and stand no more; return once another node leads, or after a while."""

    async def close(self) -> None:
        """Finish what is under way and release the files."""
