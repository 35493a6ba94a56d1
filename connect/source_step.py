"""A source task with its pipeline: what runs in the task's thread, its process, or on the loop.

Records leave it as batches of columns. Never here: clients, offsets to commit.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from .api import AsyncSourceTask, Retry, SourceTask
from .hosts import Ask, Stop, called, trace_of
from .offsets import Reader
from .pipeline import SourcePipeline
from .records import SourceRecord
from .source_batches import Batch, Boundary, Polled, gather
from .step import RETRY_MS, Step, StepSpec

POLL_TIMEOUT_MS: Final = 500


def reports_records(task: type[Any]) -> bool:
    """True if a task wants to be told of each record, so that single records are followed."""
    own = getattr(task, "commit_record", None)
    return own not in (SourceTask.commit_record, AsyncSourceTask.commit_record)


class Transactions:
    """The ends of transactions that the task asked for since its last poll."""

    def __init__(self) -> None:
        self.marks: list[tuple[SourceRecord | None, Boundary]] = []

    def commit(self, record: SourceRecord | None = None) -> None:
        """Ask for a commit after `record`, or after the batch that `poll` returns next."""
        self.marks.append((record, Boundary.COMMIT))

    def abort(self, record: SourceRecord | None = None) -> None:
        """Ask that what is open until `record`, or until the end of the next batch, is aborted."""
        self.marks.append((record, Boundary.ABORT))


@dataclass(slots=True)
class TaskContext:
    """The worker, as the task sees it."""

    offsets: Reader
    transaction: Transactions | None
    stop: Stop
    poll_timeout_ms: int = POLL_TIMEOUT_MS

    @property
    def stopping(self) -> bool:
        """True from the moment the task is asked to stop."""
        return self.stop.is_set()


class SourceStep(Step):
    """Polls the task and prepares what it returns."""

    def __init__(
        self, spec: StepSpec, offsets: Reader, decides_boundaries: bool, ask: Ask, stop: Stop
    ) -> None:
        super().__init__(spec, SourcePipeline, ask, stop)
        self._transactions = Transactions() if decides_boundaries else None
        self._context = TaskContext(offsets, self._transactions, stop)
        self._follows = reports_records(spec.task)
        self._held: dict[int, SourceRecord] = {}
        self._count = 0
        self._batches: AsyncIterator[Sequence[SourceRecord]] | None = None

    async def start(self) -> None:
        """Start the task."""
        await called(self._task.start, self._spec.task_props, self._context)
        if self._spec.is_async:
            self._batches = aiter(self._task.records())

    async def poll(self) -> Polled:
        """Return what the task has, after its pipeline."""
        try:
            records = await self._next()
        except StopAsyncIteration:
            return Polled(ended=True)
        except Retry as retry:
            return Polled(retry_ms=RETRY_MS if retry.after_ms is None else retry.after_ms)
        if not records:
            return Polled((Batch([], [], self._end(None)),) if self._has_marks() else ())
        return await self._prepared(records)

    async def _next(self) -> Sequence[SourceRecord] | None:
        if self._batches is not None:
            return await anext(self._batches)
        return self._task.poll()  # type: ignore[no-any-return]

    async def _prepared(self, records: Sequence[SourceRecord]) -> Polled:
        outcomes, failed = await self._outcomes(records)
        records = records[: len(outcomes)]
        first = self._count
        self._count += len(records)
        if self._follows:
            await self._hold(records, outcomes, first)
        if failed is not None:
            self._end(None)  # What was to end behind the whole batch does not end before it.
        failure = None if failed is None else trace_of(failed.error)
        return Polled(self._split(records, outcomes, first), failure=failure)

    async def _hold(
        self, records: Sequence[SourceRecord], outcomes: Sequence[Any], first: int
    ) -> None:
        for index, (record, outcome) in enumerate(zip(records, outcomes, strict=True), first):
            if type(outcome) is list:
                self._held[index] = record
            else:
                await called(self._task.commit_record, record, None)

    def _has_marks(self) -> bool:
        return self._transactions is not None and bool(self._transactions.marks)

    def _end(self, record: SourceRecord | None) -> Boundary | None:
        """Take the newest mark of a record, or of the whole batch."""
        if self._transactions is None:
            return None
        marks = self._transactions.marks
        found = [boundary for marked, boundary in marks if marked is record]
        self._transactions.marks = [mark for mark in marks if mark[0] is not record]
        return found[-1] if found else None

    def _split(
        self, records: Sequence[SourceRecord], outcomes: Sequence[Any], first: int
    ) -> list[Batch]:
        """Return the records as batches that end where a transaction ends."""
        if not self._has_marks():
            return [gather(records, outcomes, first)]
        batches: list[Batch] = []
        start = 0
        for index, record in enumerate(records, 1):
            boundary = self._end(record)
            if boundary is not None or index == len(records):
                batch = gather(records[start:index], outcomes[start:index], first + start)
                batch.boundary = boundary
                batches.append(batch)
                start = index
        whole = self._end(None)
        if whole is not None:
            batches[-1].boundary = batches[-1].boundary or whole
        return batches

    async def commit(self, acknowledged: Sequence[tuple[int, Any]], offsets: bool) -> None:
        """Tell the task which records are in their topics, and whether offsets were committed."""
        for index, metadata in acknowledged:
            record = self._held.pop(index, None)
            if record is not None:
                await called(self._task.commit_record, record, metadata)
        if offsets:
            await called(self._task.commit)

    async def stop(self) -> None:
        """Stop the task and close its transformations."""
        try:
            if self._batches is not None and hasattr(self._batches, "aclose"):
                await self._batches.aclose()
            await called(self._task.stop)
        finally:
            self._pipeline.close()
