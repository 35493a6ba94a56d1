"""Offsets, memberships and prepared transactions as plain values that users hand in and get.

Offsets with their notes, membership, callbacks; prepared transactions, which may be pickled and
sent to another process. Nothing here reads or writes.
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
    """The application's own words, kept beside the offset."""
    leader_epoch: int = -1
    """The epoch of the last record read, -1 if not known. It reveals lost records (KIP-320)."""


def with_metadata(given: OffsetAndMetadata | int) -> OffsetAndMetadata:
    """Give a bare offset an empty note."""
    return OffsetAndMetadata(given) if isinstance(given, int) else given


@dataclass(frozen=True, slots=True)
class ConsumerGroupMetadata:
    """The identity of a member, for `Producer.send_offsets`: brokers refuse stale members."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


Partitions = Sequence[TopicPartition]
RebalanceCallback = Callable[[Partitions], Awaitable[None] | None]


@dataclass(frozen=True, slots=True)
class RebalanceListener:
    """The functions or coroutine functions to call when partitions come and go.

    They run inside `poll`, one at a time, and never while records of a poll are being handed out.
    In the sync consumer they run in the thread that polls. An exception they raise, `poll` raises.
    """

    on_assigned: RebalanceCallback | None = None
    """These partitions are now read here; `seek` may say from where."""
    on_revoked: RebalanceCallback | None = None
    """These will be given up when it returns; until then their offsets can be committed."""
    on_lost: RebalanceCallback | None = None
    """These were lost: others may read them already and commits are refused. Without it
    `on_revoked` is called."""


class PreparedTransaction(NamedTuple):
    """An open transaction with every record acknowledged, for somebody else to commit."""

    transactional_id: str
    producer_id: int
    epoch: int


class CommitGroupState(NamedTuple):
    """The state of a commit group, as a new run needs it."""

    generation: int
    """The generation of the run: each commit names it, so that earlier runs are refused."""
    batch_id: int
    """The newest batch that is recorded; -1: none."""
