"""Sends what `Membership` decides: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

A loop of its own sends them. What the members of a group share out, and how they write it, is up to
a `Role`: consumers share partitions, Connect's workers share connectors and tasks. Never carries
out a pending `Change`: its owner does, and wakes this loop.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, assert_never

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
from ..coordinator import NOT_NOW, Coordinator
from ..errors import ClientError
from ..refusals import Refused, refusal
from .consumer_metrics import ConsumerMetrics
from .membership import (
    Heartbeat,
    Join,
    Joined,
    JoinedMember,
    Leave,
    Membership,
    Sync,
    Wait,
)

log = logging.getLogger(__name__)

GROUP: Final = "group"
"""The lane of joins and syncs: a connection of their own, so that commits do not wait for them."""
PATIENCE: Final = 10
"""The number of failures in a row after which a warning is logged, once."""


class Role(Protocol):
    """The part of a member that knows what its group shares out, and in which bytes."""

    protocol_type: str

    def protocols(self, step: Join) -> list[JoinGroupRequestProtocol]:
        """Return the protocols that the member speaks, the best first, with its metadata."""

    async def share_out(self, joined: Joined) -> list[SyncGroupRequestAssignment]:
        """Compute the assignment of each member, as the leader of a generation."""

    def assigned(self, assignment: bytes) -> Sequence[TopicPartition]:
        """Return all that this member has by its assignment."""


@dataclass(frozen=True, slots=True)
class MemberLimits:
    """The times of a member in ms, and its static id."""

    session_timeout_ms: int
    rebalance_timeout_ms: int
    """How long the coordinator waits for members to join again."""
    request_timeout_ms: int
    group_instance_id: str | None = None


class MemberLoop:
    """The task that keeps one client a member of its group, from `start` to `leave`."""

    def __init__(
        self,
        runtime: Runtime,
        membership: Membership,
        coordinator: Coordinator,
        limits: MemberLimits,
        metrics: ConsumerMetrics,
    ) -> None:
        self.membership = membership
        self.role: Role
        """Set it before `start`, as the two callbacks."""
        self.on_pending: Callable[[], None]
        """Called when the owner has a `Change` to carry out."""
        self.on_error: Callable[[ClientError | ApiError], None]
        """Called with an error that the owner must learn of; the member joins again when asked."""
        self.on_heard: Callable[[int], None] = lambda sent_ms: None
        """Called with the time at which a request was sent that extended the member's session."""
        self._runtime = runtime
        self._coordinator = coordinator
        self._limits = limits
        self._metrics = metrics
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

    async def leave(self, timeout_ms: int) -> None:
        """Stop the loop and send LeaveGroup, for `timeout_ms` at most; static members send none."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        farewell = self.membership.on_left()
        if farewell is not None:
            await self.farewell(farewell, timeout_ms)

    async def farewell(self, step: Leave, timeout_ms: int) -> None:
        """Send LeaveGroup, for `timeout_ms` at most; nothing depends on the answer."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_ms / 1000):
                await self._leave(step)

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
        limits = self._limits
        request = JoinGroupRequest(
            group_id=self._coordinator.key,
            session_timeout_ms=limits.session_timeout_ms,
            rebalance_timeout_ms=limits.rebalance_timeout_ms,
            member_id=step.member_id,
            group_instance_id=limits.group_instance_id,
            protocol_type=self.role.protocol_type,
            protocols=self.role.protocols(step),
            reason=step.reason[:255],
        )
        # The coordinator waits for all members.
        timeout_ms = limits.rebalance_timeout_ms + limits.request_timeout_ms
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

    async def _sync(self, step: Sync) -> ErrorCode:
        joined = step.joined
        assignments: list[SyncGroupRequestAssignment] = []
        if joined.is_leader:
            assignments = await self.role.share_out(joined)
        begun_ms = self._runtime.monotonic_ms()
        request = SyncGroupRequest(
            group_id=self._coordinator.key,
            generation_id=joined.generation,
            member_id=joined.member_id,
            group_instance_id=self._limits.group_instance_id,
            protocol_type=self.role.protocol_type,
            protocol_name=joined.protocol,
            assignments=assignments,
        )
        timeout_ms = self._limits.rebalance_timeout_ms + self._limits.request_timeout_ms
        answer: SyncGroupResponse = await self._coordinator.request(
            request, timeout_ms=timeout_ms, lane=GROUP
        )
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.NONE:
            given = self.role.assigned(bytes(answer.assignment))
            now_ms = self._runtime.monotonic_ms()
            self.on_heard(begun_ms)
            self._metrics.syncs.record(now_ms - begun_ms, now_ms)
            self._metrics.rebalance_at_ms = now_ms
            began_ms, self._rebalance_began_ms = self._rebalance_began_ms, None
            self._metrics.rebalances.record(now_ms - (began_ms or begun_ms), now_ms)
            self.membership.on_synced(given, now_ms)
        return code

    # -- staying and leaving

    async def _heartbeat(self, step: Heartbeat) -> ErrorCode:
        begun_ms = self._runtime.monotonic_ms()
        request = HeartbeatRequest(
            group_id=self._coordinator.key,
            generation_id=step.generation,
            member_id=step.member_id,
            group_instance_id=self._limits.group_instance_id,
        )
        timeout_ms = min(self._limits.request_timeout_ms, self._limits.session_timeout_ms)
        answer: HeartbeatResponse = await self._coordinator.request(request, timeout_ms=timeout_ms)
        now_ms = self._runtime.monotonic_ms()
        self._metrics.heartbeats.record(now_ms - begun_ms, now_ms)
        self._metrics.heartbeat_at_ms = now_ms
        self.membership.on_alive(now_ms)
        code = ErrorCode(answer.error_code)
        if code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self.on_heard(begun_ms)
        return code

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
