"""States of the connectors and tasks of one standalone worker, in memory, and the topics they use.

It decides which reports count: one of an earlier start of a connector or task is not taken. It
starts and stops nothing.
"""

from collections.abc import Callable

from .herding import NotFound
from .states import State, Status, TaskId


class Statuses:
    """The newest status of everything that runs; a StatusListener."""

    def __init__(self) -> None:
        self.reconfigure: Callable[[str], None] = lambda name: None
        """Called with a connector that asks for new task configurations."""
        self._connectors: dict[str, Status] = {}
        self._tasks: dict[TaskId, Status] = {}
        self._topics: dict[str, dict[str, None]] = {}
        self._least: dict[str, int] = {}
        """By connector, the oldest generation whose reports count; others are not known."""

    def expect(self, name: str, generation: int) -> None:
        """Take reports about a connector and its tasks of this generation on, and no earlier ones.

        What is known of its tasks is forgotten.
        """
        self._least[name] = generation
        self._topics.setdefault(name, {})
        self._tasks = {task: each for task, each in self._tasks.items() if task.connector != name}

    def forget(self, name: str) -> None:
        """Forget a connector; later reports about it do not count."""
        self.expect(name, 0)
        for table in (self._connectors, self._topics, self._least):
            table.pop(name, None)

    def on_connector(self, name: str, status: Status) -> None:
        """Take a connector's new status."""
        if self._counts(name, status, self._connectors.get(name)):
            self._connectors[name] = status

    def on_task(self, task: TaskId, status: Status) -> None:
        """Take a task's new status."""
        if self._counts(task.connector, status, self._tasks.get(task)):
            self._tasks[task] = status

    def on_topic(self, task: TaskId, topic: str) -> None:
        """Take a topic that a task uses."""
        if task.connector in self._topics:
            self._topics[task.connector][topic] = None

    def on_reconfiguration(self, name: str) -> None:
        """Hand on that a connector asks for new task configurations."""
        if name in self._least:
            self.reconfigure(name)

    def _counts(self, name: str, status: Status, known: Status | None) -> bool:
        least = self._least.get(name)
        oldest = least if known is None else known.generation
        return least is not None and oldest is not None and status.generation >= oldest

    def connector(self, name: str) -> Status:
        """Return a connector's status. Raise NotFound if there is none."""
        if name not in self._connectors:
            raise NotFound(f"No status found for connector {name}")
        return self._connectors[name]

    def state(self, name: str) -> State:
        """Return a connector's state; UNASSIGNED if nothing is known of it."""
        known = self._connectors.get(name)
        return State.UNASSIGNED if known is None else known.state

    def task(self, task: TaskId) -> Status:
        """Return a task's status. Raise NotFound if there is none."""
        if task not in self._tasks:
            raise NotFound(f"No status found for task {task}")
        return self._tasks[task]

    def tasks(self, name: str) -> list[tuple[TaskId, Status]]:
        """Return the status of each task of a connector, in order."""
        return [(task, self._tasks[task]) for task in sorted(self._tasks) if task.connector == name]

    def topics(self, name: str) -> list[str]:
        """Return the topics that a connector uses, sorted."""
        return sorted(self._topics.get(name, {}))

    def reset_topics(self, name: str) -> None:
        """Forget the topics that a connector uses."""
        self._topics[name] = {}
