"""Assigns each followed partition to a fetcher of its leader.

A fetcher is made for its first partition and ended after its last. Each followed partition has one
fetcher; a partition that this broker leads has none. There are at most `num.replica.fetchers`
fetchers for each leader, and topic id and partition index decide which of them a partition gets.
"""

from collections.abc import Iterable
from typing import NamedTuple

from ...runtime.runtime import Runtime
from ..config import BrokerConfig
from ..control.controller_channel import ControllerChannel
from ..partition.partition import Partition
from ..peers import Reach
from .fetcher import ReplicaFetcher


class Place(NamedTuple):
    """One fetcher of one leader."""

    leader_id: int
    number: int


class ReplicaFetchers:
    """The fetchers of a broker, by leader and number."""

    def __init__(
        self,
        runtime: Runtime,
        config: BrokerConfig,
        channel: ControllerChannel,
        reach: Reach,
    ) -> None:
        self._runtime = runtime
        self._config = config
        self._channel = channel
        self._reach = reach
        self._fetchers: dict[Place, ReplicaFetcher] = {}
        self._place_of: dict[Partition, Place] = {}
        self._with_news: dict[Place, None] = {}
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._fetchers)

    def follow(self, partition: Partition) -> None:
        """Fetch a partition from its present leader, in its present leader epoch."""
        place = Place(partition.metadata.leader, self._number_of(partition))
        if self._place_of.get(partition, place) != place or place.leader_id < 0:
            self.unfollow(partition)
        if place.leader_id < 0 or self._is_closed:
            return
        fetcher = self._fetchers.get(place)
        if fetcher is None:
            fetcher = ReplicaFetcher(
                self._runtime, self._config, self._channel, place.leader_id, self._reach
            )
            self._fetchers[place] = fetcher
            fetcher.start()
        self._place_of[partition] = place
        self._with_news[place] = None
        fetcher.add(partition)

    def unfollow(self, partition: Partition) -> None:
        """Stop fetching the partition; an answer that still comes for it is ignored."""
        place = self._place_of.pop(partition, None)
        if place is not None:
            self._fetchers[place].remove(partition)

    def tell(self, partition: Partition) -> None:
        """Report a partition's flushed offset and log start offset to its leader."""
        place = self._place_of.get(partition)
        if place is not None:
            self._fetchers[place].tell(partition)

    def on_brokers_changed(self, broker_ids: Iterable[int]) -> None:
        """Let fetchers connect without further pause if their leader is one of these brokers."""
        changed = dict.fromkeys(broker_ids)
        for place, fetcher in self._fetchers.items():
            if place.leader_id in changed:
                fetcher.retry_now()

    async def settle(self) -> None:
        """Complete a change of metadata: fetch new partitions now, and end idle fetchers."""
        for place in self._with_news:
            self._fetchers[place].interrupt()
        self._with_news = {}
        for place in [each for each, fetcher in self._fetchers.items() if not len(fetcher)]:
            await self._fetchers.pop(place).stop()

    async def close(self) -> None:
        """End every fetcher."""
        self._is_closed = True
        self._place_of.clear()
        while self._fetchers:
            _, fetcher = self._fetchers.popitem()
            await fetcher.stop()

    def _number_of(self, partition: Partition) -> int:
        topic = int.from_bytes(partition.topic_id[:4], "big")
        return (topic + partition.index) % self._config.num_replica_fetchers
