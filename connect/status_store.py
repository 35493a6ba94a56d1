"""The status topic: what became of each connector and task, and the topics that they use.

Pure. Keys and values are those of Kafka's KafkaStatusBackingStore. The last record of a key wins;
a worker writes a failure, or that it stopped something, only if no other worker has said something
in a later generation.
"""

import json
from collections.abc import Iterable
from typing import Any, Final

from .config_log import Row, as_json
from .group_protocol import CONNECTOR
from .states import State, Status, TaskId

CONNECTOR_KEY: Final = "status-connector-"
TASK_KEY: Final = "status-task-"
TOPIC_KEY: Final = "status-topic-"
HALF_TRACE: Final = 32 * 1024
"""The most characters that are written of the beginning of a trace, and of its end."""
CAREFUL: Final = (State.FAILED, State.UNASSIGNED)
"""The states that do not replace what another worker said in a later generation."""


class StatusTable:
    """The newest statuses, as the records of the topic say."""

    def __init__(self) -> None:
        self.statuses: dict[TaskId, Status] = {}
        """By task; task -1 is the connector."""
        self.topics: dict[str, dict[str, None]] = {}
        """The topics that each connector used since it was created or they were reset."""

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """Take the next record; one that cannot be read says nothing."""
        text = (key or b"").decode(errors="replace")
        try:
            parsed = None if value is None else json.loads(value)
        except (ValueError, RecursionError):
            return
        if text.startswith(TOPIC_KEY):
            topic, _, connector = text[len(TOPIC_KEY) :].rpartition(":connector-")
            if parsed is None:
                self.topics.get(connector, {}).pop(topic, None)
            elif topic and connector:
                self.topics.setdefault(connector, {})[topic] = None
            return
        item = _item(text)
        if item is None:
            return
        status = _status(parsed)
        if status is not None:
            self.statuses[item] = status
        elif parsed is None:
            self.statuses.pop(item, None)

    def may_write(self, item: TaskId, status: Status) -> bool:
        """True if a status of this worker may be written over what is known."""
        known = self.statuses.get(item)
        if known is None or status.state not in CAREFUL or known.worker_id == status.worker_id:
            return True
        return known.generation <= status.generation

    def of(self, item: TaskId) -> Status:
        """Return the status of a connector or task; UNASSIGNED if nothing is known."""
        return self.statuses.get(item) or Status(State.UNASSIGNED, "", -1)

    def tasks_of(self, name: str) -> list[TaskId]:
        """Return the tasks of a connector that have a status, in order."""
        return sorted(
            item for item in self.statuses if item.connector == name and item.task != CONNECTOR
        )

    def of_others(self, configured: Iterable[TaskId]) -> list[TaskId]:
        """Return what has a status and is not configured."""
        known = dict.fromkeys(configured)
        return sorted(item for item in self.statuses if item not in known)


def status_row(item: TaskId, status: Status | None) -> Row:
    """Return the record of a status; None deletes it."""
    if item.task == CONNECTOR:
        key = f"{CONNECTOR_KEY}{item.connector}"
    else:
        key = f"{TASK_KEY}{item.connector}-{item.task}"
    if status is None:
        return Row(key.encode(errors="replace"), None)
    value = {
        "state": status.state.value,
        "trace": _short(status.trace),
        "worker_id": status.worker_id,
        "generation": status.generation,
    }
    return Row(key.encode(errors="replace"), as_json(value))


def topic_row(task: TaskId, topic: str, wall_ms: int | None) -> Row:
    """Return the record that a task uses a topic since `wall_ms` (KIP-558); None deletes it."""
    key = f"{TOPIC_KEY}{topic}:connector-{task.connector}".encode(errors="replace")
    if wall_ms is None:
        return Row(key, None)
    told = {"name": topic, "connector": task.connector, "task": task.task}
    return Row(key, as_json({"topic": {**told, "discoverTimestamp": wall_ms}}))


def _short(trace: str | None) -> str | None:
    """Return a trace without its middle if it is too long, so that brokers take the record."""
    if trace is None or len(trace) <= 2 * HALF_TRACE:
        return trace
    return f"{trace[:HALF_TRACE]}\n...\n{trace[-HALF_TRACE:]}"


def _item(key: str) -> TaskId | None:
    if key.startswith(CONNECTOR_KEY) and len(key) > len(CONNECTOR_KEY):
        return TaskId(key[len(CONNECTOR_KEY) :], CONNECTOR)
    name, _, number = key.removeprefix(TASK_KEY).rpartition("-")
    is_task = key.startswith(TASK_KEY) and number.isascii() and number.isdigit()
    return TaskId(name, int(number)) if is_task and name and len(number) < 10 else None


def _status(value: Any) -> Status | None:
    if not isinstance(value, dict):
        return None
    state, worker, generation = (value.get(each) for each in ("state", "worker_id", "generation"))
    if not (isinstance(state, str) and isinstance(worker, str) and isinstance(generation, int)):
        return None
    if state not in State.__members__:
        return None
    trace = value.get("trace")
    return Status(State[state], worker, generation, trace if isinstance(trace, str) else None)
