"""Records that wait in delay topics, and the state of forwarding, as plain values."""

from typing import NamedTuple

from ...protocol.errors import ErrorCode
from ...protocol.messages.list_delayed import State
from ...protocol.types import TopicPartition


class DelayedRecord(NamedTuple):
    """A record of a delay topic that waits."""

    due_ms: int
    """The time at which it is due, in ms since the epoch; 0 for at once."""
    partition: TopicPartition
    offset: int


class DelayedState(NamedTuple):
    """The state of one record of a delay topic."""

    state: State
    due_ms: int | None
    """The time at which it is due if that was changed, in ms since the epoch; None if not."""


class ForwardingTarget(NamedTuple):
    """A target partition for which records are on their way."""

    topic_id: str
    """The topic's id in hexadecimal digits: the topic may be deleted."""
    partition: int
    records: int
    """The records that it has not taken yet."""
    error: ErrorCode
    """The last error; NONE if it takes what it gets."""


class ForwardingStatus(NamedTuple):
    """The state of one partition of a delay topic.

    The counts of what is over begin anew when another broker leads, and when it is started.
    """

    pending: int
    """The records that wait, those of open transactions left out."""
    planned: int
    """The records that are on their way."""
    next_due_ms: int | None
    """When the next record is due, in ms since the epoch; None if none waits."""
    forwarded: int
    dead_letters: int
    dropped: int
    """The records that nobody could take."""
    cancelled: int
    targets: list[ForwardingTarget]
