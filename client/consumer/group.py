"""Sends what `Membership` decides: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

A loop of its own sends them, also between the user's polls. If the member is the group's leader,
`Leading` computes the assignment. Never changes positions: the consumer's poll carries out a
pending `Change`, and wakes this loop.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final, assert_never

from ...protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    ConsumerProtocolSubscription,
    decode_assignment,
    encode_subscription,
)
from ...protocol.errors import ApiError, ErrorCode, ProtocolError
from ...protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ...protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from ...protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ...protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from ...protocol.types import TopicPartition
from ...runtime.runtime import Runtime
from ..config import ConsumerConfig
from ..coordinator import NOT_NOW, Coordinator
from ..errors import ClientError
from ..metadata import Metadata
from ..refusals import Refused, refusal
from .assignors import ASSIGNORS, Assignor
from .consumer_metrics import ConsumerMetrics
from .leading import Leading, as_written
from .membership import (
    Heartbeat,
    Join,
    Joined,
    JoinedMember,
    Leave,
    Membership,
    Stage,
    Sync,
    Terms,
    Wait,
)

log = logging.getLogger(__name__)

GROUP: Final = "group"
"""The lane of joins and syncs: a connection of their own, so that commits do not wait for them."""
PATIENCE: Final = 10
"""The number of failures in a row after which a warning is logged, once."""


class Group:
    """The task that keeps one consumer a member of its group, from `start` to `leave`."""

    def __init__(
        self,
        runtime: Runtime,
        config: ConsumerConfig,
        metadata: Metadata,
        coordinator: Coordinator,
        metrics: ConsumerMetrics,
    ) -> None:
        self._assignors = [ASSIGNORS[name] for name in config.partition_assignment_strategy]
        self.membership = Membership(
            Terms(
                group_instance_id=config.group_instance_id,
                is_cooperative=all(one.is_cooperative for one in self._assignors),
                heartbeat_interval_ms=config.heartbeat_interval_ms,
                max_poll_interval_ms=config.max_poll_interval_ms,
            )
        )
        self.on_pending: Callable[[], None]
        """Called when the next poll has a `Change` to carry out. Set it before `start`."""
        self.on_error: Callable[[ClientError | ApiError], None]
        """Called with an error that a poll must raise; the next poll joins again.
        Set it before `start`."""
        self._runtime = runtime
        self._config = config
        self._metadata = metadata
        self._coordinator = coordinator
        self._metrics = metrics
        self._topics: tuple[str, ...] = ()
        self._leading = Leading(metadata)
        self._rebalance_began_ms: int | None = None
        self._failure_count = 0
        self._fatal: Refused | None = None
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the loop; it sends nothing before the first poll."""
        self._task = self._runtime.spawn(self._run(), f"member of {self._coordinator}")

    def check(self) -> None:
        """Raise the error that ended this membership for good, so that polls do not wait."""
        if self._fatal is not None:
            raise self._fatal
        if self._task is not None and self._task.done() and not self._task.cancelled():
            self._task.result()

    def wake(self) -> None:
        """Make the loop compute its next step anew, because a poll has changed the membership."""
        self._wake.set()

    def on_poll(self) -> None:
        """Wake the loop, unless the member is stable, because a poll has begun or ended."""
        if self.membership.stage is not Stage.STABLE:
            self._wake.set()

    async def leave(self, timeout_ms: int) -> None:
        """Stop the loop and send LeaveGroup, for `timeout_ms` at most; static members send none."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        farewell = self.membership.on_left()
        if farewell is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_ms / 1000):
                    await self._leave(farewell)

    def on_topics(self, topics: Iterable[str], reason: str) -> None:
        """Set the topics to read; the member joins again with `reason` if they have changed."""
        self._topics = tuple(sorted(topics))
        self.membership.on_topics(self._topics, reason)
        self._wake.set()

    def on_metadata(self) -> None:
        """Join again if this member leads and the partition count of a topic has changed."""
        why = self._leading.what_changed()
        if why is not None:
            self.membership.request_rejoin(why)
            self._wake.set()

    # -- the loop

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            step = self.membership.next_step(self._runtime.monotonic_ms())
            if self.membership.pending() is not None:
                self.on_pending()
            if isinstance(step, Wait):
                await self._wait(step)
                continue
            try:
                await self._carry_out(step)
            except (ClientError, ProtocolError) as error:
                await self._on_failure(step, error)

    async def _wait(self, step: Wait) -> None:
        wait_ms = None
        if step.until_ms is not None:
            wait_ms = max(step.until_ms - self._runtime.monotonic_ms(), 0)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if wait_ms is None else wait_ms / 1000):
                await self._wake.wait()

    async def _carry_out(self, step: Join | Sync | Heartbeat | Leave) -> None:
        match step:
            case Join():
                code = await self._join(step)
            case Sync():
                code = await self._sync(step)
            case Heartbeat():
                code = await self._heartbeat(step)
            case Leave(_, reason):
                log.warning("%s: leaving: %s", self._coordinator, reason)
                await self._leave(step)
                return
            case _:
                assert_never(step)
        if code is ErrorCode.NONE:
            self._failure_count = 0
            return
        self._judge(step, code)
        if code.retriable or code is ErrorCode.REBALANCE_IN_PROGRESS:
            if code in NOT_NOW:
                self._coordinator.on_refused(code)
            if not isinstance(step, Heartbeat) or code.retriable:
                await self._rest(f"{code.name}: {code.doc}")

    def _judge(self, step: Join | Sync | Heartbeat, code: ErrorCode) -> None:
        what = type(step).__name__
        before = self.membership.stage
        if not self.membership.on_refused(step, code):
            self._metrics.failed_rebalances.record(1, self._runtime.monotonic_ms())
            error = refusal(code, f"{self._coordinator}: {what}")
            if self.membership.is_replaced:
                self._fatal = error
                self.on_pending()
            else:
                self.on_error(error)
        if self.membership.stage is not before:
            log.info("%s: %s", self._coordinator, self.membership.reason)

    async def _on_failure(self, step: object, error: ClientError | ProtocolError) -> None:
        code = getattr(error, "code", None)
        is_final = isinstance(code, ErrorCode) and not code.retriable
        if is_final and isinstance(step, (Join, Sync, Heartbeat)):
            self._judge(step, code or ErrorCode.UNKNOWN_SERVER_ERROR)
        log.debug("%s: %s failed: %s", self._coordinator, type(step).__name__, error)
        if not isinstance(step, Leave):
            await self._rest(error)

    async def _rest(self, why: object) -> None:
        self._failure_count += 1
        if self._failure_count == PATIENCE:
            log.warning("%s: no answer that helps, still trying: %s", self._coordinator, why)
        await self._coordinator.rest(self._failure_count)

    # -- joining

    async def _join(self, step: Join) -> ErrorCode:
        begun_ms = self._runtime.monotonic_ms()
        if self._rebalance_began_ms is None:
            self._rebalance_began_ms = begun_ms
            log.info("%s: joining: %s", self._coordinator, step.reason)
        config = self._config
        self._leading.resign()
        request = JoinGroupRequest(
            group_id=self._coordinator.key,
            session_timeout_ms=config.session_timeout_ms,
            rebalance_timeout_ms=config.max_poll_interval_ms,
            member_id=step.member_id,
            group_instance_id=config.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[
                JoinGroupRequestProtocol(name=one.name, metadata=self._subscription(one, step))
                for one in self._assignors
            ],
            reason=step.reason[:255],
        )
        # The coordinator waits for all members, which join within a poll.
        timeout_ms = config.max_poll_interval_ms + config.request_timeout_ms
        answer: JoinGroupResponse = await self._coordinator.request(
            request, timeout_ms=timeout_ms, lane=GROUP
        )
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self.membership.on_member_id(answer.member_id)
            return ErrorCode.NONE
        if code is ErrorCode.NONE:
            now_ms = self._runtime.monotonic_ms()
            self._metrics.joins.record(now_ms - begun_ms, now_ms)
            self.membership.on_joined(_joined(answer), now_ms)
        return code

    def _subscription(self, assignor: Assignor, step: Join) -> bytes:
        membership = self.membership
        owned: Sequence[TopicPartition] = tuple(membership.owned)
        generation = step.generation
        if assignor.is_cooperative:
            user_data = assignor.user_data(owned, generation)
        else:
            user_data = assignor.user_data(membership.last_owned, membership.last_generation)
        return encode_subscription(
            ConsumerProtocolSubscription(
                topics=list(self._topics),
                user_data=user_data,
                owned_partitions=as_written(owned),
                generation_id=generation,
                rack_id=self._config.client_rack or None,
            )
        )

    async def _sync(self, step: Sync) -> ErrorCode:
        joined = step.joined
        assignments: list[SyncGroupRequestAssignment] = []
        if joined.is_leader:
            assignments = await self._leading.share_out(joined)
        begun_ms = self._runtime.monotonic_ms()
        request = SyncGroupRequest(
            group_id=self._coordinator.key,
            generation_id=joined.generation,
            member_id=joined.member_id,
            group_instance_id=self._config.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=joined.protocol,
            assignments=assignments,
        )
        timeout_ms = self._config.max_poll_interval_ms + self._config.request_timeout_ms
        answer: SyncGroupResponse = await self._coordinator.request(
            request, timeout_ms=timeout_ms, lane=GROUP
        )
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.NONE:
            given = decode_assignment(bytes(answer.assignment)).assigned_partitions
            now_ms = self._runtime.monotonic_ms()
            self._metrics.syncs.record(now_ms - begun_ms, now_ms)
            self._metrics.rebalance_at_ms = now_ms
            began_ms, self._rebalance_began_ms = self._rebalance_began_ms, None
            self._metrics.rebalances.record(now_ms - (began_ms or begun_ms), now_ms)
            self.membership.on_synced(
                [TopicPartition(one.topic, index) for one in given for index in one.partitions],
                now_ms,
            )
        return code

    # -- staying and leaving

    async def _heartbeat(self, step: Heartbeat) -> ErrorCode:
        begun_ms = self._runtime.monotonic_ms()
        request = HeartbeatRequest(
            group_id=self._coordinator.key,
            generation_id=step.generation,
            member_id=step.member_id,
            group_instance_id=self._config.group_instance_id,
        )
        timeout_ms = min(self._config.request_timeout_ms, self._config.session_timeout_ms)
        answer: HeartbeatResponse = await self._coordinator.request(request, timeout_ms=timeout_ms)
        now_ms = self._runtime.monotonic_ms()
        self._metrics.heartbeats.record(now_ms - begun_ms, now_ms)
        self._metrics.heartbeat_at_ms = now_ms
        self.membership.on_alive(now_ms)
        return ErrorCode(answer.error_code)

    async def _leave(self, step: Leave) -> None:
        request = LeaveGroupRequest(
            group_id=self._coordinator.key,
            member_id=step.member_id,
            members=[MemberIdentity(member_id=step.member_id, reason=step.reason[:255])],
        )
        try:
            await self._coordinator.request(request)
        except (ClientError, ProtocolError) as error:
            log.info("%s: it will notice by itself that we left: %s", self._coordinator, error)


def _joined(answer: JoinGroupResponse) -> Joined:
    return Joined(
        answer.member_id,
        answer.generation_id,
        answer.protocol_name or "",
        answer.member_id == answer.leader,
        answer.skip_assignment,
        tuple(
            JoinedMember(one.member_id, one.group_instance_id, bytes(one.metadata))
            for one in answer.members
        ),
    )
