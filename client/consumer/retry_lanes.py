"""The lanes of a member whose keys stay in order: which are read, and which wait for their keys.

A lane is partition n of all topics that the member reads. It is read once it is known which of its
keys are blocked, from the group's compacted topic, whose records are written in the transactions
that move records. `KeyOrder` decides. With each generation of the group everything is read anew.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ...protocol.types import TopicPartition
from ...runtime.errors import MinikafkaError
from ...runtime.owned_task import OwnedTask
from ...runtime.runtime import Runtime
from .retry_batch import Batch, Raw
from .retry_order import Blocked, Changes, KeyOrder, Outcome
from .retry_policy import RetryPolicy, RetryTopics

if TYPE_CHECKING:
    from .consumer import Consumer

POLL_MS: Final = 500
AGAIN_S: Final = 1.0
"""The pause before the topic is read again that could not be read."""

log = logging.getLogger(__name__)


class Lanes:
    """The lanes of one worker."""

    def __init__(
        self,
        consumer: "Consumer[Any, Any]",
        runtime: Runtime,
        settings: Mapping[str, Any],
        topics: RetryTopics,
        policy: RetryPolicy,
    ) -> None:
        self.order = KeyOrder(topics.again, policy.max_blocked_keys)
        self._consumer = consumer
        self._runtime = runtime
        self._settings = settings
        self._topics = topics
        self._seen: tuple[object, ...] = ()
        """The member, its generation and its partitions when the lanes were begun."""
        self._reading = OwnedTask(runtime, f"keys of {topics.blocked}")

    async def close(self) -> None:
        """Stop to read."""
        await self._reading.stop()

    def is_open(self, lane: int) -> bool:
        """Return whether a lane may be read."""
        return lane in self.order.lanes

    async def follow_group(self) -> bool:
        """Begin anew in another generation or with other partitions; return whether it did."""
        consumer = self._consumer
        assigned, who = consumer.assignment(), consumer.group_metadata()
        # A generation alone may be that of a group that began anew, and it may come to be known
        # before its partitions do.
        seen = who.member_id, who.generation_id, assigned
        if seen == self._seen:
            return False
        self._seen = seen
        await self._reading.stop()
        self.order.forget()
        consumer.pause(*assigned)
        lanes = [each.partition for each in assigned if each.topic == self._topics.again]
        for each in assigned:
            if each.partition not in lanes:
                log.error(
                    "%s-%d is not read: partition %d of %s, by which its records would come back, "
                    "is another member's, or is not there",
                    *(each.topic, each.partition, each.partition, self._topics.again),
                )
        if lanes:
            self._reading.start(lambda: self._read(lanes))
        return True

    def admit(self, records: Sequence[Raw]) -> list[Raw]:
        """Return the records of open lanes, such as come back first; the others are read later."""
        first: dict[TopicPartition, int] = {}
        for record in records:
            if not self.is_open(record.partition):
                first.setdefault(record.topic_partition, record.offset)
        for partition, offset in first.items():
            self._consumer.seek(partition, offset)
        admitted = [each for each in records if each.topic_partition not in first]
        return sorted(admitted, key=lambda each: each.topic != self._topics.again)

    def waits_until(self, batch: Batch, record: Raw) -> int | None:
        """Return when a record is due that is not handled now, because it follows another one."""
        place = self.order.place_of(record, batch.draft)
        if place is None:
            return None
        batch.places[record.topic_partition, record.offset] = place
        return self.order.waits_until(record, place, batch.draft, self._runtime.wall_ms())

    def has_room(self, batch: Batch, record: Raw) -> bool:
        """Return whether a record that has failed may block its key."""
        place = batch.place_of(record)
        return place is None or self.order.has_room(record, place, batch.draft)

    def note(self, changes: Changes, batch: Batch, record: Raw) -> None:
        """Add to `changes` what a record's fate does to its key."""
        place = batch.place_of(record)
        if place is not None:
            move = batch.move_of(record)
            outcome = Outcome.DONE if move is None else move.outcome
            self.order.note(changes, record, place, outcome, 0 if move is None else move.due_ms)

    def changes(self, batch: Batch) -> Changes:
        """Return the keys that change with what is settled of a batch."""
        found: Changes = {}
        for record in batch.settled:
            self.note(found, batch, record)
        return {
            name: blocked
            for name, blocked in found.items()
            if self.order.lanes[name[0]].get(name[1]) != blocked
        }

    async def _read(self, lanes: Sequence[int]) -> None:
        while lanes := [each for each in lanes if not self.is_open(each)]:
            try:
                await self._read_once(lanes)
            except MinikafkaError as error:
                log.warning("%s: read again: %s", self._topics.blocked, error)
                await asyncio.sleep(AGAIN_S)

    async def _read_once(self, lanes: Sequence[int]) -> None:
        partitions = [TopicPartition(self._topics.blocked, lane) for lane in lanes]

        def is_read(lane: int, keys: Mapping[bytes, Blocked]) -> None:
            self.order.begin(lane, keys)
            own = [each for each in self._consumer.assignment() if each.partition == lane]
            self._consumer.resume(*own)

        await read_blocked(self._settings, self._runtime, partitions, is_read)


async def read_blocked(
    settings: Mapping[str, Any],
    runtime: Runtime,
    partitions: Sequence[TopicPartition],
    is_read: Callable[[int, Mapping[bytes, Blocked]], None],
) -> None:
    """Read which keys are blocked, and call `is_read` for each partition that is at its end.

    A transaction that is open ends first: it may be one of the member that had the lane before.
    """
    from .consumer import Consumer

    async with Consumer.from_config(settings, runtime=runtime) as of_all:
        ends = await of_all.end_offsets(partitions)  # open transactions included
    committed = {**settings, "isolation_level": "read_committed", "auto_offset_reset": "earliest"}
    async with Consumer.from_config(committed, runtime=runtime) as consumer:
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        keys: dict[TopicPartition, dict[bytes, Blocked]] = {each: {} for each in partitions}
        while keys:
            for where in [*keys]:
                if await consumer.position(where) >= ends[where]:
                    is_read(where.partition, keys.pop(where))
                    consumer.pause(where)
            for record in await consumer.poll(POLL_MS) if keys else ():
                if record.topic_partition in keys and record.key is not None:
                    _fold(keys[record.topic_partition], record)


def _fold(keys: dict[bytes, Blocked], record: Raw) -> None:
    assert record.key is not None
    keys.pop(record.key, None)
    if record.value is not None:
        try:
            keys[record.key] = Blocked.of(record.value)
        except ValueError:
            log.error("%s-%d@%d: is no key's state", *record[:3])
