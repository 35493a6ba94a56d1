"""Looks up and confirms the offsets that a consumer needs before it can fetch.

Asks the group's coordinator and the partitions' leaders, and passes the answers to `Positions`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from ...protocol.errors import ApiError
from ...protocol.types import TopicPartition
from ...runtime.owned_task import OwnedTask
from ...runtime.runtime import Runtime
from ..config import ConsumerConfig
from ..errors import ClientError
from ..group_types import OffsetAndMetadata
from ..metadata import Metadata
from ..offsets import EpochAnswer, EpochQuestion, ListedOffset, ends_of_epochs, list_offsets
from .buffer import Buffer
from .positions import PartitionState, Positions

log = logging.getLogger(__name__)

AskGroup = Callable[
    [Sequence[TopicPartition], int], Awaitable[Mapping[TopicPartition, OffsetAndMetadata]]
]
"""A function from partitions and a time limit in ms to the offsets that a group has committed."""
TIMEOUT_MS: Final = 1_000
"""The limit in ms for one round of requests; partitions assigned during a round join the next."""


class Lookups:
    """The loop that asks for the offsets that `Positions` lacks."""

    def __init__(
        self,
        runtime: Runtime,
        config: ConsumerConfig,
        metadata: Metadata,
        positions: Positions,
        buffer: Buffer,
    ) -> None:
        self.on_found: Callable[[], None]
        """Called after answers were passed to `Positions`. Set it before `start`."""
        self.ask_group: AskGroup | None = None
        self._config = config
        self._metadata = metadata
        self._positions = positions
        self._buffer = buffer
        self._wake = asyncio.Event()
        self._task = OwnedTask(runtime, "positions")

    def start(self) -> None:
        """Start the loop."""
        self._task.start(self._run)

    def wake(self) -> None:
        """Make the loop check whether `Positions` lacks an offset."""
        self._wake.set()

    async def close(self) -> None:
        """Stop the loop."""
        await self._task.stop()

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            unknown = self._positions.to_look_up()
            unvalidated = self._positions.to_validate()
            unasked = self._positions.to_ask()
            if not unknown and not unvalidated and not unasked:
                await self._wake.wait()
                continue
            try:
                await asyncio.gather(
                    self._ask_the_group(unasked),
                    self._look_up(unknown),
                    self._validate(unvalidated),
                )
            except ApiError as error:
                self._buffer.report(error)
                await asyncio.sleep(self._config.retry_backoff_max_ms / 1000)
            except ClientError as error:
                log.warning("positions are not known yet: %s", error)

    async def _ask_the_group(self, states: list[PartitionState]) -> None:
        if not states or self.ask_group is None:
            return
        begun = {state.partition: (state, state.seek_count) for state in states}
        found = await self.ask_group(list(begun), TIMEOUT_MS)
        for partition, (state, seek_count) in begun.items():
            committed = found.get(partition)
            if committed is None:
                self._positions.on_committed(state, seek_count, None)
            else:
                self._positions.on_committed(
                    state, seek_count, committed.offset, committed.leader_epoch
                )
        self._tell()

    async def _look_up(self, states: list[PartitionState]) -> None:
        if not states:
            return
        begun = {state.partition: (state, state.seek_count) for state in states}
        timestamps = {
            state.partition: state.looking_for for state in states if state.looking_for is not None
        }

        def on_answer(partition: TopicPartition, listed: ListedOffset) -> None:
            state, seek_count = begun[partition]
            self._positions.on_listed(state, seek_count, max(listed.offset, 0), listed.leader_epoch)
            self._tell()

        await list_offsets(
            self._metadata,
            timestamps,
            timeout_ms=TIMEOUT_MS,
            isolation_level=self._config.isolation_number,
            on_answer=on_answer,
        )

    async def _validate(self, states: list[PartitionState]) -> None:
        if not states:
            return
        begun = {state.partition: (state, state.seek_count) for state in states}
        questions = {
            state.partition: EpochQuestion(state.fetch_epoch, state.leader_epoch)
            for state in states
        }

        def on_answer(partition: TopicPartition, end: EpochAnswer) -> None:
            state, seek_count = begun[partition]
            before = state.position
            error = self._positions.on_validated(state, seek_count, *end)
            if state.position < before:
                lost = "records from offset %d on were lost with a leader; reading goes on there"
                log.warning("%s-%d: " + lost, *partition, state.position)
            if error is not None:
                self._buffer.report(error, state)
            self._tell()

        await ends_of_epochs(self._metadata, questions, timeout_ms=TIMEOUT_MS, on_answer=on_answer)

    def _tell(self) -> None:
        self.on_found()
        self._buffer.arrived.set()
