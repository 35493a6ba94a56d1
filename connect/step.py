"""The code of a task with its pipeline, as sources and sinks share it: it runs where its host says.

Never here: clients, offsets to commit.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from .hosts import Ask, Stop
from .pipeline import DROPPED
from .plugins import Plugins
from .states import TaskId
from .tolerance import Failed, FailTask, RetryAfter, Skip, Tolerance, Tries

log = logging.getLogger(__name__)

PER_TURN: Final = 500
"""Records that an async task's pipeline takes before the loop gets a turn."""
RETRY_MS: Final = 1_000
"""The wait after a Retry of a task that names no time."""


def system_ms() -> int:
    """Return milliseconds since the epoch; for tasks outside of the worker's loop."""
    return time.time_ns() // 1_000_000


@dataclass(slots=True)
class StepSpec:
    """All that makes a step, also in another process."""

    task: type[Any]
    id: TaskId
    connector_props: Mapping[str, str]
    task_props: Mapping[str, str]
    worker_props: Mapping[str, str]
    plugin_path: Sequence[str]
    is_async: bool
    wall_ms: Callable[[], int]


class Step:
    """Holds the task, and applies its pipeline until each record has a lasting outcome."""

    def __init__(self, spec: StepSpec, pipeline: type[Any], ask: Ask, stop: Stop) -> None:
        self._spec = spec
        self._ask = ask
        self._stop = stop
        find = Plugins(spec.plugin_path).find
        self._pipeline = pipeline(spec.connector_props, spec.worker_props, find)
        self._tolerance = Tolerance(spec.connector_props, spec.id)
        self._task = spec.task()

    async def _outcomes(self, records: Sequence[Any]) -> tuple[list[Any], FailTask | None]:
        """Return what becomes of each record: an outcome without failures, or a Skip.

        The list ends before a record that fails the task.
        """
        outcomes: list[Any] = []
        for start in range(0, len(records), PER_TURN):
            outcomes += self._pipeline.apply(records[start : start + PER_TURN])
            if self._spec.is_async:
                await asyncio.sleep(0)
        for index, outcome in enumerate(outcomes):
            if type(outcome) is Failed:
                outcomes[index] = settled = await self._settled(records[index], outcome)
                if isinstance(settled, FailTask):
                    return outcomes[:index], settled
        return outcomes, None

    async def _settled(self, record: Any, outcome: Any) -> Any:
        """Try a failed record again as long as the tolerance says so."""
        since_ms, count = self._spec.wall_ms(), 1
        while type(outcome) is Failed:
            decision = self._tolerance.on_failure(
                outcome, record, Tries(count, since_ms), self._spec.wall_ms()
            )
            if not isinstance(decision, RetryAfter):
                if decision.log is not None:
                    log.error("%s", decision.log)
                return decision
            await self._wait(decision.after_ms)
            if self._stop.is_set():
                return FailTask(outcome.error, None)
            (outcome,) = self._pipeline.apply([record])
            count += 1
        return outcome

    async def _wait(self, after_ms: int) -> None:
        if self._spec.is_async:
            await asyncio.sleep(after_ms / 1000)
        else:
            self._stop.wait(after_ms / 1000)


def is_left_out(outcome: Any) -> bool:
    """True if nothing of a record goes on: it was dropped or skipped."""
    return outcome is DROPPED or isinstance(outcome, Skip)
