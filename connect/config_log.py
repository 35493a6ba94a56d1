"""The config topic: what its records mean, and the records that the leader writes.

A fold over one compacted partition gives the state of a Connect cluster: the configuration of each
connector and of its tasks, the states that users want, how many producers must be fenced, the key
of signed requests. Keys and values are those of Kafka's KafkaConfigBackingStore, written by its
JsonConverter without schemas. Pure: it reads no topic, and what a worker does about a change is
decided by `herder`.

Invariants
    Task configurations of a connector count as a set, from the record `commit-NAME` on. A commit
    that lacks a task (compaction took it, or a leader died) gives the connector no tasks, and
    names it in `incomplete`: the leader asks the connector again.
    What compaction leaves of a log gives the same state as the whole log, for complete sets.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from .states import TargetState, TaskId

Props = Mapping[str, str]
CONNECTOR: Final = "connector-"
TASK: Final = "task-"
COMMIT: Final = "commit-"
TARGET: Final = "target-state-"
FENCING: Final = "tasks-fencing-"
RESTART: Final = "restart-connector-"
LOGGER: Final = "logger-cluster-"
SESSION_KEY: Final = "session-key"
WORDS_MOST: Final = 200
"""The most characters of a record that an error shows."""


@dataclass(frozen=True, slots=True)
class Row:
    """One record of the config topic."""

    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True)
class SessionKey:
    """The key with which workers sign their requests to each other (KIP-507)."""

    key: bytes = field(repr=False)
    algorithm: str
    created_ms: int
    """Milliseconds since the epoch, by the clock of the leader that made it."""


@dataclass(frozen=True, slots=True)
class ConnectorChanged:
    """A connector has another configuration; `is_new` if it had none."""

    name: str
    is_new: bool


@dataclass(frozen=True, slots=True)
class ConnectorRemoved:
    """A connector is deleted, with its tasks."""

    name: str


@dataclass(frozen=True, slots=True)
class TasksChanged:
    """A connector has another set of tasks, or an incomplete one."""

    name: str


@dataclass(frozen=True, slots=True)
class TargetChanged:
    """Users want a connector in another state."""

    name: str


@dataclass(frozen=True, slots=True)
class FencingCounted:
    """The old producers of a source connector are fenced, so that its tasks may start."""

    name: str


@dataclass(frozen=True, slots=True)
class RestartAsked:
    """A connector, and perhaps its tasks, must be restarted (KIP-745)."""

    name: str
    include_tasks: bool
    only_failed: bool


@dataclass(frozen=True, slots=True)
class LoggerSet:
    """All workers set the level of a logger (KIP-976)."""

    namespace: str
    level: str


@dataclass(frozen=True, slots=True)
class KeyChanged:
    """The session key is another one."""


@dataclass(frozen=True, slots=True)
class Ignored:
    """A record says nothing that a worker understands; `why` names what is wrong with it."""

    key: str
    why: str


Change = (
    ConnectorChanged
    | ConnectorRemoved
    | TasksChanged
    | TargetChanged
    | FencingCounted
    | RestartAsked
    | LoggerSet
    | KeyChanged
    | Ignored
)


class _Malformed(ValueError):
    """A record's value is not what its key promises."""


class ConfigLog:
    """The state of a Connect cluster, as the records of its config topic say; see the module."""

    def __init__(self) -> None:
        self.offset = 0
        """The offset behind the last record that was applied."""
        self.connectors: dict[str, Props] = {}
        self.targets: dict[str, TargetState] = {}
        self.applied: dict[str, Props] = {}
        """The connector's configuration at the time when its tasks were committed."""
        self.incomplete: dict[str, None] = {}
        """Connectors whose newest commit lacks a task."""
        self.fencing_counts: dict[str, int] = {}
        """The number of tasks whose producers the newest round of fencing covers."""
        self.pending_fencing: dict[str, None] = {}
        """Connectors whose tasks were committed after the newest round of fencing."""
        self.structure_offset = 0
        """The offset behind the last record that added, removed or replaced connectors or tasks.

        An assignment made at an earlier offset does not account for it."""
        self.tasks_offsets: dict[str, int] = {}
        """The offset behind the commit of a connector's tasks."""
        self.session_key: SessionKey | None = None
        self._tasks: dict[str, tuple[Props, ...]] = {}
        self._deferred: dict[str, dict[int, Props]] = {}

    def tasks_of(self, name: str) -> tuple[Props, ...]:
        """Return the configurations of a connector's tasks; empty while its set is incomplete."""
        if name not in self.connectors or name in self.incomplete:
            return ()
        return self._tasks.get(name, ())

    def items(self) -> tuple[TaskId, ...]:
        """Return all connectors, each as task -1, and all tasks, sorted."""
        return tuple(
            TaskId(name, task)
            for name in sorted(self.connectors)
            for task in range(-1, len(self.tasks_of(name)))
        )

    def apply(self, key: bytes | None, value: bytes | None, offset: int) -> Change | None:
        """Take the next record; return what it changed, None if nothing.

        A record that cannot be read is Ignored, and the state stays as it was.
        """
        self.offset = offset + 1
        text = (key or b"").decode(errors="replace")
        try:
            return self._apply(text, None if value is None else _parsed(value))
        except _Malformed as error:
            return Ignored(text[:WORDS_MOST], str(error))

    def _apply(self, key: str, value: Any) -> Change | None:
        for prefix, take in (
            (TARGET, self._on_target),
            (CONNECTOR, self._on_connector),
            (TASK, self._on_task),
            (COMMIT, self._on_commit),
            (FENCING, self._on_fencing),
            (RESTART, _on_restart),
            (LOGGER, _on_logger),
        ):
            # `tasks-fencing-` does not begin with `task-`.
            if key.startswith(prefix):
                change: Change | None = take(key[len(prefix) :], value)
                return change
        if key == SESSION_KEY:
            self.session_key = SessionKey(
                _base64(_field(value, "key", str)),
                _field(value, "algorithm", str),
                _field(value, "creation-timestamp", int),
            )
            return KeyChanged()
        raise _Malformed("no record of the config topic has such a key")

    def _on_target(self, name: str, value: Any) -> Change | None:
        before = self.targets.get(name)
        if value is None:
            self.targets.pop(name, None)
            if name in self.connectors:
                self.targets[name] = TargetState.STARTED
        else:
            newer = value.get("state.v2") if isinstance(value, dict) else None
            said = newer if isinstance(newer, str) else _field(value, "state", str)
            if said not in TargetState.__members__:
                raise _Malformed(f"{said[:WORDS_MOST]!r} is no target state")
            self.targets[name] = TargetState[said]
        is_seen = name in self.connectors and self.targets[name] is not before
        return TargetChanged(name) if is_seen else None

    def _on_connector(self, name: str, value: Any) -> Change | None:
        if value is None:
            is_known = self.connectors.pop(name, None) is not None
            self._forget_tasks(name)
            if not is_known:
                return None
            self.structure_offset = self.offset
            return ConnectorRemoved(name)
        props = _properties(value)
        is_new = name not in self.connectors
        self.connectors[name] = props
        self.targets.setdefault(name, TargetState.STARTED)
        if is_new:
            self.structure_offset = self.offset
        return ConnectorChanged(name, is_new)

    def _on_task(self, rest: str, value: Any) -> Change | None:
        name, _, number = rest.rpartition("-")
        if not name or not (number.isascii() and number.isdigit()) or len(number) > 9:
            raise _Malformed("it does not end in the name of a connector and a task's number")
        if value is None:
            self._deferred.get(name, {}).pop(int(number), None)
            return None
        self._deferred.setdefault(name, {})[int(number)] = _properties(value)
        return None

    def _on_commit(self, name: str, value: Any) -> Change | None:
        deferred = self._deferred.pop(name, {})
        if value is None:
            self._forget_tasks(name)
            return TasksChanged(name) if name in self.connectors else None
        count = _field(value, "tasks", int)
        if count < 0:
            raise _Malformed(f"{count} tasks")
        if count > len(deferred) or any(task not in deferred for task in range(count)):
            self.incomplete[name] = None
        else:
            self.incomplete.pop(name, None)
            self._tasks[name] = tuple(deferred[task] for task in range(count))
            if name in self.connectors:
                self.applied[name] = self.connectors[name]
        self.pending_fencing[name] = None
        self.tasks_offsets[name] = self.structure_offset = self.offset
        return TasksChanged(name)

    def _on_fencing(self, name: str, value: Any) -> Change | None:
        if value is None:
            self.fencing_counts.pop(name, None)
            return None
        self.fencing_counts[name] = _field(value, "task-count", int)
        self.pending_fencing.pop(name, None)
        return FencingCounted(name)

    def _forget_tasks(self, name: str) -> None:
        for each in (self._tasks, self._deferred, self.applied, self.tasks_offsets):
            each.pop(name, None)
        self.incomplete.pop(name, None)
        self.pending_fencing.pop(name, None)


def _on_restart(name: str, value: Any) -> Change | None:
    if value is None:
        return None
    flags = [_object(value).get(each) is True for each in ("include-tasks", "only-failed")]
    return RestartAsked(name, *flags)


def _on_logger(namespace: str, value: Any) -> Change | None:
    return None if value is None else LoggerSet(namespace, _field(value, "level", str))


# ---------------------------------------------------------------------------------- the records


def connector_row(name: str, props: Props | None) -> Row:
    """Return the record of a connector's configuration; None deletes the connector."""
    return _row(CONNECTOR + name, None if props is None else {"properties": dict(props)})


def tasks_rows(name: str, configs: Sequence[Props]) -> list[Row]:
    """Return the records of all tasks of a connector, the commit last."""
    rows = [
        _row(f"{TASK}{name}-{task}", {"properties": dict(props)})
        for task, props in enumerate(configs)
    ]
    return [*rows, _row(COMMIT + name, {"tasks": len(configs)})]


def target_row(name: str, target: TargetState) -> Row:
    """Return the record of a target state; workers before KIP-875 see PAUSED for STOPPED."""
    older = TargetState.PAUSED if target is TargetState.STOPPED else target
    return _row(TARGET + name, {"state": older.value, "state.v2": target.value})


def removal_rows(name: str, task_count: int) -> list[Row]:
    """Return the records that delete a connector, its target state and its tasks.

    Kafka's workers leave the records of tasks, and ignore that these are deleted. Without that a
    connector made anew would find the old tasks once the deletion itself is compacted away.
    """
    tasks = [_row(f"{TASK}{name}-{task}", None) for task in range(task_count)]
    return [connector_row(name, None), _row(TARGET + name, None), *tasks, _row(COMMIT + name, None)]


def fencing_row(name: str, task_count: int) -> Row:
    """Return the record that a round of fencing is over, before so many tasks start (KIP-618)."""
    return _row(FENCING + name, {"task-count": task_count})


def restart_row(name: str, *, include_tasks: bool, only_failed: bool) -> Row:
    """Return the record that asks all workers to restart what they run of a connector."""
    return _row(RESTART + name, {"include-tasks": include_tasks, "only-failed": only_failed})


def logger_row(namespace: str, level: str) -> Row:
    """Return the record that sets the level of a logger on all workers."""
    return _row(LOGGER + namespace, {"level": level})


def session_key_row(key: SessionKey) -> Row:
    """Return the record of a new session key."""
    text = b64encode(key.key).decode()
    value = {"key": text, "algorithm": key.algorithm, "creation-timestamp": key.created_ms}
    return _row(SESSION_KEY, value)


def as_json(value: Any) -> bytes:
    """Encode as Kafka's JsonConverter does: without spaces, as UTF-8."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text.encode(errors="replace")


def _row(key: str, value: Mapping[str, Any] | None) -> Row:
    return Row(key.encode(errors="replace"), None if value is None else as_json(value))


# ------------------------------------------------------------------------------------- parsing


def _parsed(value: bytes) -> Any:
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise _Malformed("its value is no JSON") from None


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _Malformed("its value is no JSON object")
    return value


def _field(value: Any, name: str, kind: type) -> Any:
    found = _object(value).get(name)
    if not isinstance(found, kind) or isinstance(found, bool):
        raise _Malformed(f"its field {name!r} is no {kind.__name__}")
    return found


def _properties(value: Any) -> Props:
    found = _field(value, "properties", dict)
    return {key: each for key, each in found.items() if isinstance(each, str)}


def _base64(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise _Malformed("its key is no base64") from None
