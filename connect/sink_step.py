"""A sink task with its pipeline: what runs in the task's thread, its process, or on the loop.

What the task asks of its consumer is collected and handed over with the answer of each call. Never
here: clients, offsets to commit.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from ..client.records import ConsumerRecord, RecordColumns
from ..protocol.types import TopicPartition
from .api import Retry
from .hosts import Ask, Reported, Stop, called, trace_of
from .pipeline import SinkPipeline, original_of
from .records import SinkRecord
from .step import RETRY_MS, Step, StepSpec
from .tolerance import (
    DeadLetter,
    Failed,
    FailTask,
    RetryAfter,
    Skip,
    Stage,
    Tolerance,
    Tries,
    name_of,
)

log = logging.getLogger(__name__)


class Wish(Enum):
    """A request of a task to its consumer."""

    SEEK = "seek"
    PAUSE = "pause"
    RESUME = "resume"
    COMMIT = "commit"


@dataclass(slots=True)
class Done:
    """The outcome of one call of a sink step."""

    wishes: list[tuple[Wish, tuple[TopicPartition, ...], int]] = field(default_factory=list)
    letters: list[DeadLetter] = field(default_factory=list)
    retry_ms: int | None = None
    """Set if the batch is to be given again: the time until then."""
    taken: int = 0
    """How many of the records given are done with, once there is nothing to give again."""
    failure: str | None = None
    """The traceback of a record that fails the task."""
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)


class SinkTaskContext:
    """The worker, as a sink task sees it."""

    def __init__(self, spec: StepSpec, tolerance: Tolerance, ask: Ask) -> None:
        self.assignment: frozenset[TopicPartition] = frozenset()
        self.wishes: list[tuple[Wish, tuple[TopicPartition, ...], int]] = []
        self.timeout_ms: int | None = None
        self._spec = spec
        self._tolerance = tolerance
        self._ask = ask

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on at `offset` with the next fetch."""
        self.wishes.append((Wish.SEEK, (TopicPartition(*partition),), offset))

    def timeout(self, after_ms: int) -> None:
        """Give the batch again after this time, if `put` raises Retry without a time."""
        self.timeout_ms = after_ms

    def pause(self, *partitions: TopicPartition) -> None:
        """Fetch nothing of these partitions until `resume`."""
        self.wishes.append((Wish.PAUSE, partitions, 0))

    def resume(self, *partitions: TopicPartition) -> None:
        """Fetch of these partitions again."""
        self.wishes.append((Wish.RESUME, partitions, 0))

    def request_commit(self) -> None:
        """Ask that offsets are committed after this batch."""
        self.wishes.append((Wish.COMMIT, (), 0))

    def report(self, record: SinkRecord, error: Exception) -> Reported:
        """Hand over a record that cannot be written (KIP-610); raise `error` if none may fail."""
        original = original_of(record)
        if original is None:
            raise error
        now_ms = self._spec.wall_ms()
        failed = Failed(Stage.TASK_PUT, error, name_of(self._spec.task))
        decision = self._tolerance.on_failure(failed, original, Tries(1, now_ms), now_ms)
        if not isinstance(decision, RetryAfter) and decision.log is not None:
            log.error("%s", decision.log)
        if not isinstance(decision, Skip):
            raise error
        return Reported(self._ask("letter", decision.dead_letter))


class SinkStep(Step):
    """Converts what was consumed, and puts it to the task."""

    def __init__(self, spec: StepSpec, ask: Ask, stop: Stop) -> None:
        super().__init__(spec, SinkPipeline, ask, stop)
        self._context = SinkTaskContext(spec, self._tolerance, ask)
        self._batch: list[SinkRecord] = []
        self._columns: list[RecordColumns] = []
        self._taken = 0
        self._failed: FailTask | None = None

    async def start(self) -> None:
        """Start the task."""
        await called(self._task.start, self._spec.task_props, self._context)

    async def put(self, records: Sequence[ConsumerRecord[bytes, bytes]]) -> Done:
        """Give records to the task; at a record that fails the task, those before it."""
        outcomes, self._failed = await self._outcomes(records)
        letters: list[DeadLetter] = []
        batch: list[Any] = []
        for outcome in outcomes:
            if isinstance(outcome, SinkRecord):
                batch.append(outcome)
            elif type(outcome) is list:
                batch += outcome
            elif isinstance(outcome, Skip) and outcome.dead_letter is not None:
                letters.append(outcome.dead_letter)
        self._batch, self._taken = batch, len(outcomes)
        done = await self.again()
        done.letters = letters
        return done

    async def put_columns(self, columns: Sequence[RecordColumns]) -> Done:
        """Give whole batches to a ColumnSinkTask."""
        self._columns, self._taken = list(columns), len(columns)
        return await self.again()

    async def again(self) -> Done:
        """Give what the task has not taken yet."""
        try:
            while self._columns:
                first = self._columns[0]
                await called(self._task.put_columns, first.topic_partition, _arrow(first))
                del self._columns[0]
            if self._batch or not self._taken:
                await called(self._task.put, self._batch)
        except Retry as retry:
            after_ms = self._context.timeout_ms if retry.after_ms is None else retry.after_ms
            return self._done(retry_ms=RETRY_MS if after_ms is None else after_ms)
        finally:
            self._context.timeout_ms = None
        self._batch = []
        failed = self._failed
        return self._done(
            taken=self._taken, failure=None if failed is None else trace_of(failed.error)
        )

    async def open(self, partitions: Sequence[TopicPartition]) -> Done:
        """Give partitions to the task."""
        self._context.assignment |= frozenset(partitions)
        await called(self._task.open, partitions)
        return self._done()

    async def close(self, partitions: Sequence[TopicPartition]) -> Done:
        """Take partitions from the task, and what is still to be given again of them."""
        self._context.assignment -= frozenset(partitions)
        self._batch = [each for each in self._batch if each.origin not in partitions]
        self._columns = [each for each in self._columns if each.topic_partition not in partitions]
        await called(self._task.close, partitions)
        return self._done()

    async def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Done:
        """Ask the task which of these offsets may be committed."""
        safe = await called(self._task.pre_commit, offsets)
        return self._done(offsets=dict(safe or {}))

    async def stop(self) -> None:
        """Stop the task and close its transformations."""
        try:
            await called(self._task.stop)
        finally:
            self._pipeline.close()

    def _done(self, **outcome: Any) -> Done:
        wishes, self._context.wishes = self._context.wishes, []
        return Done(wishes, **outcome)


def _arrow(columns: RecordColumns) -> Any:
    import pyarrow

    keys = columns.keys or [None] * len(columns.values)
    arrays = [
        pyarrow.array(columns.offsets, pyarrow.int64()),
        pyarrow.array(columns.timestamps_ms, pyarrow.int64()),
        pyarrow.array(keys, pyarrow.binary()),
        pyarrow.array(columns.values, pyarrow.binary()),
    ]
    names = ["offset", "timestamp_ms", "key", "value"]
    return pyarrow.RecordBatch.from_arrays(arrays, names=names)
