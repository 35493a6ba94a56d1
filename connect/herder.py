"""One worker of a Connect cluster: what it must start, stop and write, and when it joins again.

Pure. The driver (`distributed`) passes in records of the config topic, assignments, reports of what
runs, and the time; it carries out the effects in the returned order.

    OUTSIDE --assignment--> BEHIND --the config topic is read--> STEADY
       ^                      |  ^                                  |
       |                      |  +---------- another assignment ----+
       +--- lost, given up ---+-------------------------------------+

OUTSIDE     nothing is held, nothing runs.
BEHIND      the assignment rests on records that this worker has not read: nothing starts.
STEADY      `runs` follows from what is held and from the config topic.

Invariants
    Nothing runs that is not held, and nothing whose configuration is not the newest that was read.
    A task starts only if its set of configurations was committed at or before the offset of the
    assignment: by then every worker has stopped the tasks of the set before, since it read that
    offset before it joined.
    With exactly once, the tasks of a source start only after a round of fencing that follows their
    configurations (KIP-618). The leader fences what is pending and accounted for.
    A worker joins again whenever the config topic has changed connectors or tasks after the offset
    of its assignment, and at the end of the assignment's delay.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from .config_log import (
    Change,
    ConfigLog,
    ConnectorChanged,
    ConnectorRemoved,
    FencingCounted,
    Ignored,
    KeyChanged,
    LoggerSet,
    Props,
    RestartAsked,
    TargetChanged,
    TasksChanged,
)
from .group_protocol import CONFIG_MISMATCH, CONNECTOR, Assignment
from .states import State, TargetState, TaskId

READ_ATTEMPTS: Final = 5
"""The reads of the config topic that may fail in a row before a worker gives up its work."""


class Phase(Enum):
    """A worker's standing in its group; see the module."""

    OUTSIDE = auto()
    BEHIND = auto()
    STEADY = auto()


@dataclass(frozen=True, slots=True)
class StartConnector:
    """Start a connector's instance."""

    name: str
    props: Props
    target: TargetState


@dataclass(frozen=True, slots=True)
class StopConnector:
    """Stop a connector's instance."""

    name: str


@dataclass(frozen=True, slots=True)
class StartTask:
    """Start a task, with the connector's configuration at the time of the task's."""

    task: TaskId
    connector_props: Props
    task_props: Props
    target: TargetState


@dataclass(frozen=True, slots=True)
class StopTasks:
    """Stop tasks, all at once, and wait until they have ended or are abandoned."""

    tasks: tuple[TaskId, ...]


@dataclass(frozen=True, slots=True)
class SetTarget:
    """Pause or resume what runs of a connector here."""

    name: str
    target: TargetState


@dataclass(frozen=True, slots=True)
class PlanTasks:
    """Ask a connector that runs here for its tasks, and have the leader write what differs."""

    name: str


@dataclass(frozen=True, slots=True)
class Fence:
    """Fence the producers of a source's tasks that ran before; then write that it is done."""

    name: str


@dataclass(frozen=True, slots=True)
class Rejoin:
    """Join the group again."""

    reason: str


@dataclass(frozen=True, slots=True)
class ReadConfig:
    """Read the config topic to its end, and report whether that worked."""


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Leave the group until the config topic can be read again; all work was stopped."""

    reason: str


@dataclass(frozen=True, slots=True)
class Report:
    """Write a status that the worker does not report: RESTARTING, or STOPPED of a connector."""

    item: TaskId
    state: State


@dataclass(frozen=True, slots=True)
class SetLogger:
    """Set the level of a logger of this worker."""

    namespace: str
    level: str


@dataclass(frozen=True, slots=True)
class MakeSessionKey:
    """Write a new session key, as the leader."""


@dataclass(frozen=True, slots=True)
class DropStatuses:
    """Delete the statuses of connectors that are not configured any more, as the leader."""


Effect = (
    StartConnector
    | StopConnector
    | StartTask
    | StopTasks
    | SetTarget
    | PlanTasks
    | Fence
    | Rejoin
    | ReadConfig
    | GiveUp
    | Report
    | SetLogger
    | MakeSessionKey
    | DropStatuses
)
Effects = list[Effect]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The settings of a worker; they never change."""

    leader_fences: bool = False
    """True with exactly.once.source.support=preparing or enabled."""
    tasks_wait: bool = False
    """True with exactly.once.source.support=enabled."""
    is_source: Callable[[Props], bool] = lambda props: False
    """Tells by its configuration whether a connector is a source."""
    key_ttl_ms: int = 3_600_000


@dataclass(frozen=True, slots=True)
class Run:
    """The configuration with which something was started."""

    connector_props: Props
    task_props: Props | None = None


@dataclass(slots=True)
class Herder:
    """The state machine of one worker; see the module. Times are monotonic ms."""

    config: ConfigLog
    rules: Rules = field(default_factory=Rules)
    phase: Phase = Phase.OUTSIDE
    assignment: Assignment = field(default_factory=Assignment)
    is_leader: bool = False
    held: dict[TaskId, None] = field(default_factory=dict)
    runs: dict[TaskId, Run] = field(default_factory=dict)
    failed: dict[TaskId, None] = field(default_factory=dict)
    _stopped: dict[TaskId, None] = field(default_factory=dict)
    """Connectors that are held and STOPPED: they have no instance, and that was reported."""
    _read_failures: int = 0
    _fencing: dict[str, int] = field(default_factory=dict)
    """Connectors being fenced, each with the offset of the task configurations it is for."""
    _rejoin_ms: int | None = None
    _asks_to_join: bool = False

    # -- the group

    def on_assignment(
        self, given: Assignment, held: Sequence[TaskId], now_ms: int, *, is_leader: bool
    ) -> Effects:
        """Take a generation's assignment; `held` is all that this worker has by it."""
        self.assignment, self.is_leader = given, is_leader
        self.held = dict.fromkeys(held)
        self._asks_to_join = False
        self._fencing = {}
        self._rejoin_ms = now_ms + given.scheduled_delay_ms if given.scheduled_delay_ms else None
        if given.error == CONFIG_MISMATCH or self.config.offset < given.config_offset:
            self.phase = Phase.BEHIND
            return [*self._stops(self.runs.keys() - self.held.keys()), ReadConfig()]
        return self._steady()

    def on_revoked(self, items: Iterable[TaskId]) -> Effects:
        """Stop what the group takes away; the driver joins again when that is done."""
        gone = dict.fromkeys(items)
        self.held = {item: None for item in self.held if item not in gone}
        return self._stops(gone)

    def on_lost(self) -> Effects:
        """Stop everything: this worker is out of its group, or may be soon."""
        self.phase, self.is_leader = Phase.OUTSIDE, False
        self.assignment = Assignment()
        self.held, self._stopped, self._fencing, self._rejoin_ms = {}, {}, {}, None
        self._asks_to_join = False
        return self._stops(self.runs)

    def on_read(self) -> Effects:
        """Go on, since the config topic was read to its end."""
        if self.phase is Phase.BEHIND and self.config.offset < self.assignment.config_offset:
            return self.on_read_failed()
        self._read_failures = 0
        if self.phase is Phase.OUTSIDE:
            return self._rejoin("the config topic can be read again")
        if self.phase is Phase.STEADY:
            return []
        if self.assignment.error == CONFIG_MISMATCH:
            return self._rejoin("the config topic was read to its end")
        return self._steady()

    def on_read_failed(self) -> Effects:
        """Read again, up to READ_ATTEMPTS times; then give up all work."""
        self._read_failures += 1
        if self._read_failures < READ_ATTEMPTS or self.phase is Phase.OUTSIDE:
            return [ReadConfig()]
        why = f"the config topic could not be read in {READ_ATTEMPTS} attempts"
        return [*self.on_lost(), GiveUp(why), ReadConfig()]

    def on_time(self, now_ms: int, wall_ms: int) -> Effects:
        """Do what is due."""
        effects: Effects = []
        if self._rejoin_ms is not None and now_ms >= self._rejoin_ms:
            self._rejoin_ms = None
            effects += self._rejoin("the delay for a lost worker is over")
        if self.is_leader and self.phase is Phase.STEADY:
            key = self.config.session_key
            if key is None or wall_ms >= key.created_ms + self.rules.key_ttl_ms:
                effects.append(MakeSessionKey())
        return effects

    # -- the config topic

    def on_change(self, change: Change) -> Effects:
        """Take a change of `config`, which has it already."""
        match change:
            case ConnectorChanged(_, is_new):
                if is_new:
                    return self._rejoin("a connector was created")
                return self._reconcile()
            case ConnectorRemoved(name):
                return [*self._reconcile(), *self._rejoin(f"connector {name} was deleted")]
            case TasksChanged(name):
                return [*self._reconcile(), *self._rejoin(f"connector {name} has other tasks")]
            case TargetChanged(name):
                return self._on_target(name)
            case FencingCounted(name):
                self._fencing.pop(name, None)
                return self._reconcile()
            case RestartAsked():
                return self._restart_here(self._asked(change))
            case LoggerSet(namespace, level):
                return [SetLogger(namespace, level)]
            case KeyChanged() | Ignored():
                return []

    def on_fencing_failed(self, name: str) -> Effects:
        """Fence again, unless somebody else did meanwhile."""
        self._fencing.pop(name, None)
        return self._fences()

    # -- what runs

    def on_status(self, item: TaskId, state: State) -> Effects:
        """Take a report of what runs here."""
        if item not in self.runs:
            return []
        if state is State.FAILED:
            self.failed[item] = None
            return []
        self.failed.pop(item, None)
        if item.task != CONNECTOR or state is not State.RUNNING:
            return []
        return self.on_reconfiguration(item.connector)

    def on_reconfiguration(self, name: str) -> Effects:
        """Ask a connector for its tasks, if it runs here and users want that it does."""
        runs = TaskId(name, CONNECTOR) in self.runs
        wanted = self.config.targets.get(name) is TargetState.STARTED
        return [PlanTasks(name)] if runs and wanted else []

    def restart_task(self, task: TaskId) -> Effects:
        """Restart a task that this worker holds."""
        return self._restart_here([task])

    def differs(self, name: str, configs: Sequence[Props]) -> bool:
        """True if a connector's tasks are not those that are committed, or are incomplete."""
        config = self.config
        if name not in config.connectors or config.targets[name] is TargetState.STOPPED:
            return False
        is_same = (
            tuple(map(dict, configs)) == tuple(map(dict, config.tasks_of(name)))
            and name in config.tasks_offsets
            and name not in config.incomplete
            and config.applied.get(name, config.connectors[name]) == config.connectors[name]
        )
        return not is_same

    # -- within

    def _steady(self) -> Effects:
        self.phase = Phase.STEADY
        effects = self._reconcile()
        if self.is_leader:
            effects.append(DropStatuses())
        if self.config.structure_offset > self.assignment.config_offset:
            effects += self._rejoin("the config topic has changed since the assignment")
        return effects

    def _rejoin(self, reason: str) -> Effects:
        if self._asks_to_join:
            return []
        self._asks_to_join = True
        return [Rejoin(reason)]

    def _on_target(self, name: str) -> Effects:
        effects = self._reconcile()
        target, runs = self.config.targets[name], [each.connector for each in self.runs]
        if name not in runs or any(isinstance(each, StartConnector) for each in effects):
            return effects
        return [*effects, SetTarget(name, target), *self.on_reconfiguration(name)]

    def _wanted(self, item: TaskId) -> Run | None:
        """Return the configuration that an item must run with; None if it must not run."""
        config, name = self.config, item.connector
        if item not in self.held or name not in config.connectors:
            return None
        if config.targets[name] is TargetState.STOPPED:
            return None
        if item.task == CONNECTOR:
            return Run(config.connectors[name])
        tasks = config.tasks_of(name)
        if item.task >= len(tasks):
            return None
        props = config.applied.get(name, config.connectors[name])
        return Run(props, tasks[item.task])

    def _may_start(self, item: TaskId) -> bool:
        if item.task == CONNECTOR:
            return True
        name = item.connector
        if self._is_outdated(name):
            return False
        return not (self.rules.tasks_wait and self._needs_fencing(name))

    def _needs_fencing(self, name: str) -> bool:
        config = self.config
        return name in config.pending_fencing and self.rules.is_source(config.connectors[name])

    def _reconcile(self) -> Effects:
        """Stop what must not run as it does, and start what may."""
        wanted = {item: self._wanted(item) for item in (*self.held, *self.runs)}
        effects = self._stops(
            [
                item
                for item, run in self.runs.items()
                if wanted[item] != run
                # Tasks of another set stop even if their own configuration is the same.
                or (item.task != CONNECTOR and self._is_outdated(item.connector))
            ]
        )
        if self.phase is not Phase.STEADY:
            return effects
        effects += self._report_stopped()
        for item in sorted(self.held):
            run = wanted[item]
            if run is None or item in self.runs or not self._may_start(item):
                continue
            self.runs[item] = run
            target = self.config.targets[item.connector]
            if run.task_props is None:
                effects.append(StartConnector(item.connector, run.connector_props, target))
            else:
                effects.append(StartTask(item, run.connector_props, run.task_props, target))
        return [*effects, *self._plans(), *self._fences()]

    def _report_stopped(self) -> Effects:
        before, config = self._stopped, self.config
        self._stopped = {
            item: None
            for item in self.held
            if item.task == CONNECTOR and config.targets.get(item.connector) is TargetState.STOPPED
        }
        return [Report(item, State.STOPPED) for item in self._stopped if item not in before]

    def _is_outdated(self, name: str) -> bool:
        return self.config.tasks_offsets.get(name, 0) > self.assignment.config_offset

    def _plans(self) -> Effects:
        """Ask the connectors here again whose tasks are incomplete."""
        return [each for name in self.config.incomplete for each in self.on_reconfiguration(name)]

    def _fences(self) -> Effects:
        """Begin the rounds of fencing that are pending, as the leader."""
        if not (self.rules.leader_fences and self.is_leader and self.phase is Phase.STEADY):
            return []
        effects: Effects = []
        for name in self.config.pending_fencing:
            tasks = self.config.tasks_of(name)
            offset = self.config.tasks_offsets.get(name, 0)
            is_due = tasks and offset <= self.assignment.config_offset
            if not is_due or self._fencing.get(name) == offset or not self._needs_fencing(name):
                continue
            self._fencing[name] = offset
            effects.append(Fence(name))
        return effects

    def _stops(self, items: Iterable[TaskId]) -> Effects:
        gone = sorted(item for item in items if item in self.runs)
        for item in gone:
            del self.runs[item]
            self.failed.pop(item, None)
        tasks = tuple(item for item in gone if item.task != CONNECTOR)
        effects: Effects = [StopTasks(tasks)] if tasks else []
        return [*effects, *(StopConnector(each.connector) for each in gone if each.task < 0)]

    def _asked(self, asked: RestartAsked) -> list[TaskId]:
        return [
            item
            for item in self.runs
            if item.connector == asked.name
            and (item.task == CONNECTOR or asked.include_tasks)
            and (not asked.only_failed or item in self.failed)
        ]

    def _restart_here(self, items: Iterable[TaskId]) -> Effects:
        again = sorted(item for item in items if item in self.runs)
        marks: Effects = [Report(item, State.RESTARTING) for item in again]
        return [*marks, *self._stops(again), *self._reconcile()]
