"""The one builder that every change of a partition passes through, election included.

Order: (1) the ISR wanted, (2) election, (3) what the ISR becomes after it, (4) the record. The
leader epoch grows when the leader field is set, the partition epoch with every record; replaying
the record does both. Without eligible-leader replicas the ISR never empties: its last member
stays, with no leader until that member is back.

    elect: the leader there is, if it is in the wanted ISR and acceptable
           else the first acceptable replica, in replica order, that is in the wanted ISR
           else, if unclean election is allowed, the first acceptable replica: ISR {it}, recovering
           else nobody

A last member of the ISR that comes back without its data directories is in it by name only: its
copy is gone, and electing it would empty the others too. `directories` keeps where that copy was.
While they are away the partition has no leader, unless an unclean one is allowed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from ...protocol.control.image import PartitionState
from ...protocol.control.records import PartitionChangeRecord
from ...protocol.types import NO_LEADER, TopicIdPartition


class Elected(NamedTuple):
    """Who leads from now on."""

    leader: int
    is_unclean: bool = False


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """A wish concerning one partition, and what decides how it can be met."""

    partition: TopicIdPartition
    state: PartitionState
    acceptable: Callable[[int], bool]
    """May this broker lead, once the decision is carried out?"""
    unclean_allowed: bool = False
    isr: tuple[int, ...] | None = None
    """The ISR wanted; None: as it is."""
    recovering: bool | None = None
    """The recovery state wanted; None: as it is."""
    copy_is_away: bool = False
    """The directories that hold the last in-sync copy are not registered."""

    def build(self) -> PartitionChangeRecord | None:
        """The record that brings it about, None when nothing changes."""
        old = self.state
        wanted = old.isr if self.isr is None else self.isr
        elected = self.elect(() if self.copy_is_away else wanted)
        isr = wanted or old.isr[:1]
        recovering = old.recovering if self.recovering is None else self.recovering
        if elected.is_unclean:
            isr, recovering = (elected.leader,), True
        leader_changed = elected.leader != old.leader
        if not leader_changed and isr == old.isr and recovering == old.recovering:
            return None
        return PartitionChangeRecord(
            self.partition.topic_id,
            self.partition.partition,
            isr=isr if isr != old.isr else None,
            leader=elected.leader if leader_changed else None,
            recovering=recovering if elected.is_unclean or recovering != old.recovering else None,
            directories=() if old.directories and elected.leader != NO_LEADER else None,
        )

    def elect(self, isr: tuple[int, ...]) -> Elected:
        """Who leads with this ISR."""
        old = self.state
        if old.leader in isr and self.acceptable(old.leader):
            return Elected(old.leader)
        for replica in old.replicas:
            if replica in isr and self.acceptable(replica):
                return Elected(replica)
        if self.unclean_allowed:
            for replica in old.replicas:
                if self.acceptable(replica):
                    return Elected(replica, is_unclean=True)
        return Elected(NO_LEADER)
