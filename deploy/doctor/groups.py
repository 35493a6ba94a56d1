"""Looks at consumer groups twice, to find those that make no progress.

A group that is in a rebalance at both looks waits for a member. A group that has members, lags by
minutes and commits nothing between the looks does not work through its records.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from ...client.admin.admin import Admin
from ...client.admin.lag_types import PartitionLag
from ...protocol.types import TopicPartition
from ...runtime.runtime import Runtime
from .facts import StuckGroup
from .steps import Steps, all_of

REBALANCING: Final = ("PreparingRebalance", "CompletingRebalance")
STABLE: Final = "Stable"
REBALANCE_MS: Final = 3_000
"""The least time between the looks if a group is in a rebalance."""
COMMIT_MS: Final = 10_000
"""The least time between the looks if a group lags: twice the default auto.commit.interval.ms."""
LAGGING_S: Final = 300.0
"""The age of the first unread record, in seconds, at which a group is looked at again."""
GROUPS_MAX: Final = 500
"""The most groups whose lag is asked for."""


class GroupLooks:
    """Two looks at the groups of one cluster."""

    def __init__(self, runtime: Runtime, admin: Admin, steps: Steps) -> None:
        self._runtime = runtime
        self._admin = admin
        self._steps = steps
        self._first_ms = 0
        self._rebalancing: Mapping[str, str] = {}
        self._lagging: dict[str, dict[TopicPartition, int]] = {}
        """By group, the committed offsets of the partitions in which it lags."""

    async def first(self) -> None:
        """Note which groups are in a rebalance, and which lag."""
        listed = await self._steps.take("groups", self._admin.list_groups(), [])
        self._rebalancing = {one.group_id: one.state for one in listed if one.state in REBALANCING}
        stable = [one.group_id for one in listed if one.state == STABLE]
        if len(stable) > GROUPS_MAX:
            self._steps.skip("lag of groups", f"only {GROUPS_MAX} of {len(stable)} were asked for")
        lags = await all_of(self._lag(name) for name in stable[:GROUPS_MAX])
        self._lagging = {name: lag for name, lag in zip(stable, lags, strict=False) if lag}
        self._first_ms = self._runtime.monotonic_ms()

    async def second(self) -> tuple[StuckGroup, ...]:
        """Look again at the groups noted by `first`, and return those without progress."""
        if not self._rebalancing and not self._lagging:
            return ()
        apart_ms = COMMIT_MS if self._lagging else REBALANCE_MS
        wait_ms = self._first_ms + apart_ms - self._runtime.monotonic_ms()
        await asyncio.sleep(max(wait_ms, 0) / 1000)
        question = self._admin.list_groups(states=REBALANCING)
        listed = await self._steps.take("groups, at the second look", question, [])
        states = {one.group_id: one.state for one in listed if one.state in REBALANCING}
        stuck = [StuckGroup(name, states[name]) for name in self._rebalancing if name in states]
        idle = await all_of(self._idle(name, lag) for name, lag in self._lagging.items())
        return (*stuck, *(one for one in idle if one is not None))

    async def _lag(self, name: str) -> dict[TopicPartition, int]:
        question = self._admin.describe_group_lag(name, timeout_ms=self._steps.most_ms)
        lags = await self._steps.take(f"lag of group {name}", question, {})
        return {
            where: lag.committed_offset
            for where, lag in lags.items()
            if isinstance(lag, PartitionLag) and (lag.seconds or 0) >= LAGGING_S
        }

    async def _idle(self, name: str, before: Mapping[TopicPartition, int]) -> StuckGroup | None:
        """Return the group if it has committed nothing in these partitions since the first look."""
        question = self._admin.list_group_offsets(name)
        now = await self._steps.take(f"offsets of group {name}", question, {})
        same = [at for at, offset in before.items() if at in now and now[at].offset == offset]
        if len(same) < len(before):
            return None
        where = min(same)
        return StuckGroup(name, STABLE, where, before[where], len(same))
