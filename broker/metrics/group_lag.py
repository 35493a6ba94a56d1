"""Asks partition leaders for high watermarks, and for the records that groups have not read yet.

`GroupLag` asks only after a scrape, and at most once in ASK_EVERY_MS: one ListOffsets per leader
for high watermarks, and one DescribeLag per leader for unread records. A DescribeLag names at most
MOST_PARTITIONS partitions, each once, with the offset of one group: the group whose last
DescribeLag is oldest. If a leader does not answer, its high watermarks become unknown, and the
counts of unread records stay as they were.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from ...protocol.messages.describe_lag import (
    MOST_PARTITIONS,
    CommittedPartition,
    CommittedTopic,
    DescribeLagRequest,
    DescribeLagResponse,
)
from ...protocol.messages.list_offsets import ListOffsetsResponse, request_of_ends
from ...protocol.types import NO_LEADER
from ...runtime.owned_task import OwnedTask
from ..coordinator.group.offsets import Place
from ..edge import Edge
from ..partition.partition import Partition
from ..peers import PeerFailed, Peers

ASK_EVERY_MS: Final = 10_000
OFFSETS_MAX: Final = 10_000
"""The most committed offsets, over all groups, that a scrape reports."""
NAME_MAX: Final = 255
"""The most characters of the id of a group that is reported. Longer ids are not shortened, because
two could become equal, and a scrape must not have two samples with the same labels."""
LANE: Final = "metrics"


class Read(NamedTuple):
    """An offset that a group has committed."""

    group: str
    place: Place
    offset: int


class Unread(NamedTuple):
    """The part of one partition that a group has not read yet."""

    records: int
    size_bytes: int
    oldest_ms: int
    """The timestamp of the first unread record, in ms; -1 if all is read."""


class GroupLag:
    """The newest answers of the leaders, and the task that asks them."""

    def __init__(self, edge: Edge, peers: Peers) -> None:
        self._edge = edge
        self._peers = peers
        self._ends: dict[Place, int] = {}
        self._unread: dict[tuple[str, Place], Unread] = {}
        self._asked_ms: dict[tuple[str, Place], int] = {}
        self._next_ms = 0
        self._asking = OwnedTask(edge.runtime, "lag of groups")

    def ask_soon(self) -> None:
        """Start to ask the leaders, unless they were asked in the last ASK_EVERY_MS."""
        if self._edge.runtime.monotonic_ms() >= self._next_ms:
            self._asking.start(self._ask)

    async def close(self) -> None:
        """Stop asking."""
        await self._asking.stop()

    def end_of(self, place: Place) -> int | None:
        """Return the high watermark of a partition, or None if no leader has reported it."""
        partition = self._edge.partitions.find(*place)
        if isinstance(partition, Partition) and partition.leader is not None:
            return partition.leader.high_watermark
        return self._ends.get(place)

    def unread(self, group: str, place: Place) -> Unread | None:
        """Return the part that a group has not read yet; None if no leader has reported it."""
        return self._unread.get((group, place))

    def committed(self) -> Iterator[Read]:
        """Yield the offsets committed by groups of this broker, at most OFFSETS_MAX.

        Groups whose ids are longer than NAME_MAX are left out.
        """
        left = OFFSETS_MAX
        for shard in list(self._edge.groups.shards):
            offsets = shard.state.offsets
            for group in [each for each in shard.state.groups if len(each) <= NAME_MAX]:
                for place, committed in list(offsets.of(group).items())[:left]:
                    left -= 1
                    yield Read(group, place, committed.offset)

    async def _ask(self) -> None:
        try:
            reads = list(self.committed())
            await self._ask_ends(dict.fromkeys(read.place for read in reads))
            await self._ask_unread(reads)
        finally:
            self._next_ms = self._edge.runtime.monotonic_ms() + ASK_EVERY_MS

    async def _ask_ends(self, places: Iterable[Place]) -> None:
        ends: dict[Place, int] = {}
        me = self._edge.config.node_id
        for leader, led in self._by_leader(places).items():
            if leader == me:
                continue
            request = request_of_ends(_by_topic(led))
            try:
                answer: ListOffsetsResponse = await self._peers.ask(leader, request, lane=LANE)
            except PeerFailed:
                continue
            for told in answer.topics:
                for each in told.partitions:
                    if not each.error_code:
                        ends[told.name, each.partition_index] = each.offset
        self._ends = ends

    async def _ask_unread(self, reads: list[Read]) -> None:
        behind = {
            (read.group, read.place): read.offset
            for read in reads
            if read.offset < (self.end_of(read.place) or 0)
        }
        asked_ms = self._asked_ms = {pair: self._asked_ms.get(pair, -1) for pair in behind}
        self._unread = {pair: known for pair, known in self._unread.items() if pair in behind}
        in_turn: dict[Place, str] = {}
        for group, place in sorted(behind, key=lambda pair: asked_ms[pair]):
            in_turn.setdefault(place, group)
        for leader, led in self._by_leader(in_turn).items():
            asked = {place: in_turn[place] for place in led[:MOST_PARTITIONS]}
            topics = [
                CommittedTopic(
                    name=topic,
                    partitions=[
                        CommittedPartition(
                            partition_index=index,
                            committed_offset=behind[in_turn[topic, index], (topic, index)],
                        )
                        for index in indexes
                    ],
                )
                for topic, indexes in _by_topic(asked).items()
            ]
            now_ms = self._edge.runtime.monotonic_ms()
            asked_ms.update({(group, place): now_ms for place, group in asked.items()})
            try:
                answer = await self._peers.ask(leader, DescribeLagRequest(topics=topics), lane=LANE)
            except PeerFailed:
                continue
            self._note(answer, asked)

    def _note(self, answer: DescribeLagResponse, asked: dict[Place, str]) -> None:
        for topic in answer.topics:
            for each in topic.partitions:
                place = (topic.name, each.partition_index)
                group = asked.get(place)
                if group is not None and not each.error_code:
                    told = Unread(each.records, each.size_bytes, each.oldest_timestamp)
                    self._unread[group, place] = told

    def _by_leader(self, places: Iterable[Place]) -> dict[int, list[Place]]:
        image = self._edge.image
        found: dict[int, list[Place]] = {}
        for place in places:
            topic_id = image.topic_ids.get(place[0])
            state = None if topic_id is None else image.partition(topic_id, place[1])
            if state is not None and state.leader != NO_LEADER:
                found.setdefault(state.leader, []).append(place)
        return found


def _by_topic(places: Iterable[Place]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, index in places:
        topics.setdefault(topic, []).append(index)
    return topics
