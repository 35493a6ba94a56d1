"""Batches of a Produce request that a worker process decompresses and checks before the append.

A small compressed batch can expand to very many bytes, which must not block the event loop. The
request keeps copies of such batches while it waits for the worker. No later Produce of the same
connection starts before the request is done, so that a producer's sequence numbers stay in order.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from ...protocol.errors import ErrorCode
from ...protocol.records.record_checks import RecordRules, Verdict, judge_in_full
from ...runtime.errors import WorkerLost
from ..net.answer import Call
from ..partition.partition import Partition
from ..partition.verification import Verification


class ToOpen(NamedTuple):
    """A batch that waits for a worker's verdict."""

    place: int
    """The index of the request's result that is reserved for the batch."""
    partition: Partition
    records: bytearray
    """A copy, because the connection's receive buffer is filled again."""
    rules: RecordRules
    guard: Verification | None = None


class Opening:
    """One task that has a worker check all such batches of a request; it appends none of them."""

    __slots__ = ("_call", "_held_bytes", "_task", "batches")

    def __init__(
        self, call: Call, batches: list[ToOpen], done: Callable[[list[Verdict]], None]
    ) -> None:
        """Start the task, which calls `done` with a verdict for each batch unless cancelled."""
        self.batches = batches
        self._call = call
        self._held_bytes = sum(len(each.records) for each in batches)
        call.connection.inbox.hold(self._held_bytes)
        self._task: asyncio.Task[None] = call.edge.runtime.spawn(self._run(done), "record-opening")

    def cancel(self) -> None:
        """Stop the task, because the client is gone."""
        self._task.cancel()
        self._release()

    async def _run(self, done: Callable[[list[Verdict]], None]) -> None:
        verdicts = [await self._judge(each) for each in self.batches]
        self._release()
        done(verdicts)

    async def _judge(self, batch: ToOpen) -> Verdict:
        offload = self._call.edge.runtime.offload
        try:
            return await offload(judge_in_full, bytes(batch.records), batch.rules)
        except WorkerLost as error:
            why = f"the batch could not be opened: {error}"
            return Verdict(error=ErrorCode.UNKNOWN_SERVER_ERROR, detail=why)

    def _release(self) -> None:
        held, self._held_bytes = self._held_bytes, 0
        self._call.connection.inbox.hold(-held)
