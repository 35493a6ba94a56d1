"""The balancing of the sticky assignors, and the user data that their members exchange.

Pure. First each member keeps the partitions it had, up to a fair share. Then free partitions go to
the members that have the fewest. If members read different topics, a partition also moves to the
member with the fewest among the readers of its topic, until no move makes the shares more even.

The user data of a join (in Kafka's formats, so that members of other clients understand it):

    sticky              previous_assignment:[topic:string [partition:int32]] generation:int32
    cooperative-sticky  generation:int32
"""

import struct
from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...protocol.types import TopicPartition
from ..partitions import by_topic


class Claimant(NamedTuple):
    """A member, the topics it reads, and the partitions it claims to have."""

    member_id: str
    topics: frozenset[str]
    owned: tuple[TopicPartition, ...]
    generation: int


Given = dict[str, list[TopicPartition]]


def balance(counts: Mapping[str, int], members: Sequence[Claimant]) -> Given:
    """Share out all partitions of the topics in `counts` that a member reads.

    The result has an entry for every member.
    """
    if not members:
        return {}
    partitions = [
        TopicPartition(topic, index)
        for topic in sorted(counts)
        if any(topic in member.topics for member in members)
        for index in range(counts[topic])
    ]
    kept = _kept(counts, members)
    taken = {partition for owned in kept.values() for partition in owned}
    free = [partition for partition in partitions if partition not in taken]
    if all(member.topics == members[0].topics for member in members):
        return _even(kept, free, len(partitions))
    return _moved(members, kept, free)


def _kept(counts: Mapping[str, int], members: Sequence[Claimant]) -> Given:
    """Return for each member the partitions that it keeps, of those that it owned.

    If several members claim a partition, the member with the latest generation keeps it; if two
    have that generation, neither does. A claim counts only if the member reads the topic and the
    partition exists.
    """
    newest: dict[TopicPartition, list[Claimant]] = {}
    for member in members:
        for partition in dict.fromkeys(member.owned):
            rivals = newest.setdefault(partition, [])
            if rivals and rivals[0].generation < member.generation:
                rivals.clear()
            if not rivals or rivals[0].generation == member.generation:
                rivals.append(member)
    return {
        member.member_id: [
            partition
            for partition in dict.fromkeys(member.owned)
            if newest[partition] == [member]
            and partition.topic in member.topics
            and 0 <= partition.partition < counts.get(partition.topic, 0)
        ]
        for member in members
    }


def _even(kept: Given, free: list[TopicPartition], total: int) -> Given:
    """Share out when all members read the same topics: shares differ by at most one partition."""
    least, extra_count = divmod(total, len(kept))
    room: dict[str, int] = {}
    # The members with most keep the extra partitions, so that these need not move.
    for member_id in sorted(kept, key=lambda name: -len(kept[name])):
        most = least + (extra_count > 0)
        room[member_id] = most
        if len(kept[member_id]) >= most and most > least:
            extra_count -= 1
        free += kept[member_id][most:]
        del kept[member_id][most:]
    free.sort()
    # In turn, so that the partitions of one topic are spread over the members.
    waiting = deque(name for name in kept if len(kept[name]) < least)
    for partition in free:
        if not waiting:
            waiting.extend(name for name in kept if len(kept[name]) < room[name])
        name = waiting.popleft()
        kept[name].append(partition)
        if len(kept[name]) < least:
            waiting.append(name)
    return kept


def _moved(members: Sequence[Claimant], kept: Given, free: list[TopicPartition]) -> Given:
    """Share out when members read different topics: move partitions while that evens the shares."""
    topics = {topic for member in members for topic in member.topics}
    readers = {t: [m.member_id for m in members if t in m.topics] for t in sorted(topics)}
    # Partitions with the fewest readers go first, because the others can even out the shares.
    for partition in sorted(free, key=lambda p: (len(readers[p.topic]), p)):
        least = min(readers[partition.topic], key=lambda name: len(kept[name]))
        kept[least].append(partition)
    is_even = False
    while not is_even:
        is_even = True
        for owner in kept:
            for partition in list(kept[owner]):
                least = min(readers[partition.topic], key=lambda name: len(kept[name]))
                if len(kept[owner]) > len(kept[least]) + 1:
                    # The sum of squares falls with each move, so this ends.
                    kept[owner].remove(partition)
                    kept[least].append(partition)
                    is_even = False
    return kept


# -- what members say of themselves

_INT32 = struct.Struct(">i")
_INT16 = struct.Struct(">h")


def encode_generation(generation: int) -> bytes:
    """Write the user data of a cooperative-sticky member."""
    return _INT32.pack(generation)


def decode_generation(data: bytes | None) -> int | None:
    """Read the user data of a cooperative-sticky member; None if it cannot be understood."""
    return _INT32.unpack(data)[0] if data is not None and len(data) == _INT32.size else None


def encode_previous(owned: Sequence[TopicPartition], generation: int) -> bytes:
    """Write the user data of a sticky member."""
    topics = by_topic(owned)
    out = bytearray(_INT32.pack(len(topics)))
    for topic, indexes in topics.items():
        name = topic.encode()
        out += _INT16.pack(len(name)) + name
        out += struct.pack(f">i{len(indexes)}i", len(indexes), *indexes)
    return bytes(out + _INT32.pack(generation))


def decode_previous(data: bytes | None) -> tuple[tuple[TopicPartition, ...], int] | None:
    """Read the user data of a sticky member; None if it cannot be understood.

    The generation is -1 if the member's client is too old to send it.
    """
    if not data:
        return None
    owned: list[TopicPartition] = []
    try:
        (topic_count,), pos = _INT32.unpack_from(data), _INT32.size
        for _ in range(topic_count):
            (size,) = _INT16.unpack_from(data, pos)
            pos += _INT16.size
            topic = bytes(data[pos : pos + size]).decode()
            pos += size
            (count,) = _INT32.unpack_from(data, pos)
            pos += _INT32.size
            if not 0 <= count <= (len(data) - pos) // _INT32.size:
                return None
            indexes = struct.unpack_from(f">{count}i", data, pos)
            pos += count * _INT32.size
            owned += (TopicPartition(topic, index) for index in indexes)
        generation = _INT32.unpack_from(data, pos)[0] if pos + _INT32.size <= len(data) else -1
    except (struct.error, UnicodeDecodeError):
        return None
    return tuple(owned), generation
