"""What a consumer reads: partitions it was told, topics, or whatever matches a pattern.

With a group_id, topics are shared with the group's other members: here the user's polls carry out
what `Membership` has pending. Without, they are read alone.
"""

import asyncio
import inspect
import logging
import re
from collections.abc import Iterable, Sequence
from typing import Generic

from ...protocol.messages.list_offsets import EARLIEST_TIMESTAMP
from ...protocol.types import TopicPartition
from ..cluster import Changes
from ..errors import RequestTimedOut
from ..group_types import RebalanceCallback, RebalanceListener
from ..metrics import Stat
from ..serialization import K, V
from .committing import GIVING_UP_MS, Committing
from .consumer_metrics import ConsumerMetrics
from .group import Group
from .membership import Change
from .questions import DEFAULT_TIMEOUT_MS, Partition

log = logging.getLogger(__name__)

CLOSE_TIMEOUT_MS = 30_000
NO_LISTENER = RebalanceListener()


class Subscribing(Committing[K, V], Generic[K, V]):
    """The part of a consumer that knows what it reads."""

    _metrics: ConsumerMetrics
    _group: Group | None
    _listener: RebalanceListener
    _subscription: tuple[str, ...]
    _pattern: re.Pattern[str] | None

    # -- what to read

    def assign(self, partitions: Iterable[Partition]) -> None:
        """Read exactly these partitions from now on, whoever else reads them.

        Those that were assigned before keep their positions; others start where the group has
        committed, or by auto_offset_reset, unless `seek` says where.
        """
        fetcher = self._started()
        if self._group is not None:
            raise ValueError("the group assigns partitions to this consumer: unsubscribe first")
        self._subscription, self._pattern = (), None
        wanted = [TopicPartition(*partition) for partition in partitions]
        before = list(self._positions.states)
        self._drop_unread(at for at in before if at not in wanted)
        self._positions.assign(wanted, start=self._positions.reset)
        fetcher.on_positions_changed()
        self._forget_topics(before)

    async def subscribe(
        self,
        topics: Sequence[str] | re.Pattern[str],
        *,
        listener: RebalanceListener | None = None,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> None:
        """Read these topics from now on, or all whose whole name matches a pattern.

        With group_id the partitions are shared with the other members of the group: the first poll
        joins it, and `listener` hears of what comes and goes. Topics that do not exist yet are
        read when they do. Without group_id all partitions are read, alone, and UnknownTopic is
        raised where a topic does not exist after `timeout_ms`.

        Partitions start where the group has committed, or by auto_offset_reset. Those added to a
        topic later are found within metadata_max_age_ms; alone, they are read from the beginning.
        """
        if isinstance(topics, str):
            raise TypeError("topics must be a list of names, or a compiled pattern")
        self._started()
        if self._group is None and self._positions.states and self.config.group_id is not None:
            self._drop_unread(list(self._positions.states))
            self._positions.assign((), start=None)
        self._listener = listener or NO_LISTENER
        self._pattern = topics if isinstance(topics, re.Pattern) else None
        self._metadata.watch_all(self._pattern is not None)
        if isinstance(topics, re.Pattern):
            await self._wait_for_names(timeout_ms)
            self._subscription = self._matching()
        else:
            self._subscription = tuple(dict.fromkeys(topics))
        if self.config.group_id is not None:
            self._join()
            return
        await self._metadata.wait_for_topics(self._subscription, timeout_ms)
        self._positions.assign(self._subscribed(), start=self._positions.reset)
        self._started().on_positions_changed()

    async def unsubscribe(self, *, timeout_ms: int = CLOSE_TIMEOUT_MS) -> None:
        """Read nothing from now on; what polls returned is committed, and the group is left."""
        self._started()
        await self._leave(timeout_ms, commits=True)
        self._subscription, self._pattern = (), None
        self._metadata.watch_all(False)
        before = list(self._positions.states)
        self._drop_unread(before)
        self._positions.assign((), start=None)
        self._started().on_positions_changed()
        self._forget_topics(before)

    def _forget_topics(self, before: Iterable[TopicPartition]) -> None:
        """Refresh no more what nobody reads: a topic since deleted would be asked for for ever."""
        kept = {partition.topic for partition in self._positions.states}
        for topic in dict.fromkeys(partition.topic for partition in before):
            if topic not in kept:
                self._metadata.forget(topic)

    def subscription(self) -> list[str]:
        """List the topics subscribed to, or matched by the pattern so far."""
        return list(self._subscription)

    # -- alone

    def _subscribed(self) -> list[TopicPartition]:
        topics = self._metadata.view.topics
        return [
            TopicPartition(name, index)
            for name in self._subscription
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
            return self._subscription
        view = self._metadata.view.topics
        return tuple(
            name
            for name in sorted(self._metadata.topic_names or self._subscription)
            if self._pattern.fullmatch(name)
            and not (
                self.config.exclude_internal_topics and name in view and view[name].is_internal
            )
        )

    def _on_metadata(self, changes: Changes) -> None:
        if self._fetcher is None:
            return
        if self._pattern is not None and self._metadata.topic_names is not None:
            self._subscription = self._matching()
        if self._group is not None:
            self._group.on_topics(self._subscription, "other topics match the pattern")
            self._group.on_metadata()
        elif self._subscription:
            self._read_alone()

    def _read_alone(self) -> None:
        found = self._subscribed()
        if any(partition not in self._positions.states for partition in found):
            # A partition added while we read: its first records are news too.
            kept = list(self._positions.states)
            self._positions.assign(dict.fromkeys([*kept, *found]), start=EARLIEST_TIMESTAMP)
            self._started().on_positions_changed()

    # -- in a group

    def _join(self) -> None:
        for topic in self._subscription:
            self._metadata.watch(topic)
        if self._group is None:
            assert self._coordinator is not None
            assert self._commits is not None
            buffer = self._started().buffer
            self._group = Group(
                self._runtime, self.config, self._metadata, self._coordinator, self._metrics
            )
            self._group.on_pending = buffer.arrived.set
            self._group.on_error = buffer.report
            self._commits.membership = self._group.membership
            self._group.start()
        self._group.on_topics(self._subscription, "the subscription changed")

    async def _leave(self, timeout_ms: int, *, commits: bool) -> None:
        """Give everything up, commit first where that is wanted, and go."""
        group, self._group = self._group, None
        if self.config.commits_by_itself and commits and self._commits is not None:
            membership = self._commits.membership
            if membership is None or membership.is_member:
                await self._commit_quietly(self._consumed(), timeout_ms)
        if group is None:
            return
        owned = tuple(group.membership.owned)
        try:
            if owned:
                is_lost = not group.membership.is_member
                await self._call_about_loss(owned) if is_lost else await self._call(
                    self._listener.on_revoked, owned, self._metrics.revoked
                )
        finally:
            await group.leave(timeout_ms)
            if self._commits is not None:
                self._commits.membership = None

    async def _carry_out_pending(self) -> None:
        """Within a poll: give up and take over, until nothing is pending."""
        group = self._group
        while group is not None and (change := group.membership.pending()) is not None:
            try:
                await self._carry_out(group, change)
            finally:
                group.wake()
        if group is not None:
            group.check()

    async def _carry_out(self, group: Group, change: Change) -> None:
        membership = group.membership
        if change.lost:
            why = membership.reason
            log.warning("group %s: lost %s: %s", self.config.group_id, _names(change.lost), why)
            try:
                await self._call_about_loss(change.lost)
            finally:
                self._give_up(group, change.lost)
        if change.revoked:
            log.info("group %s: gives up %s", self.config.group_id, _names(change.revoked))
            if self.config.commits_by_itself and membership.is_member:
                await self._commit_quietly(self._consumed(), GIVING_UP_MS)
            try:
                await self._call(self._listener.on_revoked, change.revoked, self._metrics.revoked)
            finally:
                self._give_up(group, change.revoked)
        if change.target is not None:
            added = membership.on_taken(change)
            if added is None:
                return
            log.info(
                "group %s: generation %d: reads %d partitions, %d of them new",
                *(self.config.group_id, membership.generation, len(change.target), len(added)),
            )
            self._positions.assign(change.target, start=self._positions.reset)
            self._started().on_positions_changed()
            await self._call(self._listener.on_assigned, added, self._metrics.assigned)

    def _give_up(self, group: Group, partitions: Sequence[TopicPartition]) -> None:
        self._drop_unread(partitions)
        gone = dict.fromkeys(partitions)
        kept = [partition for partition in self._positions.states if partition not in gone]
        self._positions.assign(kept, start=None)
        group.membership.on_given_up(partitions)
        if self._fetcher is not None:
            self._fetcher.on_positions_changed()

    async def _call_about_loss(self, partitions: Sequence[TopicPartition]) -> None:
        called = self._listener.on_lost or self._listener.on_revoked
        await self._call(called, partitions, self._metrics.lost)

    async def _call(
        self,
        callback: RebalanceCallback | None,
        partitions: Sequence[TopicPartition],
        latency: Stat,
    ) -> None:
        if callback is None:
            return
        begun_ms = self._runtime.monotonic_ms()
        outcome = callback(partitions)
        if inspect.isawaitable(outcome):
            await outcome
        now_ms = self._runtime.monotonic_ms()
        latency.record(now_ms - begun_ms, now_ms)


def _names(partitions: Sequence[TopicPartition]) -> str:
    return ", ".join(f"{topic}-{index}" for topic, index in partitions)
