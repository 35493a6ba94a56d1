"""What a consumer commits for its group, and when: when told to, and by itself while polling.

Never commits what was not handed to the user. Asking and sending is `Commits`' business.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Final, Generic, TypeVar

from ...protocol.errors import ProtocolError
from ...protocol.messages.list_offsets import LATEST_TIMESTAMP
from ...protocol.types import TopicPartition
from ..coordinator import Coordinator
from ..errors import ClientError
from ..group_types import ConsumerGroupMetadata, OffsetAndMetadata, with_metadata
from ..offsets import list_offsets
from ..serialization import K, V
from .commits import Commits
from .interceptors import ConsumerInterceptor
from .questions import Partition
from .seeking import Seeking

log = logging.getLogger(__name__)

GIVING_UP_MS: Final = 5_000
"""For the commit before partitions are given up: the group waits for it."""
P = TypeVar("P", bound=tuple[str, int])
ToCommit = Mapping[P, int | OffsetAndMetadata]


class Committing(Seeking[K, V], Generic[K, V]):
    """The part of a consumer that commits."""

    _commits: Commits | None
    _coordinator: Coordinator | None
    _interceptors: list[ConsumerInterceptor[K, V]]
    _auto_commit_at_ms: int
    _auto_commit: "asyncio.Task[None] | None"

    def _group_commits(self) -> Commits:
        self._check_usable()
        if self._commits is None:
            raise ValueError("nothing can be committed without group_id")
        return self._commits

    async def commit(
        self, offsets: ToCommit[P] | None = None, *, timeout_ms: int | None = None
    ) -> None:
        """Commit how far the group has come: `offsets`, or all that polls have returned.

        An offset is that of the next record to read; OffsetAndMetadata may say more beside it.
        Waits for a rebalance under way. Raises CommitFailed where the group went on without this
        consumer (its records are read again by others: at least once), Refused where a broker will
        not have it, RequestTimedOut after `timeout_ms` (default default_api_timeout_ms).
        """
        commits = self._group_commits()
        wanted = self._consumed() if offsets is None else _checked(offsets)
        limit_ms = self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        await commits.commit(wanted, timeout_ms=limit_ms)
        self._tell_committed(wanted)

    async def committed(
        self, partitions: Iterable[Partition] | None = None, *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Ask how far the group has come in these partitions, or in those assigned; None: nothing.

        Raises as `commit` does.
        """
        commits = self._group_commits()
        chosen = self.assignment() if partitions is None else partitions
        wanted = [TopicPartition(*partition) for partition in chosen]
        limit_ms = self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        for topic in dict.fromkeys(partition.topic for partition in wanted):
            self._metadata.watch(topic)
        found = await commits.fetch(
            wanted, timeout_ms=limit_ms, is_stable=self.config.isolation_level == "read_committed"
        )
        return {partition: found.get(partition) for partition in wanted}

    async def group_lag(self, *, timeout_ms: int | None = None) -> dict[TopicPartition, int]:
        """Count what the whole group has still to read: behind its commits, in each partition."""
        commits = self._group_commits()
        limit_ms = self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        found = await commits.fetch(None, timeout_ms=limit_ms)
        ends = await list_offsets(
            self._metadata,
            dict.fromkeys(found, LATEST_TIMESTAMP),
            timeout_ms=limit_ms,
            isolation_level=self._isolation,
        )
        return {at: max(ends[at].offset - found[at].offset, 0) for at in found}

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Say who this member is, for `Producer.send_offsets`."""
        commits = self._group_commits()
        assert self.config.group_id is not None
        membership = commits.membership
        if membership is None:
            return ConsumerGroupMetadata(self.config.group_id)
        return ConsumerGroupMetadata(
            self.config.group_id,
            membership.generation,
            membership.member_id,
            self.config.group_instance_id,
        )

    # -- by itself

    def _commit_if_due(self, now_ms: int) -> None:
        """A poll begins: what earlier ones returned is done."""
        if not self.config.commits_by_itself or now_ms < self._auto_commit_at_ms:
            return
        commits = self._commits
        if commits is None or commits.is_busy or self._auto_commit is not None:
            return
        if commits.membership is not None and not commits.membership.is_member:
            return
        self._auto_commit_at_ms = now_ms + self.config.auto_commit_interval_ms
        offsets = self._consumed()
        if offsets:
            task = self._runtime.spawn(self._commit_quietly(offsets, None), "auto commit")
            self._auto_commit = task
            task.add_done_callback(self._on_auto_commit_done)

    def _on_auto_commit_done(self, task: "asyncio.Task[None]") -> None:
        self._auto_commit = None

    async def _commit_quietly(
        self, offsets: dict[TopicPartition, OffsetAndMetadata], timeout_ms: int | None
    ) -> None:
        """Commit; where it fails, records are read again, which auto commit allows for."""
        if self._commits is None or not offsets:
            return
        limit_ms = self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        try:
            await self._commits.commit(offsets, timeout_ms=limit_ms)
        except (ClientError, ProtocolError) as error:
            log.warning("offsets were not committed, some records may be read again: %s", error)
        else:
            self._tell_committed(offsets)

    def _tell_committed(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        for interceptor in self._interceptors:
            interceptor.on_commit(offsets)


def _checked(offsets: ToCommit[P]) -> dict[TopicPartition, OffsetAndMetadata]:
    found = {}
    for partition, offset in offsets.items():
        committed = with_metadata(offset)
        if committed.offset < 0:
            raise ValueError(f"an offset is 0 or more, not {committed.offset}")
        found[TopicPartition(*partition)] = committed
    return found
