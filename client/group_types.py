"""Plain values that users pass and get: offsets, memberships, callbacks, prepared transactions.

A prepared transaction may be pickled and sent to another process.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..protocol.types import TopicPartition


class OffsetAndMetadata(NamedTuple):
    """The offset that a group has reached in one partition."""

    offset: int
    """The next offset to read."""
    metadata: str = ""
    """A text of the application, which is stored with the offset."""
    leader_epoch: int = -1
    """The leader epoch of the last record read, or -1; it reveals a loss of records (KIP-320)."""


def with_metadata(given: OffsetAndMetadata | int) -> OffsetAndMetadata:
    """Make an OffsetAndMetadata of a bare offset; return an OffsetAndMetadata unchanged."""
    return OffsetAndMetadata(given) if isinstance(given, int) else given


@dataclass(frozen=True, slots=True)
class ConsumerGroupMetadata:
    """The identity of a group member, by which `Producer.send_offsets` can detect stale members.

    A member that lost its partitions keeps its last generation until it has joined again, so that
    it is refused. Under `Consumer.assign`, and before the first join, there is none.
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


Partitions = Sequence[TopicPartition]
RebalanceCallback = Callable[[Partitions], Awaitable[None] | None]


@dataclass(frozen=True, slots=True)
class RebalanceListener:
    """The functions or coroutine functions to call when partitions are assigned or taken away.

    They run one at a time inside `poll` (or `unsubscribe` and `close`), which raises their
    exceptions. The sync consumer takes plain functions only, and runs them in the thread that
    polls.
    """

    on_assigned: RebalanceCallback | None = None
    """Called with the partitions that were newly assigned; it may `seek` in them."""
    on_revoked: RebalanceCallback | None = None
    """Called with partitions that are given up when the call returns; the call may still commit."""
    on_lost: RebalanceCallback | None = None
    """Called with partitions that this member has lost: others may own them, so commits are
    refused. If it is None, `on_revoked` is called instead."""


class PreparedTransaction(NamedTuple):
    """An open transaction whose records are all acknowledged, for `Admin.commit_group`."""

    transactional_id: str
    producer_id: int
    epoch: int


class CommitGroupState(NamedTuple):
    """The state of a commit group that a new run of its application starts from."""

    generation: int
    """The generation of this run; each commit names it, so that earlier runs are refused."""
    batch_id: int
    """The id of the newest committed batch, or -1 if there is none."""
