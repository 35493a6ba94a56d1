"""The policy of retries: how often and how late a record is tried again, and what is given up.

Pure. A record that fails goes to the delay topic `<group>.retry`, comes back from `<group>.again`
when it is due, and ends as a dead letter in `dlq.<group>`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

DEFAULT_BACKOFF_MS = (1_000, 10_000, 60_000, 600_000)


class RetryTopics(NamedTuple):
    """The topics of one group's retries."""

    retry: str
    """The delay topic in which records wait."""
    again: str
    """The topic from which they come back."""
    dead_letters: str
    blocked: str
    """With `order="key"`, the compacted topic that says which keys are blocked."""


def topics_of(group_id: str) -> RetryTopics:
    """Return the names of a group's topics."""
    return RetryTopics(
        f"{group_id}.retry", f"{group_id}.again", f"dlq.{group_id}", f"{group_id}.blocked"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often a record is tried again, after which time, and what happens in between.

    Raise ValueError for a wait that is negative, and for a jitter outside of 0 to 1.
    """

    backoff_ms: Sequence[int] = DEFAULT_BACKOFF_MS
    """The wait in ms before each retry. A record that fails once more is a dead letter."""
    jitter: float = 0.0
    """The share of each wait, from 0 to 1, that is added to it at random."""
    not_retried: tuple[type[Exception], ...] = ()
    """Exceptions after which a record is a dead letter at once."""
    is_transactional: bool = True
    """True to move records in one transaction with the committed offsets, so that none is moved
    twice. False to have them acknowledged before the offsets are committed: after a crash a record
    may be in the retries twice."""
    creates_topics: bool = True
    """True to create the topics that are not there, with as many partitions as the cluster says."""
    partitions: int = -1
    """The number of partitions of the topics that are created; -1 for the cluster's default. With
    `order="key"` it counts for dead letters only."""
    replication_factor: int = -1
    """The replicas of the topics that are created; -1 for the cluster's default."""
    pause_ms: int = 30_000
    """How long a partition is paused if one of its records can neither be retried nor buried."""
    has_stacktraces: bool = False
    """True to add the end of the stack trace to dead letters, at most 4 KiB."""
    order: Literal["none", "key"] = "none"
    """"key": while a record of a key waits for its next attempt, later records of the key in its
    partition wait behind it, and are not handled before it. Needs transactions,
    `partition_assignment_strategy="range"`, and topics that exist and have equally many partitions;
    the group's own topics get as many."""
    max_blocked_keys: int = 100_000
    """With `order="key"`, how many keys of one worker may have records that wait, about 200 bytes
    each. The partition of one more is paused for `pause_ms`, and then tried again."""
    on_dlq_failure: Literal["stop", "log"] = "stop"
    """The fate of a dead letter that cannot be written: "stop" pauses its partition before
    it, "log" logs where the record was and its last error, and gives it up."""

    def __post_init__(self) -> None:
        if any(wait_ms < 0 for wait_ms in self.backoff_ms):
            raise ValueError(f"backoff_ms={self.backoff_ms}: a wait is at least 0 ms")
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"jitter={self.jitter}: needs a share from 0 to 1")
        if self.pause_ms < 0:
            raise ValueError(f"pause_ms={self.pause_ms}: needs at least 0 ms")
        if self.order not in ("none", "key"):
            raise ValueError(f"order={self.order!r}: none or key")
        if self.order == "key" and not self.is_transactional:
            raise ValueError(
                "order='key': needs transactions, as a copy that is there twice has none"
            )
        if self.max_blocked_keys < 1:
            raise ValueError(f"max_blocked_keys={self.max_blocked_keys}: needs at least 1")
        if self.on_dlq_failure not in ("stop", "log"):
            raise ValueError(f"on_dlq_failure={self.on_dlq_failure!r}: stop or log")

    @classmethod
    def growing(
        cls, *, attempts: int, initial_ms: int, factor: float = 2.0, max_ms: int = 3_600_000
    ) -> "RetryPolicy":
        """Return a policy whose waits grow by a factor, up to `max_ms`."""
        if attempts < 0 or initial_ms < 0 or factor < 1:
            raise ValueError("attempts and initial_ms are at least 0, factor is at least 1")
        waits: list[int] = []
        wait_ms: float = initial_ms
        for _ in range(attempts):
            wait_ms = min(wait_ms, max_ms)
            waits.append(round(wait_ms))
            wait_ms *= factor
        return cls(backoff_ms=tuple(waits))

    def wait_ms(self, attempt: int, error: BaseException, chance: float) -> int | None:
        """Return the wait before the next attempt, after `attempt` retries; None to give up.

        `chance` is a random number from 0 to 1, for the jitter.
        """
        if attempt >= len(self.backoff_ms) or isinstance(error, self.not_retried):
            return None
        wait_ms = self.backoff_ms[attempt]
        return wait_ms + round(wait_ms * self.jitter * chance)
