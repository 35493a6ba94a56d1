"""One worker in its cluster: carries out what `Herder` decides, and assigns as the leader.

It joins the config topic, the status topic, the membership and the worker that runs things. Its
state machine is `herder`, the REST API's answers are `distributed`. Never decides itself.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, assert_never

from ..client.config import AdminConfig, configured
from ..client.consumer.membership import Change as GroupChange
from ..client.consumer.membership import Joined
from ..runtime.owned_task import OwnedTask
from ..runtime.runtime import Runtime
from ..runtime.waiting import happens_within
from .config_log import Change, Row
from .config_topic import ConfigTopic
from .duties import ClusterSettings, LeaderDuties, Parts, Reports, TaskPlanning, rest, set_logger
from .group_member import ForeignWorker, GroupMember
from .group_protocol import CONNECTOR, Assignment, Subscription
from .herder import (
    DropStatuses,
    Effect,
    Effects,
    Fence,
    GiveUp,
    Herder,
    MakeSessionKey,
    Phase,
    PlanTasks,
    ReadConfig,
    Rejoin,
    Report,
    SetLogger,
    SetTarget,
    StartConnector,
    StartTask,
    StopConnector,
    StopTasks,
)
from .herding import Conflict, NotLeader
from .request_signature import SessionKeys
from .running import Running
from .states import Status, TaskId
from .status_topic import StatusTopic

log = logging.getLogger(__name__)

TICK_MS: Final = 500


class ClusterWorker:
    """A worker from `start` to `stop`; see the module."""

    def __init__(self, runtime: Runtime, parts: Parts, settings: ClusterSettings) -> None:
        common, rules, group = settings.common, settings.rules, settings.group
        leader_id = f"connect-cluster-{group}" if rules.leader_fences else None
        self.topic = ConfigTopic(runtime, common, settings.config_topic, leader_id)
        self.topic.on_record = self._settle
        self.topic.on_change = self._on_change
        self.config = self.topic.state
        self.statuses = StatusTopic(runtime, common, settings.status_topic)
        self.keys = SessionKeys()
        self.herder = Herder(self.config, rules)
        self.settings = settings
        self.worker = parts.worker
        self.on_fatal: Callable[[Exception], None] = lambda error: log.error("%s", error)
        """Called with an error for which the worker must end."""
        self._runtime = runtime
        self._parts = parts
        self._running = Running(runtime, parts.worker)
        client = configured(AdminConfig, None, common)
        self._member = GroupMember(runtime, client, group, settings.times, self)
        self._member.on_foreign = self._on_foreign
        self._foreign: ForeignWorker | None = None
        self._pending = asyncio.Event()
        self._joined = asyncio.Event()
        self._settled = 0
        self._is_leaving = False
        self._has_told = False
        """True if the newest JoinGroup says that this worker leaves."""
        self._planning = TaskPlanning(runtime, self, parts)
        self.duties = LeaderDuties(runtime, self)
        self.reports = Reports(self)
        """The StatusListener of the worker."""
        self._keying = OwnedTask(runtime, "session key")
        self._reading = OwnedTask(runtime, "read of the config topic")
        self._changing = OwnedTask(runtime, "changes of the group")
        self._ticking = OwnedTask(runtime, "clock of the herder")

    # -- life

    async def start(self) -> None:
        """Read both topics, and join the group; returns before there is an assignment.

        Raise ConfigError if a topic cannot be used, a ClientError or TimeoutError if brokers do
        not answer. A worker whose start failed is closed.
        """
        try:
            await self.statuses.start()
            await self.topic.start()
            self._take_key()
            await self._member.start(self._on_pending)
        except BaseException:
            await self._close()
            raise
        self._changing.start(self._carry_out_changes)
        self._ticking.start(self._tick)

    async def wait_until_joined(self, timeout_ms: int) -> bool:
        """Wait for an assignment; raise ForeignWorker if the group is one of Apache Kafka's."""
        is_joined = await happens_within(self._joined, timeout_ms)
        if self._foreign is not None:
            raise self._foreign
        return is_joined

    async def stop(self) -> None:
        """Stop all work, tell the group so that others get it at once, and leave."""
        await self._ticking.stop()
        await self._planning.stop()
        self._is_leaving = True
        self.carry(self.herder.on_lost())
        await self._running.stopped()
        membership = self._member.membership
        membership.on_given_up(tuple(membership.owned))
        if membership.is_member:
            self._joined.clear()
            self._member.rejoin("the worker stops")
            await happens_within(self._joined, self.settings.times.session_timeout_ms)
        await self._close()

    async def _close(self) -> None:
        await self._member.close()
        for task in (self._changing, self._keying, self._reading):
            await task.stop()
        await self.topic.close()
        await self.statuses.close()

    # -- as the leader

    def require_leader(self) -> None:
        """Raise Conflict outside the group, NotLeader if another worker leads."""
        if self.herder.phase is Phase.OUTSIDE or self._is_leaving:
            raise Conflict("This worker is not in its group at the moment: try again")
        if not self.herder.is_leader:
            raise NotLeader(self.herder.assignment.leader_url)

    async def write(self, rows: Sequence[Row]) -> None:
        """Write records to the config topic as the leader, and read them back.

        Raise NotLeader, Conflict if another leader has begun meanwhile, HerderError if the topic
        cannot be written.
        """
        self.require_leader()
        try:
            await self.topic.write(rows)
        except Conflict:
            self._rejoin("another leader may write the config topic")
            raise

    # -- the owner of the membership

    def subscription(self) -> Subscription:
        """Return what this worker tells the group.

        The offset is that of the last record whose stops are done: who assigns by it may start
        tasks of a newer set.
        """
        self._settle()
        self._has_told = self._is_leaving
        return Subscription(
            url=self.settings.url, config_offset=self._settled, is_leaving=self._is_leaving
        )

    async def share_out(
        self, joined: Joined, workers: Mapping[str, Subscription]
    ) -> dict[str, Assignment]:
        """Assign the work of a generation."""
        return await self.duties.share_out(joined, workers)

    def _on_pending(self) -> None:
        change = self._member.membership.pending()
        if change is not None and change.lost:
            self.carry(self.herder.on_lost())  # At once: others may be given the work soon.
        self._pending.set()

    async def _carry_out_changes(self) -> None:
        membership = self._member.membership
        while True:
            await self._pending.wait()
            self._pending.clear()
            while (change := membership.pending()) is not None:
                await self._carry_out_change(change)
                self._member.wake()

    async def _carry_out_change(self, change: GroupChange) -> None:
        membership = self._member.membership
        gone = change.lost or change.revoked
        if gone:
            items = [TaskId(*each) for each in gone]
            lost = change.lost
            self.carry(self.herder.on_lost() if lost else self.herder.on_revoked(items))
            await self._running.stopped()
            membership.on_given_up(gone)
            return
        given = self._member.assignment
        if membership.on_taken(change) is None:
            return
        if self._is_leaving:
            self._on_last_assignment()
            return
        if not given.is_ours:
            self._on_foreign(given.leader_url or "")
        if self._foreign is not None:
            self.on_fatal(self._foreign)
        is_leader = given.leader == membership.member_id
        held = [TaskId(*each) for each in membership.owned]
        now_ms = self._runtime.monotonic_ms()
        # No wait since `on_taken`: meanwhile it might be lost, or the worker be stopped.
        self.carry(self.herder.on_assignment(given, held, now_ms, is_leader=is_leader))
        self._joined.set()
        if is_leader:
            self.topic.claim()
        else:
            await self.topic.resign()

    def _on_last_assignment(self) -> None:
        """Take no work any more; end the membership once the group was told that it ends."""
        membership = self._member.membership
        membership.on_given_up(tuple(membership.owned))
        if self._has_told:
            self._joined.set()
        else:
            self._member.rejoin("the worker stops")

    def _on_foreign(self, url: str) -> None:
        if not self.settings.mixed and self._foreign is None:
            self._foreign = ForeignWorker(self.settings.group, url)

    # -- the config topic

    def _on_change(self, change: Change) -> None:
        self._take_key()
        self.carry(self.herder.on_change(change))

    def _take_key(self) -> None:
        if self.config.session_key is not None:
            self.keys.replace(self.config.session_key, self._runtime.monotonic_ms())

    def _settle(self) -> None:
        if not self._running.is_stopping:
            self._settled = self.config.offset

    async def _read_config(self) -> None:
        failure_count = 0
        while True:
            is_read = await self.topic.read_to_end(self.settings.worker_sync_timeout_ms)
            effects = self.herder.on_read() if is_read else self.herder.on_read_failed()
            again = ReadConfig() in effects
            self.carry([each for each in effects if not isinstance(each, ReadConfig)])
            if not again:
                return
            failure_count += 1
            await rest(self._runtime, failure_count)

    # -- effects

    def carry(self, effects: Effects) -> None:
        """Carry out effects of the machine, in order."""
        for effect in effects:
            self._carry_one(effect)

    def _carry_one(self, effect: Effect) -> None:
        match effect:
            case StartConnector() | StartTask():
                self._start(effect)
            case StopTasks(tasks):
                self._running.stop(tasks)
            case StopConnector(name):
                self._running.stop([TaskId(name, CONNECTOR)])
            case SetTarget(name, target):
                self.worker.set_target(name, target)
            case PlanTasks(name):
                self._planning.plan(name)
            case Fence():
                self._runtime.spawn(self.duties.fence(effect), f"fence of {effect.name}")
            case Rejoin(reason):
                self._rejoin(reason)
            case ReadConfig():
                self._reading.start(self._read_config)
            case GiveUp(reason):
                self._runtime.spawn(self._give_up(reason), "leave")
            case Report(item, state):
                self.statuses.tell(item, Status(state, self.worker.worker_id, self.generation))
            case SetLogger(namespace, level):
                set_logger(self._parts, namespace, level)
            case MakeSessionKey():
                self._keying.start(self.duties.make_key)
            case DropStatuses():
                self.statuses.drop_others(self.config.items())
            case _:
                assert_never(effect)

    @property
    def generation(self) -> int:
        """The group's generation; -1 outside the group."""
        return self._member.membership.generation

    def _start(self, effect: StartConnector | StartTask) -> None:
        generation, worker = self.generation, self.worker
        if isinstance(effect, StartConnector):
            item = TaskId(effect.name, CONNECTOR)
            start = partial(
                worker.start_connector, effect.name, effect.props, effect.target, generation
            )
        else:
            item = effect.task
            start = partial(
                worker.start_task,
                item,
                effect.connector_props,
                effect.task_props,
                effect.target,
                generation,
            )
        self._running.start(item, start)

    def _rejoin(self, reason: str) -> None:
        names = [*self.config.connectors]
        if self.herder.phase is Phase.BEHIND:
            names += [item.connector for item in self.herder.held]
        self._runtime.spawn(self._rejoin_when_stopped(names, reason), "rejoin")

    async def _rejoin_when_stopped(self, names: Sequence[str], reason: str) -> None:
        await self._running.stopped()
        self._member.join(names)
        self._member.rejoin(reason)

    async def _give_up(self, reason: str) -> None:
        log.error("group %s: leaving: %s", self.settings.group, reason)
        await self._running.stopped()
        await self._member.leave()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_MS / 1000)
            now_ms, wall_ms = self._runtime.monotonic_ms(), self._runtime.wall_ms()
            self.carry(self.herder.on_time(now_ms, wall_ms))
