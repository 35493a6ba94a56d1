"""Which leader each followed partition is fetched from: one fetcher per leader broker.

Makes fetchers when the first partition needs one and ends them after the last. At most one
fetcher has a partition; a partition that this broker leads has none.
"""

from collections.abc import Callable, Iterable

from ..protocol.control.messages import Endpoint
from ..runtime.runtime import Runtime
from .fetcher import FetchSettings, ReplicaFetcher
from .partition import Partition


class ReplicaFetchers:
    """The fetchers of a broker, by leader."""

    def __init__(
        self,
        runtime: Runtime,
        settings: FetchSettings,
        endpoint_of: Callable[[int], Endpoint | None],
    ) -> None:
        self._runtime = runtime
        self._settings = settings
        self._endpoint_of = endpoint_of
        self._fetchers: dict[int, ReplicaFetcher] = {}
        self._leader_of: dict[Partition, int] = {}
        self._with_news: dict[int, None] = {}
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._fetchers)

    def follow(self, partition: Partition) -> None:
        """Fetch it from the leader it has now, anew if the leader epoch grew."""
        leader_id = partition.leader_id
        if self._leader_of.get(partition, leader_id) != leader_id or leader_id < 0:
            self.unfollow(partition)
        if leader_id < 0 or self._is_closed:
            return
        fetcher = self._fetchers.get(leader_id)
        if fetcher is None:
            fetcher = ReplicaFetcher(self._runtime, self._settings, leader_id, self._endpoint_of)
            self._fetchers[leader_id] = fetcher
            fetcher.start()
        self._leader_of[partition] = leader_id
        self._with_news[leader_id] = None
        fetcher.add(partition)

    def unfollow(self, partition: Partition) -> None:
        """Fetch it no more; what is under way for it will be ignored."""
        leader_id = self._leader_of.pop(partition, None)
        if leader_id is not None:
            self._fetchers[leader_id].remove(partition)

    def on_brokers_changed(self, broker_ids: Iterable[int]) -> None:
        """Brokers registered anew: whoever waits to connect to one need not wait longer."""
        for broker_id in broker_ids:
            fetcher = self._fetchers.get(broker_id)
            if fetcher is not None:
                fetcher.retry_now()

    async def settle(self) -> None:
        """After a change of metadata: new partitions are fetched at once, idle fetchers end."""
        for leader_id in self._with_news:
            self._fetchers[leader_id].interrupt()
        self._with_news = {}
        for leader_id in [each for each, fetcher in self._fetchers.items() if not len(fetcher)]:
            await self._fetchers.pop(leader_id).stop()

    async def close(self) -> None:
        """End every fetcher."""
        self._is_closed = True
        self._leader_of.clear()
        while self._fetchers:
            _, fetcher = self._fetchers.popitem()
            await fetcher.stop()
