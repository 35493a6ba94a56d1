"""A worker's membership in its group: protocol type `connect`, on the machine of consumers' groups.

It tells the group what this worker holds, shares the work out if it leads, and gives up the work
*before* the coordinator may give it to others: after `silence_ms` without an answered heartbeat,
also while a rebalance is waited for. The owner carries out `pending` changes, as a consumer's poll
does. It starts and stops nothing itself.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from ..client.config import CommonConfig
from ..client.consumer.consumer_metrics import ConsumerMetrics
from ..client.consumer.member_loop import MemberLimits, MemberLoop
from ..client.consumer.membership import NO_GENERATION, Join, Joined, Membership, Terms
from ..client.coordinator import Coordinator
from ..client.errors import ClientError
from ..client.metadata import Metadata, pool_for
from ..protocol.errors import ErrorCode, ProtocolError, RemoteProtocolError
from ..protocol.messages.heartbeat import HeartbeatRequest
from ..protocol.messages.join_group import JoinGroupRequestProtocol
from ..protocol.messages.sync_group import SyncGroupRequestAssignment
from ..protocol.types import TopicPartition
from ..runtime.owned_task import OwnedTask
from ..runtime.runtime import Runtime
from .group_protocol import (
    OFFERED,
    PROTOCOL_TYPE,
    VERSIONS,
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from .states import TaskId

log = logging.getLogger(__name__)

NEVER_MS: Final = 1 << 40
MARGIN_MS: Final = 1_000
"""The part of a session in ms that is neither for silence nor for tasks to stop in."""
LOOKS: Final = 10
"""How often the session is looked at in the time of a silence."""
EVERY_WORKER: Final = ""
"""The name that is always wanted, so that a worker joins a group that has no connectors."""


class ForeignWorker(ClientError):
    """A worker of Apache Kafka is in the group; `url` is its address."""

    def __init__(self, group: str, url: str) -> None:
        super().__init__(
            f"group {group} has a worker of Apache Kafka, {url}: it would be given Python"
            " connectors, which it cannot run; use another group.id, or stop it, or set"
            " minikafka.connect.mixed=true"
        )
        self.url = url


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTimes:
    """The times of a membership in ms; keys of the same names as a worker's."""

    session_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 3_000
    rebalance_timeout_ms: int = 60_000
    task_shutdown_graceful_timeout_ms: int = 5_000

    @property
    def silence_ms(self) -> int:
        """The time without an answer after which the work is given up.

        What is left of the session is for the tasks to stop in, if it is as long as they may take:
        not beyond `longest_stop_ms`.
        """
        session, stop = self.session_timeout_ms, self.task_shutdown_graceful_timeout_ms
        return max(session - stop - MARGIN_MS, session // 3)

    @property
    def longest_stop_ms(self) -> int:
        """The most time that tasks may take to stop so that none outlives its worker's session."""
        return max(self.session_timeout_ms - self.session_timeout_ms // 3 - MARGIN_MS, 0)


class Worker(Protocol):
    """The owner of a membership."""

    def subscription(self) -> Subscription:
        """Return what this worker tells the group; what it holds is added."""

    async def share_out(
        self, joined: Joined, workers: Mapping[str, Subscription]
    ) -> dict[str, Assignment]:
        """Assign, as the leader of a generation."""


class GroupMember:
    """One worker's membership, from `start` to `close`; a Role of `MemberLoop`."""

    protocol_type = PROTOCOL_TYPE

    def __init__(
        self,
        runtime: Runtime,
        config: CommonConfig,
        group: str,
        times: GroupTimes,
        owner: Worker,
    ) -> None:
        self.membership = Membership(
            Terms(heartbeat_interval_ms=times.heartbeat_interval_ms, max_poll_interval_ms=NEVER_MS)
        )
        self.assignment = Assignment()
        """The newest assignment, as the leader wrote it."""
        self.on_foreign: Callable[[str], None] = lambda url: None
        """Called, as the leader, with the address of a worker of Apache Kafka in the group."""
        self._runtime = runtime
        self._config = config
        self._times = times
        self._owner = owner
        self._group = group
        metrics = ConsumerMetrics(runtime)
        self._metadata = Metadata(runtime, config, pool_for(runtime, config, metrics.network))
        self._coordinator = Coordinator(runtime, config, self._metadata, group)
        limits = MemberLimits(
            times.session_timeout_ms, times.rebalance_timeout_ms, config.request_timeout_ms
        )
        self._loop = MemberLoop(runtime, self.membership, self._coordinator, limits, metrics)
        self._loop.role = self
        self._loop.on_heard = self._on_heard
        self._heard_ms = 0
        self._watch = OwnedTask(runtime, f"session in {group}")

    async def start(self, on_pending: Callable[[], None]) -> None:
        """Connect and join; `on_pending` is called when the owner has a change to carry out.

        Raise BootstrapError if no broker answers.
        """
        await self._metadata.start()
        self._loop.on_pending = on_pending
        self._loop.on_error = lambda error: log.warning("%s: %s", self._coordinator, error)
        self._loop.start()
        self._watch.start(self._watch_session)
        self.join()

    async def close(self) -> None:
        """Leave the group, within the session's timeout, and disconnect."""
        await self._watch.stop()
        await self._loop.leave(self._times.session_timeout_ms)
        await self._metadata.close()
        await self._metadata.pool.close()

    def join(self, names: Sequence[str] = ()) -> None:
        """Join the group, or join again if the connectors that may be held have changed."""
        now_ms = self._runtime.monotonic_ms()
        self.membership.on_topics([EVERY_WORKER, *names], "other connectors are configured")
        self.membership.on_poll_begun(now_ms)
        self._loop.wake()

    def rejoin(self, reason: str) -> None:
        """Join again as soon as the rebalance under way is over."""
        self.membership.on_poll_begun(self._runtime.monotonic_ms())
        self.membership.request_rejoin(reason)
        self._loop.wake()

    def wake(self) -> None:
        """Make the loop go on after a change was carried out."""
        self._loop.wake()

    async def leave(self) -> None:
        """Leave the group; nothing may be held any more. `rejoin` joins it again."""
        farewell = self.membership.on_left()
        if farewell is not None:
            await self._loop.farewell(farewell, self._times.session_timeout_ms)

    # -- the role

    def protocols(self, step: Join) -> list[JoinGroupRequestProtocol]:
        """Return the protocols of this worker, each with what it tells the group."""
        held = tuple(TaskId(*each) for each in self.membership.owned)
        said = replace(self._owner.subscription(), held=held)
        return [
            JoinGroupRequestProtocol(
                name=name, metadata=encode_subscription(replace(said, version=VERSIONS[name]))
            )
            for name in OFFERED
        ]

    async def share_out(self, joined: Joined) -> list[SyncGroupRequestAssignment]:
        """Assign the work to all members, in the version that all of them speak."""
        workers: dict[str, Subscription] = {}
        for each in joined.members:
            try:
                workers[each.member_id] = decode_subscription(each.metadata)[0]
            except RemoteProtocolError as error:
                log.warning("member %s says what nobody understands: %s", each.member_id, error)
                workers[each.member_id] = Subscription(url="", config_offset=0, is_ours=False)
        for said in workers.values():
            if not said.is_ours:
                self.on_foreign(said.url)
        version = VERSIONS.get(joined.protocol, 0)
        given = await self._owner.share_out(joined, workers)
        return [
            SyncGroupRequestAssignment(
                member_id=member_id, assignment=encode_assignment(replace(each, version=version))
            )
            for member_id, each in given.items()
        ]

    def assigned(self, assignment: bytes) -> list[TopicPartition]:
        """Return all that this worker has by an assignment, which names only what changes."""
        self.assignment = given = decode_assignment(assignment)
        revoked = dict.fromkeys(given.revoked)
        kept = [each for each in self.membership.owned if TaskId(*each) not in revoked]
        return [*kept, *(TopicPartition(*each) for each in given.assigned)]

    # -- the session

    def _on_heard(self, sent_ms: int) -> None:
        self._heard_ms = max(self._heard_ms, sent_ms)

    async def _watch_session(self) -> None:
        """Give up what is held once the coordinator was silent for too long."""
        silence_ms = self._times.silence_ms
        step_ms = max(silence_ms // LOOKS, 1)
        while True:
            await asyncio.sleep(step_ms / 1000)
            membership = self.membership
            if not membership.owned or membership.generation == NO_GENERATION:
                continue
            now_ms = self._runtime.monotonic_ms()
            silent_ms = now_ms - self._heard_ms
            if silent_ms >= silence_ms:
                log.warning(
                    "%s: no answer of the coordinator for %d ms: the work is given up",
                    *(self._coordinator, silent_ms),
                )
                reason = "the coordinator was silent for too long"
                membership.on_silence(reason)
                self._loop.on_pending()
                self._loop.wake()
            elif silent_ms >= silence_ms // 3:
                # The loop may wait for JoinGroup or SyncGroup, or for an answer that was lost.
                with contextlib.suppress(ClientError, ProtocolError, TimeoutError):
                    async with asyncio.timeout(step_ms / 1000):
                        await self._ask(now_ms)

    async def _ask(self, now_ms: int) -> None:
        membership = self.membership
        request = HeartbeatRequest(
            group_id=self._coordinator.key,
            generation_id=membership.generation,
            member_id=membership.member_id,
        )
        answer: Any = await self._coordinator.request(request)
        if ErrorCode(answer.error_code) in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self._on_heard(now_ms)
