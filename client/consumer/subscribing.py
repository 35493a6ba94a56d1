"""The subscription of a consumer: partitions, topics, or all topics that match a pattern.

With a group_id, topics are shared with the group's other members, and `Rebalancing` takes the
partitions assigned to this consumer. Without a group_id, this consumer reads all partitions of the
topics.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final, Protocol, runtime_checkable

from ...protocol.messages.list_offsets import EARLIEST_TIMESTAMP
from ...protocol.types import TopicPartition
from ..cluster import Changes
from ..errors import RequestTimedOut
from ..group_types import RebalanceListener
from .engine import Engine
from .questions import Partition
from .rebalancing import NO_LISTENER, Rebalancing

CLOSE_TIMEOUT_MS: Final = 30_000


@runtime_checkable
class NamePattern(Protocol):
    """A compiled pattern of `re` or of `re2`, which is safe with patterns of strangers."""

    def fullmatch(self, name: str, /) -> object:
        """Return a match, or something false."""


class Subscribing:
    """Keeps the subscription, by names or by pattern, and keeps the assignment true to it."""

    def __init__(self, engine: Engine, rebalancing: Rebalancing) -> None:
        self.topics: tuple[str, ...] = ()
        """The topics subscribed to by name, or the topics that match the pattern so far."""
        self._pattern: NamePattern | None = None
        self._engine = engine
        self._config = engine.config
        self._metadata = engine.metadata
        self._positions = engine.positions
        self._rebalancing = rebalancing
        engine.metadata.listen(self._on_metadata)

    @property
    def is_empty(self) -> bool:
        """True while no topic or pattern is subscribed to and no group is joined."""
        return not (self.topics or self._pattern or self._rebalancing.group)

    def assign(self, partitions: Iterable[Partition]) -> None:
        """Read exactly these partitions from now on, and subscribe to nothing.

        Raise ValueError while the consumer is subscribed as a member of a group.
        """
        self._engine.check_usable()
        if self._rebalancing.group is not None:
            raise ValueError("the group assigns partitions to this consumer: unsubscribe first")
        self.topics, self._pattern = (), None
        wanted = [TopicPartition(*partition) for partition in partitions]
        before = list(self._positions.states)
        self._engine.progress.drop_unread(at for at in before if at not in wanted)
        self._engine.assign(wanted, start=self._positions.reset)
        self._forget_topics(before)

    async def subscribe(
        self,
        topics: Sequence[str] | NamePattern,
        listener: RebalanceListener | None,
        timeout_ms: int,
    ) -> None:
        """Subscribe to these topics, or to all topics whose whole name matches a pattern.

        Raise TypeError if `topics` is a single text.
        """
        if isinstance(topics, str):
            raise TypeError("topics must be a list of names, or a compiled pattern")
        self._engine.check_usable()
        has_group = self._config.group_id is not None
        if self._rebalancing.group is None and self._positions.states and has_group:
            self._engine.progress.drop_unread(list(self._positions.states))
            self._positions.assign((), start=None)
        self._rebalancing.listener = listener or NO_LISTENER
        self._pattern = topics if isinstance(topics, NamePattern) else None
        self._metadata.watch_all(self._pattern is not None)
        if isinstance(topics, NamePattern):
            await self._wait_for_names(timeout_ms)
            self.topics = self._matching()
        else:
            self.topics = tuple(dict.fromkeys(topics))
        if has_group:
            self._rebalancing.join(self.topics)
            return
        await self._metadata.wait_for_topics(self.topics, timeout_ms)
        self._engine.assign(self._subscribed(), start=self._positions.reset)

    async def unsubscribe(self, timeout_ms: int) -> None:
        """Read nothing from now on, and leave the group."""
        self._engine.check_usable()
        await self._rebalancing.leave(timeout_ms)
        self.topics, self._pattern = (), None
        self._metadata.watch_all(False)
        before = list(self._positions.states)
        self._engine.progress.drop_unread(before)
        self._engine.assign((), start=None)
        self._forget_topics(before)

    def _forget_topics(self, before: Iterable[TopicPartition]) -> None:
        """Stop requesting metadata of topics that are no longer read, as they may be deleted."""
        kept = {partition.topic for partition in self._positions.states}
        for topic in dict.fromkeys(partition.topic for partition in before):
            if topic not in kept:
                self._metadata.forget(topic)

    # -- topics that come and go

    def _subscribed(self) -> list[TopicPartition]:
        topics = self._metadata.view.topics
        return [
            TopicPartition(name, index)
            for name in self.topics
            if name in topics
            for index in sorted(topics[name].partitions)
        ]

    async def _wait_for_names(self, timeout_ms: int) -> None:
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while self._metadata.topic_names is None:
                    await self._metadata.wait_until_refreshed()
        except TimeoutError:
            raise RequestTimedOut(f"no broker named its topics in {timeout_ms} ms") from None

    def _matching(self) -> tuple[str, ...]:
        if self._pattern is None:
            return self.topics
        view = self._metadata.view.topics
        return tuple(
            name
            for name in sorted(self._metadata.topic_names or self.topics)
            if self._pattern.fullmatch(name)
            and not (
                self._config.exclude_internal_topics and name in view and view[name].is_internal
            )
        )

    def _on_metadata(self, changes: Changes) -> None:
        if self._pattern is not None and self._metadata.topic_names is not None:
            self.topics = self._matching()
        group = self._rebalancing.group
        if group is not None:
            group.on_topics(self.topics, "other topics match the pattern")
            group.on_metadata()
        elif self.topics:
            self._read_alone()

    def _read_alone(self) -> None:
        found = self._subscribed()
        if any(partition not in self._positions.states for partition in found):
            # The partition is new in a topic that is being read: read it from its first record.
            kept = list(self._positions.states)
            self._engine.assign(dict.fromkeys([*kept, *found]), start=EARLIEST_TIMESTAMP)
