"""The commits of a consumer for its group: at the user's request, and automatic ones in polls.

Unless the user names offsets, the offsets behind the records handed to him are committed. `Commits`
sends the requests.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from ...protocol.errors import ProtocolError
from ...protocol.messages.list_offsets import LATEST_TIMESTAMP
from ...protocol.types import TopicPartition
from ...runtime.owned_task import OwnedTask
from ..errors import ClientError
from ..group_types import ConsumerGroupMetadata, OffsetAndMetadata, with_metadata
from .commits import Commits
from .consumer_metrics import COMMIT_SYNC, COMMITTED
from .engine import Engine
from .questions import Partition
from .user_functions import UserFunctions

log = logging.getLogger(__name__)

P = TypeVar("P", bound=tuple[str, int])
ToCommit = Mapping[P, int | OffsetAndMetadata]


class Committing:
    """Commits when the user asks for it, and automatically under enable_auto_commit."""

    def __init__(self, engine: Engine, functions: UserFunctions[Any, Any]) -> None:
        self._engine = engine
        self._config = engine.config
        self._progress = engine.progress
        self._functions = functions
        self._is_automatic = engine.config.commits_by_itself
        self._due_ms = 0
        """The monotonic time at which a poll makes the next automatic commit."""
        self._task = OwnedTask(engine.runtime, "auto commit")
        """The automatic commit under way."""

    def start(self) -> None:
        """Schedule the first automatic commit for auto_commit_interval_ms from now."""
        self._due_ms = self._engine.runtime.monotonic_ms() + self._config.auto_commit_interval_ms

    async def stop(self) -> None:
        """Cancel an automatic commit that is under way."""
        await self._task.stop()

    def _group_commits(self) -> Commits:
        self._engine.check_usable()
        if self._engine.commits is None:
            raise ValueError("nothing can be committed without group_id")
        return self._engine.commits

    def _limit_ms(self, timeout_ms: int | None) -> int:
        return self._config.default_api_timeout_ms if timeout_ms is None else timeout_ms

    # -- on request

    async def commit(self, offsets: ToCommit[P] | None, timeout_ms: int | None) -> None:
        """Commit `offsets`; if it is None, all that polls have returned. See `Consumer.commit`."""
        commits = self._group_commits()
        wanted = self._progress.consumed() if offsets is None else _checked(offsets)
        with self._engine.metrics.spent.counted(COMMIT_SYNC):
            await commits.commit(wanted, timeout_ms=self._limit_ms(timeout_ms))
        self._functions.tell_committed(wanted)

    async def committed(
        self, partitions: Iterable[Partition] | None, timeout_ms: int | None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Fetch the committed offsets of these partitions; if None, of those assigned.

        The value is None for a partition without a committed offset.
        """
        commits = self._group_commits()
        chosen = self._engine.positions.states if partitions is None else partitions
        wanted = [TopicPartition(*partition) for partition in chosen]
        for topic in dict.fromkeys(partition.topic for partition in wanted):
            self._engine.metadata.watch(topic)
        with self._engine.metrics.spent.counted(COMMITTED):
            found = await commits.fetch(
                wanted,
                timeout_ms=self._limit_ms(timeout_ms),
                is_stable=self._config.reads_committed,
            )
        return {partition: found.get(partition) for partition in wanted}

    async def group_lag(self, timeout_ms: int | None) -> dict[TopicPartition, int]:
        """Return for each committed partition the number of offsets from the commit to the end."""
        commits = self._group_commits()
        limit_ms = self._limit_ms(timeout_ms)
        found = await commits.fetch(None, timeout_ms=limit_ms)
        ends = await self._engine.list_offsets(dict.fromkeys(found, LATEST_TIMESTAMP), limit_ms)
        return {at: max(ends[at].offset - found[at].offset, 0) for at in found}

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return who commits in a transaction; see ConsumerGroupMetadata."""
        membership, group_id = self._group_commits().membership, self._config.group_id
        assert group_id is not None
        if membership is None:
            return ConsumerGroupMetadata(group_id)
        who = membership.commits_as
        instance_id = self._config.group_instance_id
        return ConsumerGroupMetadata(group_id, who.generation, who.member_id, instance_id)

    # -- automatic

    def commit_if_due(self, now_ms: int) -> None:
        """Start the automatic commit of what earlier polls returned, if it is due."""
        if not self._is_automatic or now_ms < self._due_ms:
            return
        commits = self._engine.commits
        if commits is None or commits.is_busy or self._task.is_running:
            return
        if not commits.may_commit:
            return
        self._due_ms = now_ms + self._config.auto_commit_interval_ms
        offsets = self._progress.consumed()
        if offsets:
            self._task.start(lambda: self._commit_quietly(commits, offsets, None))

    async def commit_last(self, timeout_ms: int) -> None:
        """Commit what polls have returned before partitions are lost, if commits are automatic."""
        commits = self._engine.commits
        if self._is_automatic and commits is not None and commits.may_commit:
            await self._commit_quietly(commits, self._progress.consumed(), timeout_ms)

    async def _commit_quietly(
        self,
        commits: Commits,
        offsets: dict[TopicPartition, OffsetAndMetadata],
        timeout_ms: int | None,
    ) -> None:
        """Commit, and only log a failure: automatic commits allow records to be read again."""
        if not offsets:
            return
        try:
            await commits.commit(offsets, timeout_ms=self._limit_ms(timeout_ms))
        except (ClientError, ProtocolError) as error:
            log.warning("offsets were not committed, some records may be read again: %s", error)
        else:
            self._functions.tell_committed(offsets)


def _checked(offsets: ToCommit[P]) -> dict[TopicPartition, OffsetAndMetadata]:
    found = {}
    for partition, offset in offsets.items():
        committed = with_metadata(offset)
        if committed.offset < 0:
            raise ValueError(f"an offset is 0 or more, not {committed.offset}")
        found[TopicPartition(*partition)] = committed
    return found
