"""Chooses the replica that a consumer should read from: one in its rack that keeps up (KIP-392).

Pure but for the settings. Only a leader chooses, among the members of the ISR that hold the offset.
If the chosen replica cannot serve the consumer's next fetch, it refuses that fetch or returns no
records.
"""

from collections.abc import Callable

from ...protocol.types import NO_OFFSET
from ...runtime.config import config_table, setting
from .leader import LeaderReplica

NOBODY = -1
LEADER = "org.apache.kafka.common.replica.LeaderSelector"
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


@config_table
class ReplicaSelectorConfig:
    """The setting that decides from which replica consumers should read."""

    replica_selector_class: str | None = setting(
        "replica.selector.class",
        None,
        choices=(LEADER, RACK_AWARE),
        doc="With RackAwareReplicaSelector, consumers with client.rack read in their rack if they "
        "can; else all read from the leader.",
    )

    @property
    def is_rack_aware(self) -> bool:
        """True if a replica other than the leader may be chosen."""
        return self.replica_selector_class == RACK_AWARE


def nearest(
    leader: LeaderReplica, offset: int, rack: str, rack_of: Callable[[int], str | None]
) -> int:
    """Return the follower from which a consumer in `rack` should read `offset`.

    Return -1 for the leader. `rack_of` returns None for a broker without a rack, and for one that
    the consumer cannot reach.
    """
    if not rack or rack_of(leader.broker_id) == rack:
        return NOBODY
    best: tuple[int, int, int] | None = None
    for follower in leader.isr:
        progress = leader.followers.get(follower)
        if progress is None or rack_of(follower) != rack:
            continue
        start, end = progress.log_start_offset, progress.log_end_offset
        if NO_OFFSET < start <= offset <= end:
            # The highest log end is best; then the one caught up last; then the first in the ISR.
            rank = (end, progress.caught_up_at_ms)
            if best is None or rank > best[:2]:
                best = (*rank, follower)
    return NOBODY if best is None else best[2]
