"""States of connectors and tasks, and the names of tasks."""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol


class TaskId(NamedTuple):
    """One task of a connector, counted from 0."""

    connector: str
    task: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.task}"


class State(Enum):
    """The state of a connector or a task (AbstractStatus.State of Kafka's Connect)."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"
    """A connector without tasks; tasks are never STOPPED."""
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"
    DESTROYED = "DESTROYED"
    """Never shown: the status is gone."""


class TargetState(Enum):
    """The state that users want a connector to be in."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a connector or a task, and who said so."""

    state: State
    worker_id: str
    """host:port of the worker's REST API."""
    generation: int
    """The group's generation in which this was said; a status of an older one is not written."""
    trace: str | None = None
    """The traceback of a failure."""


class StatusListener(Protocol):
    """Hears from a Worker what became of what it runs. Calls are on the loop, without blocking."""

    def on_connector(self, name: str, status: Status) -> None:
        """Take a connector's new status."""

    def on_task(self, task: TaskId, status: Status) -> None:
        """Take a task's new status."""

    def on_topic(self, task: TaskId, topic: str) -> None:
        """Hear that a task wrote to `topic` or read from it for the first time."""

    def on_reconfiguration(self, name: str) -> None:
        """Hear that a connector asked for new task configurations."""
