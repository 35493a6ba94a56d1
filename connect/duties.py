"""The work beside running things: the leader's duties, and the plans of tasks.

Each job is repeated until it is done, with rests in between, or until it is somebody else's. The
decisions are those of `herder` and `assignor`.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from ..client.admin.topic_types import NewTopic
from ..client.consumer.membership import Joined
from ..runtime.errors import InvariantViolation
from ..runtime.owned_task import OwnedTask
from ..runtime.runtime import Runtime
from . import assignor as assigning
from .config_log import Props, SessionKey, as_json, fencing_row, session_key_row, tasks_rows
from .group_member import GroupTimes
from .group_protocol import CONFIG_MISMATCH, CONNECTOR, Assignment, Subscription
from .herder import Fence, Rules
from .herding import HerderError, NotLeader
from .request_signature import DEFAULT, KEY_BYTES, sign
from .running import Runs
from .states import Status, TaskId

if TYPE_CHECKING:
    from .cluster_worker import ClusterWorker

log = logging.getLogger(__name__)

REST_MS: Final = 1_000
REST_MOST_MS: Final = 10_000


class PeerClient(Protocol):
    """Sends requests to other workers; raises HerderError, with the status of the answer."""

    async def post_task_configs(
        self, url: str, name: str, body: bytes, headers: Mapping[str, str]
    ) -> None:
        """POST the task configurations of a connector to the leader at `url`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """The settings of a worker in a cluster; times in ms."""

    group: str
    url: str
    """The address under which other workers reach this one."""
    common: Mapping[str, Any] = field(default_factory=dict)
    """The arguments of every client."""
    config_topic: NewTopic
    status_topic: NewTopic
    times: GroupTimes = field(default_factory=GroupTimes)
    worker_sync_timeout_ms: int = 3_000
    scheduled_rebalance_max_delay_ms: int = 300_000
    rules: Rules = field(default_factory=Rules)
    mixed: bool = False


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts that a worker in a cluster works with."""

    worker: Runs
    peers: PeerClient
    set_logger: Callable[[str, str], object] = lambda namespace, level: None


class TaskPlanning:
    """Asks connectors for their tasks until what they answer is committed, one job for each."""

    def __init__(self, runtime: Runtime, owner: "ClusterWorker", parts: Parts) -> None:
        self._runtime = runtime
        self._owner = owner
        self._parts = parts
        self._jobs: dict[str, OwnedTask] = {}
        self._due: dict[str, None] = {}

    def plan(self, name: str) -> None:
        """Ask a connector, or once more if it is being asked."""
        self._due[name] = None
        job = self._jobs.setdefault(name, OwnedTask(self._runtime, f"tasks of {name}"))
        job.start(partial(self._plan, name))

    async def stop(self) -> None:
        """End all jobs."""
        for job in list(self._jobs.values()):
            await job.stop()

    async def _plan(self, name: str) -> None:
        owner, failure_count = self._owner, 0
        item = TaskId(name, CONNECTOR)
        while name in self._due and item in owner.herder.runs:
            del self._due[name]
            try:
                configs = await owner.worker.make_task_configs(name)
                if owner.herder.differs(name, configs):
                    await self._commit(name, configs)
            except InvariantViolation:
                raise
            except Exception as error:  # what a connector raises must not end the worker
                log.warning("connector %s: its tasks are not written: %r", name, error)
                self._due[name] = None
                failure_count += 1
                await rest(self._runtime, failure_count)
        self._due.pop(name, None)
        del self._jobs[name]

    async def _commit(self, name: str, configs: Sequence[Props]) -> None:
        owner = self._owner
        try:
            await owner.write(tasks_rows(name, configs))
        except NotLeader as elsewhere:
            key = owner.keys.newest
            if elsewhere.leader_url is None or key is None:
                raise
            body = as_json([dict(each) for each in configs])
            headers = sign(key, body)
            await self._parts.peers.post_task_configs(elsewhere.leader_url, name, body, headers)


async def rest(runtime: Runtime, failure_count: int) -> None:
    """Wait after so many failures in a row: a second, twice as long each time, ten at most."""
    wait_ms = min(REST_MS * 2 ** min(failure_count - 1, 10), REST_MOST_MS)
    await asyncio.sleep(wait_ms * (0.5 + runtime.rng.random() / 2) / 1000)


def set_logger(parts: Parts, namespace: str, level: str) -> None:
    """Set the level of a logger as a record says; one that is unknown here changes nothing."""
    try:
        parts.set_logger(namespace, level)
    except HerderError as error:
        log.warning("the level of a logger is not set: %s", error)


class LeaderDuties:
    """The leader's work: it assigns, fences old tasks, and makes session keys."""

    def __init__(self, runtime: Runtime, owner: "ClusterWorker") -> None:
        self._runtime = runtime
        self._owner = owner
        delay_ms = owner.settings.scheduled_rebalance_max_delay_ms
        self._assignor = assigning.Assignor(delay_ms)
        self._fencing = asyncio.Lock()

    async def share_out(
        self, joined: Joined, workers: Mapping[str, Subscription]
    ) -> dict[str, Assignment]:
        """Assign the work of a generation; nothing while a worker has not read the config topic."""
        newest = max(said.config_offset for said in workers.values())
        if self._owner.config.offset < newest:
            await self._owner.topic.read_to_end(self._owner.settings.worker_sync_timeout_ms)
        config = self._owner.config
        oldest = min((said.config_offset for said in workers.values() if said.is_ours), default=0)
        to_all = Assignment(
            leader=joined.member_id,
            leader_url=self._owner.settings.url,
            config_offset=max(newest, config.offset),
            is_ours=True,
        )
        if config.offset < newest or oldest < config.structure_offset:
            self._assignor.skip(joined.generation)
            return dict.fromkeys(workers, replace(to_all, error=CONFIG_MISMATCH))
        plan = self._assignor.assign(
            joined.generation,
            {
                member: assigning.Worker(
                    said.url,
                    said.held,
                    said.is_leaving or not (said.is_ours or self._owner.settings.mixed),
                )
                for member, said in workers.items()
            },
            config.items(),
            self._runtime.monotonic_ms(),
        )
        return {
            member: replace(
                to_all,
                assigned=tuple(share.assigned),
                revoked=tuple(share.revoked),
                scheduled_delay_ms=plan.delay_ms,
            )
            for member, share in plan.shares.items()
        }

    async def make_key(self) -> None:
        """Write a new session key; if that fails, the machine asks again."""
        key = SessionKey(self._runtime.rng.randbytes(KEY_BYTES), DEFAULT, self._runtime.wall_ms())
        try:
            await self._owner.write([session_key_row(key)])
        except HerderError as error:
            log.info("no new session key: %s", error)
            await asyncio.sleep(REST_MS / 1000)

    async def fence(self, effect: Fence) -> None:
        """Fence the producers of the tasks before; if that fails, the machine asks again."""
        try:
            await self.fence_now(effect.name)
        except InvariantViolation:
            raise
        except Exception as error:  # what a config provider raises must not end the worker
            log.warning("connector %s: its old tasks are not fenced: %r", effect.name, error)
            await rest(self._runtime, 1)
            self._owner.carry(self._owner.herder.on_fencing_failed(effect.name))

    async def fence_now(self, name: str) -> None:
        """Fence the producers of a connector's tasks before, if that is pending; then write it.

        A single task is fenced by its successor. Raises what the worker and `write` raise.
        """
        async with self._fencing:
            config = self._owner.config
            before = config.fencing_counts.get(name, 0)
            count = len(config.tasks_of(name))
            if name not in config.pending_fencing:
                return
            if before > 0 and (before, count) != (1, 1):
                await self._owner.worker.fence(name, config.connectors[name], before)
            await self._owner.write([fencing_row(name, count)])
            log.info("connector %s: its old tasks are fenced, %d may start", name, count)


class Reports:
    """Hears from a worker what became of what it runs: a StatusListener."""

    def __init__(self, owner: "ClusterWorker") -> None:
        self._owner = owner

    def on_connector(self, name: str, status: Status) -> None:
        """Take a connector's new status."""
        self._on_status(TaskId(name, CONNECTOR), status)

    def on_task(self, task: TaskId, status: Status) -> None:
        """Take a task's new status."""
        self._on_status(task, status)

    def on_topic(self, task: TaskId, topic: str) -> None:
        """Take a topic that a task uses."""
        self._owner.statuses.tell_topic(task, topic)

    def on_reconfiguration(self, name: str) -> None:
        """Ask a connector for its tasks, which have changed."""
        self._owner.carry(self._owner.herder.on_reconfiguration(name))

    def _on_status(self, item: TaskId, status: Status) -> None:
        self._owner.statuses.tell(item, status)
        self._owner.carry(self._owner.herder.on_status(item, status.state))
