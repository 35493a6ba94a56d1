"""The assignors range, roundrobin, sticky and cooperative-sticky, which a group's leader applies.

Pure. An assignor sees every member's topics and how many partitions each topic has; it never sees
offsets. All of them give each partition of a subscribed topic to exactly one subscriber, except
that the cooperative one withholds a partition which another member has yet to give up.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from typing import ClassVar, Final

from ...protocol.types import TopicPartition
from . import sticky

Assignment = dict[str, list[TopicPartition]]
"""The partitions of each member, by member id; every member has an entry."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member of the group, with the data that its leader assigns by."""

    member_id: str
    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    """The partitions that the member says it has, or had in its last generation."""
    generation: int = -1
    """The generation in which the member got `owned`, or -1 if it is not known."""
    group_instance_id: str | None = None

    @property
    def order(self) -> tuple[bool, str]:
        """The sort key: first static members, by instance id, then dynamic ones, by member id."""
        lasting = self.group_instance_id
        return (lasting is None, self.member_id if lasting is None else lasting)


class Assignor:
    """A strategy to share out partitions."""

    name: ClassVar[str]
    """The protocol's name on the wire, known to other clients too."""
    is_cooperative: ClassVar[bool] = False
    """True if members continue to read partitions that stay theirs in a rebalance (KIP-429)."""

    def assign(self, counts: Mapping[str, int], members: Sequence[Member]) -> Assignment:
        """Share out the partitions of the topics in `counts`, the number of partitions by topic.

        A topic that is not in `counts` is not assigned.
        """
        raise NotImplementedError

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        """Return the user data that a member adds to its subscription in a join, if any."""
        return None

    def read_user_data(self, member: Member, data: bytes | None) -> Member:
        """Return `member` with the owned partitions and generation that its user data gives."""
        return member


class Range(Assignor):
    """Gives each member one run of consecutive partition numbers of each topic that it reads.

    If a topic does not divide evenly, the first members get one partition more. Over many topics
    the same members get one more of each topic.
    """

    name = "range"

    def assign(self, counts: Mapping[str, int], members: Sequence[Member]) -> Assignment:
        """Divide each topic among its readers, independently of the other topics."""
        given: Assignment = {member.member_id: [] for member in members}
        in_order = sorted(members, key=lambda member: member.order)
        for topic in sorted(counts):
            readers = [member for member in in_order if topic in member.topics]
            start = 0
            for index, member in enumerate(readers):
                size, left = divmod(counts[topic], len(readers))
                end = start + size + (index < left)
                given[member.member_id] += (TopicPartition(topic, p) for p in range(start, end))
                start = end
        return given


class RoundRobin(Assignor):
    """Deals out all partitions one by one, each to the next member that reads the topic."""

    name = "roundrobin"

    def assign(self, counts: Mapping[str, int], members: Sequence[Member]) -> Assignment:
        """Deal the partitions to the members in turn."""
        given: Assignment = {member.member_id: [] for member in members}
        in_order = sorted(members, key=lambda member: member.order)
        read = {topic for member in members for topic in member.topics}
        turns = cycle(in_order)
        for topic in sorted(topic for topic in counts if topic in read):
            for index in range(counts[topic]):
                member = next(member for member in turns if topic in member.topics)
                given[member.member_id].append(TopicPartition(topic, index))
        return given


class Sticky(Assignor):
    """Spreads partitions evenly with few moves; members stop reading during a rebalance."""

    name = "sticky"

    def assign(self, counts: Mapping[str, int], members: Sequence[Member]) -> Assignment:
        """Balance the partitions, starting from what each member had last."""
        return sticky.balance(counts, _claimants(members))

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        """Encode the partitions this member had last; a member that joins has given all up."""
        return sticky.encode_previous(owned, generation) if owned else None

    def read_user_data(self, member: Member, data: bytes | None) -> Member:
        """Return the member with the partitions and generation of its last assignment."""
        previous = sticky.decode_previous(data)
        if previous is None:
            return member
        owned, generation = previous
        return replace(member, owned=owned, generation=generation)


class CooperativeSticky(Assignor):
    """Spreads partitions as `Sticky` does, but members continue to read those that stay theirs.

    A partition that is to move is withheld at first. Its owner no longer finds it in its
    assignment, gives it up and joins again. Only this second rebalance assigns the partition to
    the new owner, so no partition ever has two owners (KIP-429).
    """

    name = "cooperative-sticky"
    is_cooperative = True

    def assign(self, counts: Mapping[str, int], members: Sequence[Member]) -> Assignment:
        """Balance the partitions, then withhold those that another member still owns."""
        given = sticky.balance(counts, _claimants(members))
        owners: dict[TopicPartition, list[str]] = {}
        for member in members:
            for partition in dict.fromkeys(member.owned):
                owners.setdefault(partition, []).append(member.member_id)
        return {
            member_id: [p for p in partitions if owners.get(p, [member_id]) == [member_id]]
            for member_id, partitions in given.items()
        }

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        """Encode the generation only: the subscription itself names the owned partitions."""
        return sticky.encode_generation(generation)

    def read_user_data(self, member: Member, data: bytes | None) -> Member:
        """Add the generation if the subscription's version has no field for it (KIP-792)."""
        generation = sticky.decode_generation(data)
        if member.generation >= 0 or generation is None:
            return member
        return replace(member, generation=generation)


ASSIGNORS: Final[Mapping[str, Assignor]] = {
    assignor.name: assignor for assignor in (CooperativeSticky(), Sticky(), Range(), RoundRobin())
}


def _claimants(members: Sequence[Member]) -> list[sticky.Claimant]:
    return [
        sticky.Claimant(member.member_id, frozenset(member.topics), member.owned, member.generation)
        for member in sorted(members, key=lambda member: member.order)
    ]
