"""The user's side of a rebalance: within polls, it gives partitions up and takes new ones.

Carries out the pending `Change` of `Membership`: commits, calls the listener and changes positions.
JoinGroup, SyncGroup and heartbeats are sent by the loop of `Group`.
"""

import inspect
import logging
from collections.abc import Sequence
from typing import Final

from ...protocol.types import TopicPartition
from ..group_types import RebalanceCallback, RebalanceListener
from ..metrics import Stat
from ..partitions import name_of
from .committing import Committing
from .engine import Engine
from .group import Group
from .membership import Change

log = logging.getLogger(__name__)

GIVING_UP_MS: Final = 5_000
"""The limit in ms for the commit before partitions are given up, for which the group waits."""
NO_LISTENER: Final = RebalanceListener()


class Rebalancing:
    """Hands the user the partitions that the group assigns, and takes them away again."""

    def __init__(self, engine: Engine, committing: Committing) -> None:
        self.group: Group | None = None
        """The task of the membership; None unless this consumer is subscribed with a group_id."""
        self.listener = NO_LISTENER
        self._engine = engine
        self._committing = committing
        self._metrics = engine.metrics
        self._positions = engine.positions

    def join(self, topics: Sequence[str]) -> None:
        """Subscribe to these topics as a member of the group; the first poll joins it."""
        engine = self._engine
        for topic in topics:
            engine.metadata.watch(topic)
        if self.group is None:
            engine.check_usable()
            commits, buffer = engine.commits, engine.fetcher.buffer
            assert commits is not None
            group = Group(
                engine.runtime, engine.config, engine.metadata, commits.coordinator, engine.metrics
            )
            group.on_pending = buffer.arrived.set
            group.on_error = buffer.report
            commits.membership = group.membership
            group.start()
            self.group = group
        self.group.on_topics(topics, "the subscription changed")

    async def leave(self, timeout_ms: int) -> None:
        """Commit if commits are automatic, call the listener, and leave the group."""
        group, self.group = self.group, None
        await self._committing.commit_last(timeout_ms)
        if group is None:
            return
        owned = tuple(group.membership.owned)
        try:
            if owned and not group.membership.is_member:
                await self._call_about_loss(owned)
            elif owned:
                await self._call(self.listener.on_revoked, owned, self._metrics.revoked)
        finally:
            await group.leave(timeout_ms)
            if self._engine.commits is not None:
                self._engine.commits.membership = None

    async def carry_out_pending(self) -> None:
        """Give up and take over partitions, within a poll, until no change is pending."""
        group = self.group
        while group is not None and (change := group.membership.pending()) is not None:
            try:
                await self._carry_out(group, change)
            finally:
                group.wake()
        if group is not None:
            group.check()

    async def _carry_out(self, group: Group, change: Change) -> None:
        membership, group_id = group.membership, self._engine.config.group_id
        if change.lost:
            why = membership.reason
            log.warning("group %s: lost %s: %s", group_id, _names(change.lost), why)
            try:
                await self._call_about_loss(change.lost)
            finally:
                self._give_up(group, change.lost)
        if change.revoked:
            log.info("group %s: gives up %s", group_id, _names(change.revoked))
            if membership.is_member:
                await self._committing.commit_last(GIVING_UP_MS)
            try:
                await self._call(self.listener.on_revoked, change.revoked, self._metrics.revoked)
            finally:
                self._give_up(group, change.revoked)
        if change.target is not None:
            added = membership.on_taken(change)
            if added is None:
                return
            log.info(
                "group %s: generation %d: reads %d partitions, %d of them new",
                *(group_id, membership.generation, len(change.target), len(added)),
            )
            self._engine.assign(change.target, start=self._positions.reset)
            await self._call(self.listener.on_assigned, added, self._metrics.assigned)

    def _give_up(self, group: Group, partitions: Sequence[TopicPartition]) -> None:
        self._engine.progress.drop_unread(partitions)
        gone = dict.fromkeys(partitions)
        kept = [partition for partition in self._positions.states if partition not in gone]
        self._positions.assign(kept, start=None)
        group.membership.on_given_up(partitions)
        self._engine.fetcher.on_positions_changed()

    async def _call_about_loss(self, partitions: Sequence[TopicPartition]) -> None:
        called = self.listener.on_lost or self.listener.on_revoked
        await self._call(called, partitions, self._metrics.lost)

    async def _call(
        self,
        callback: RebalanceCallback | None,
        partitions: Sequence[TopicPartition],
        latency: Stat,
    ) -> None:
        if callback is None:
            return
        begun_ms = self._engine.runtime.monotonic_ms()
        outcome = callback(partitions)
        if inspect.isawaitable(outcome):
            await outcome
        now_ms = self._engine.runtime.monotonic_ms()
        latency.record(now_ms - begun_ms, now_ms)


def _names(partitions: Sequence[TopicPartition]) -> str:
    return ", ".join(map(name_of, partitions))
