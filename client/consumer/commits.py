"""Commits and fetches the offsets of one group; one commit at a time, in the order of calls.

Sends OffsetCommit and OffsetFetch. The callers decide which offsets to commit, and when. A commit
names the member and generation of `Membership`; without a membership it names none.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Final

from ...protocol.errors import ErrorCode
from ...protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ...protocol.messages.offset_fetch import OffsetFetchResponse
from ...protocol.types import ZERO_UUID, TopicPartition
from ...runtime.runtime import Runtime
from ..committed import BY_NAME, errors_in, offsets_in, question
from ..coordinator import NOT_NOW, Coordinator
from ..errors import RequestTimedOut
from ..group_types import OffsetAndMetadata
from ..metadata import Metadata
from ..refusals import CommitFailed, refusal
from .consumer_metrics import ConsumerMetrics
from .membership import FORGOTTEN, Heartbeat, Membership

FENCED: Final = (
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_INSTANCE_ID,
    *FORGOTTEN,
)
Offsets = Mapping[TopicPartition, OffsetAndMetadata]


class Commits:
    """Commits and fetches the offsets of one group, for one consumer."""

    def __init__(
        self,
        runtime: Runtime,
        metadata: Metadata,
        coordinator: Coordinator,
        metrics: ConsumerMetrics,
    ) -> None:
        self.group_instance_id: str | None = None
        self.membership: Membership | None = None
        """The membership of the committing consumer; it is None under `Consumer.assign`."""
        self.coordinator = coordinator
        self._runtime = runtime
        self._metadata = metadata
        self._metrics = metrics
        self._turn = asyncio.Lock()

    @property
    def is_busy(self) -> bool:
        """True while a commit is under way."""
        return self._turn.locked()

    @property
    def may_commit(self) -> bool:
        """False while the committing consumer has a membership but is no member of the group."""
        return self.membership is None or self.membership.is_member

    # -- committing

    async def commit(self, offsets: Offsets, *, timeout_ms: int) -> None:
        """Commit the offsets, after all commits that were begun before.

        Raise CommitFailed if the group no longer knows this member, Refused if a broker refuses
        for good. Raise RequestTimedOut after `timeout_ms`; the commit may still have been made.
        """
        if not offsets:
            return
        begun_ms = self._runtime.monotonic_ms()
        async with _deadline(f"{self.coordinator}: not committed", timeout_ms), self._turn:
            await self._commit(offsets, timeout_ms)
        now_ms = self._runtime.monotonic_ms()
        self._metrics.commits.record(now_ms - begun_ms, now_ms)

    async def _commit(self, offsets: Offsets, timeout_ms: int) -> None:
        failure_count = 0
        while True:
            member = self._member()
            request = self._commit_request(offsets, member)
            answer: OffsetCommitResponse = await self.coordinator.ask(
                request, _commit_code, timeout_ms=timeout_ms, at_most=self._version(offsets)
            )
            code = _commit_code(answer)
            if code is ErrorCode.NONE:
                return
            if code in FENCED and not self._has_moved_on(member, code):
                if self.membership is not None and member is not None:
                    self.membership.on_refused(member, code)
                raise CommitFailed(code, f"{self.coordinator}: committing offsets")
            is_between = code is ErrorCode.REBALANCE_IN_PROGRESS or code in FENCED
            if not is_between and not code.retriable:
                raise refusal(code, f"{self.coordinator}: committing offsets")
            if code.stale_metadata:
                self._metadata.refresh_soon()
            failure_count += 1
            await self.coordinator.rest(failure_count)

    def _member(self) -> Heartbeat | None:
        """Return the member id and generation to commit with, or None without a membership.

        Raise CommitFailed if the membership has ended.
        """
        if self.membership is None:
            return None
        if not self.membership.is_member:
            why = f"{self.coordinator}: {self.membership.reason}"
            raise CommitFailed(ErrorCode.UNKNOWN_MEMBER_ID, why)
        return Heartbeat(self.membership.member_id, self.membership.generation)

    def _has_moved_on(self, member: Heartbeat | None, code: ErrorCode) -> bool:
        """True if `member` has a new generation, or soon will, so that the commit is repeated.

        Such a member still owns its partitions. The result is False if the coordinator does not
        know the current member id: a join with this id cannot succeed.
        """
        membership = self.membership
        if membership is None or member is None or not membership.is_member:
            return False
        if code in FORGOTTEN and membership.member_id == member.member_id:
            return False
        now = Heartbeat(membership.member_id, membership.generation)
        return membership.is_rebalancing or now != member

    def _commit_request(self, offsets: Offsets, member: Heartbeat | None) -> OffsetCommitRequest:
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for (name, index), committed in offsets.items():
            topic = topics.get(name)
            if topic is None:
                topic_id = self._metadata.view.topic_id(name)
                topic = topics[name] = OffsetCommitRequestTopic(
                    name=name, topic_id=topic_id, partitions=[]
                )
            topic.partitions.append(
                OffsetCommitRequestPartition(
                    partition_index=index,
                    committed_offset=committed.offset,
                    committed_leader_epoch=committed.leader_epoch,
                    committed_metadata=committed.metadata,
                )
            )
        request = OffsetCommitRequest(group_id=self.coordinator.key, topics=list(topics.values()))
        if member is not None:
            request.member_id = member.member_id
            request.generation_id_or_member_epoch = member.generation
            request.group_instance_id = self.group_instance_id
        return request

    def _version(self, partitions: Iterable[TopicPartition]) -> int:
        ids = (self._metadata.view.topic_id(partition.topic) for partition in partitions)
        return BY_NAME + all(topic_id != ZERO_UUID for topic_id in ids)

    # -- asking

    async def fetch(
        self,
        partitions: Iterable[TopicPartition] | None,
        *,
        timeout_ms: int,
        is_stable: bool = False,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Fetch the committed offsets of `partitions`, or all of the group if `partitions` is None.

        Partitions without a committed offset are left out. With `is_stable`, wait until no open
        transaction has offsets pending for them (KIP-447). Raise RequestTimedOut after
        `timeout_ms`, Refused if a broker refuses for good.
        """
        wanted = None if partitions is None else list(partitions)
        at_most = BY_NAME if wanted is None else self._version(wanted)
        view = self._metadata.view
        request = question(self.coordinator.key, wanted, is_stable=is_stable, id_of=view.topic_id)
        failure_count = 0
        async with _deadline(f"{self.coordinator}: asking for offsets: no answer", timeout_ms):
            while True:
                answer: OffsetFetchResponse = await self.coordinator.ask(
                    request, _fetch_code, timeout_ms=timeout_ms, at_most=at_most
                )
                code = _fetch_code(answer)
                if code is ErrorCode.NONE:
                    return offsets_in(answer, view.names)
                if not code.retriable:
                    raise refusal(code, f"{self.coordinator}: asking for offsets")
                if code.stale_metadata:
                    self._metadata.refresh_soon()
                failure_count += 1
                await self.coordinator.rest(failure_count)


@contextlib.asynccontextmanager
async def _deadline(what: str, timeout_ms: int) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            yield
    except TimeoutError:
        raise RequestTimedOut(f"{what} within {timeout_ms} ms") from None


def _commit_code(answer: OffsetCommitResponse) -> ErrorCode:
    codes = [ErrorCode(one.error_code) for topic in answer.topics for one in topic.partitions]
    return _worst(codes)


def _fetch_code(answer: OffsetFetchResponse) -> ErrorCode:
    return _worst(errors_in(answer))


def _worst(codes: Iterable[ErrorCode]) -> ErrorCode:
    """Return the first error that is not retriable, else one of NOT_NOW, else any, else NONE."""
    errors = [code for code in codes if code is not ErrorCode.NONE]
    final = [code for code in errors if not code.retriable]
    elsewhere = [code for code in errors if code in NOT_NOW]
    return next(iter([*final, *elsewhere, *errors]), ErrorCode.NONE)
