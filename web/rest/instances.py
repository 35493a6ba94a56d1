"""The v2 consumers of this proxy: each is one consumer at the brokers, found by group and id.

What was answered is committed, not what was fetched. An instance that nobody uses is closed.
"""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ...client.consumer.consumer import Consumer
from ...client.errors import ClientError
from ...client.group_types import OffsetAndMetadata, RebalanceListener
from ...client.records import ConsumerRecord
from ...protocol.errors import ProtocolError
from ...protocol.patterns import compiled
from ...protocol.types import TopicPartition
from ...runtime.runtime import Runtime
from .clients import CLOSE_MS, CLOSE_S
from .errors import ILLEGAL_STATE, INSTANCE_EXISTS, NO_INSTANCE, NO_ROOM, UNPROCESSABLE, RestError
from .login import Login

Record = ConsumerRecord[bytes, bytes]
AUTO_COMMIT_MS: Final = 5_000
MOST_AT_ONCE: Final = 500
"""The most records that one poll of the consumer takes."""


@dataclass(slots=True, eq=False)
class Instance:
    """One v2 consumer."""

    group: str
    id: str
    login: Login
    form: str
    consumer: Consumer[bytes, bytes]
    runtime: Runtime
    commits_by_itself: bool = True
    min_bytes: int = 1
    request_timeout_ms: int | None = None
    used_ms: int = 0
    is_reading: bool = False
    is_subscribed: bool = False
    _poll: "asyncio.Task[list[Record]] | None" = None
    """A poll of the consumer that went on when its request had ended, as a rebalance does."""
    _answered: dict[TopicPartition, int] = field(default_factory=dict)
    """The offset behind the records that were answered, where it is not committed yet."""
    _committed_ms: int = 0
    _record_bytes: int = 0
    """The mean size of the newest records; 0 before the first."""

    # -- what to read

    async def subscribe(self, topics: Sequence[str], pattern: str | None) -> None:
        """Subscribe to topics or to a pattern; raise RestError if partitions are assigned."""
        if self.consumer.assignment() and not self.is_subscribed:
            raise RestError(ILLEGAL_STATE, "Partitions are assigned: delete this instance first.")
        self.recall()
        listener = RebalanceListener(on_revoked=self._on_revoked, on_lost=self._on_lost)
        what = list(topics) if pattern is None else _pattern(pattern)
        await self.consumer.subscribe(what, listener=listener, timeout_ms=CLOSE_MS)
        self.is_subscribed = True

    async def unsubscribe(self) -> None:
        """Leave the group; commit first if commits are automatic."""
        self.recall()
        await self.consumer.unsubscribe(timeout_ms=CLOSE_MS)
        self.is_subscribed = False

    def assign(self, partitions: Sequence[TopicPartition]) -> None:
        """Read exactly these partitions; raise RestError while subscribed."""
        if self.is_subscribed:
            raise RestError(ILLEGAL_STATE, "It is subscribed to topics: unsubscribe first.")
        self.recall()
        self.consumer.assign(partitions)

    async def _on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        if self.commits_by_itself:
            await self._commit_quietly(partitions)
        self._on_lost(partitions)

    def _on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            self._answered.pop(partition, None)

    # -- records

    async def read(self, timeout_ms: int, max_bytes: int) -> list[Record]:
        """Return records, of `max_bytes` at most or one; an empty list if none come in time.

        They count as answered once `answered` is told so; `give_back` has them read again. Raise
        RestError if another request reads. A rebalance goes on behind an answer that is empty, and
        the next request has its records.
        """
        if self.is_reading:
            raise RestError(ILLEGAL_STATE, "Another request reads this instance.")
        self.is_reading = True
        try:
            await self._commit_if_due()
            return await self._read(self.runtime.monotonic_ms() + timeout_ms, max_bytes)
        finally:
            self.is_reading = False
            self.used_ms = self.runtime.monotonic_ms()

    async def _read(self, deadline_ms: int, max_bytes: int) -> list[Record]:
        taken: list[Record] = []
        size = 0
        while True:
            left_ms = max(deadline_ms - self.runtime.monotonic_ms(), 0)
            wait_ms = 0 if taken and size >= self.min_bytes else left_ms
            try:
                found = await self._polled(wait_ms, max_bytes - size)
            except BaseException:  # as when the client has left
                self.give_back(taken)
                raise
            for index, record in enumerate(found):
                grown = size + len(record.key or b"") + len(record.value or b"")
                if taken and grown > max_bytes:
                    self.give_back(found[index:])
                    return taken
                size = grown
                taken.append(record)
            if found:
                self._record_bytes = max(size // len(taken), 1)
            if size >= max_bytes or not wait_ms or not left_ms:
                return taken

    async def _polled(self, wait_ms: int, room: int) -> list[Record]:
        if self._poll is None:
            count = room // self._record_bytes if self._record_bytes else 1
            most = min(max(count, 1), MOST_AT_ONCE)
            poll = self.consumer.poll(wait_ms, most)
            self._poll = asyncio.get_running_loop().create_task(poll, name="poll")
            self._poll.add_done_callback(_looked_at)
        task = self._poll
        # A poll with nothing to wait for still has to look at what has arrived.
        done, _ = await asyncio.wait([task], timeout=max(wait_ms, 50) / 1000)
        if not done or self._poll is not task:
            return []
        self._poll = None
        if task.cancelled():
            raise gone(self.group, self.id)
        return task.result()

    def give_back(self, records: Sequence[Record]) -> None:
        """Have the next read begin at these records."""
        held = self.consumer.assignment()
        for record in reversed(records):
            if record.topic_partition in held:
                self.consumer.seek(record.topic_partition, record.offset)

    def recall(self) -> None:
        """Give back what a poll has found since the last answer, before positions change."""
        poll = self._poll
        if poll is not None and poll.done() and not poll.cancelled() and not poll.exception():
            self._poll = None
            self.give_back(poll.result())

    def answered(self, records: Sequence[Record]) -> None:
        """Note that records are answered; those of partitions that went meanwhile are not ours."""
        held = self.consumer.assignment()
        for record in records:
            if record.topic_partition in held:
                self._answered[record.topic_partition] = record.offset + 1

    # -- offsets

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit these offsets, the next to read; if there are none, behind all that was answered.

        Raise what the consumer raises.
        """
        if offsets:
            await self.consumer.commit(offsets)
        else:
            await self._commit_answered(self.consumer.assignment())

    async def _commit_if_due(self) -> None:
        now_ms = self.runtime.monotonic_ms()
        if self.commits_by_itself and now_ms - self._committed_ms >= AUTO_COMMIT_MS:
            self._committed_ms = now_ms
            await self._commit_quietly(self.consumer.assignment())

    async def _commit_quietly(self, partitions: Sequence[TopicPartition]) -> None:
        """Commit what was answered of these partitions; after a failure it is read again."""
        with contextlib.suppress(ClientError, ProtocolError):
            await self._commit_answered(partitions)

    async def _commit_answered(self, partitions: Sequence[TopicPartition]) -> None:
        offsets = {at: self._answered[at] for at in partitions if at in self._answered}
        if offsets:
            await self.consumer.commit(offsets, timeout_ms=CLOSE_MS)
        for at, offset in offsets.items():
            if self._answered.get(at) == offset:
                del self._answered[at]

    def moved(self, partition: TopicPartition) -> None:
        """Forget what was found and answered of a partition, because its position jumps."""
        self.recall()
        self._answered.pop(partition, None)

    async def close(self) -> None:
        """Commit if commits are automatic, leave the group, and end a read under way."""
        try:
            if self.commits_by_itself:
                await self._commit_quietly(self.consumer.assignment())
        finally:
            await self.consumer.close(CLOSE_MS)
            if self._poll is not None:
                self._poll.cancel()


def _pattern(text: str) -> Any:
    try:
        return compiled(text)
    except ValueError as error:
        raise RestError(UNPROCESSABLE, f"topic_pattern: {error}") from None


def _looked_at(task: "asyncio.Task[list[Record]]") -> None:
    if not task.cancelled():
        task.exception()


class Instances:
    """The v2 consumers of this proxy, by group and id."""

    def __init__(self, runtime: Runtime, most: int, idle_ms: int) -> None:
        self._runtime = runtime
        self._most = most
        self._idle_ms = idle_ms
        self._by_id: dict[tuple[str, str], Instance | None] = {}
        """None while the consumer is being started."""
        self._closing: dict[asyncio.Task[None], None] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    async def add(self, instance: Instance) -> None:
        """Start an instance's consumer and keep it; raise RestError if its id is taken, or no room.

        Raise BootstrapError if the consumer cannot be started.
        """
        key = (instance.group, instance.id)
        if key in self._by_id:
            raise RestError(
                INSTANCE_EXISTS, f"Group {key[0]!r} has an instance {key[1]!r} already."
            )
        if len(self._by_id) >= self._most:
            why = f"This proxy has {self._most} consumer instances: delete some, or try another."
            raise RestError(NO_ROOM, why)
        self._by_id[key] = None
        try:
            await instance.consumer.start()
        except BaseException:
            del self._by_id[key]
            raise
        instance.used_ms = self._runtime.monotonic_ms()
        self._by_id[key] = instance

    def find(self, group: str, instance_id: str, login: Login) -> Instance | None:
        """Return an instance of this user, and note its use; None if there is none here."""
        found = self._by_id.get((group, instance_id))
        if found is None or found.login != login:
            return None
        found.used_ms = self._runtime.monotonic_ms()
        return found

    async def delete(self, instance: Instance) -> None:
        """Forget an instance and close it; raise what its close raises."""
        self._by_id.pop((instance.group, instance.id), None)
        await instance.close()

    def close_idle(self, now_ms: int) -> None:
        """Begin to close the instances that nobody has used for the idle time."""
        for key, one in list(self._by_id.items()):
            if one is not None and not one.is_reading and now_ms - one.used_ms >= self._idle_ms:
                del self._by_id[key]
                self._drop(one)

    def _drop(self, instance: Instance) -> None:
        task = self._runtime.spawn(_closed(instance), "close")
        self._closing[task] = None
        task.add_done_callback(self._closing.pop)

    async def close(self) -> None:
        """Close all instances, in CLOSE_S at most."""
        for one in self._by_id.values():
            if one is not None:
                self._drop(one)
        self._by_id.clear()
        if self._closing:
            _, late = await asyncio.wait(list(self._closing), timeout=CLOSE_S)
            for task in late:
                task.cancel()


async def _closed(instance: Instance) -> None:
    # Where this fails, the group learns of it by the session timeout.
    with contextlib.suppress(ClientError, ProtocolError):
        await instance.close()


def gone(group: str, instance_id: str) -> RestError:
    """Make the error about an instance that is not here."""
    why = f"There is no consumer instance {instance_id[:250]!r} in group {group[:250]!r}."
    return RestError(NO_INSTANCE, why)
