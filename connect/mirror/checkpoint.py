"""MirrorCheckpoint: translates offsets of groups, and commits them for idle groups (KIP-382, 545).

A checkpoint tells where a group of the source goes on at the target. With sync.group.offsets it is
also committed there, as long as the group has no members at the target.
"""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import ClassVar

from ...client.admin.admin import Admin
from ...client.consumer.consumer import Consumer
from ...client.errors import AdminError
from ...protocol.types import TopicPartition
from ...runtime.errors import MinikafkaError
from ..api import AsyncSourceTask, ConnectorContext, Props, SourceContext
from ..records import SourceRecord
from .checkpoints import CheckpointStore, Offsets, offsets_to_commit
from .codec import BadMirrorRecord, Checkpoint
from .connector import Job, MirrorConnector
from .keys import CHECKPOINT, client_settings
from .patterns import NameFilter
from .policy import offset_syncs_of, policy_of
from .topics import ends_of
from .translation import OffsetSyncStore
from .upkeep import admin_settings, make_compacted

log = logging.getLogger(__name__)

ASSIGNED = "task.assigned.groups"
"""The groups of a task, as JSON: an id may hold any character."""
IDLE = ("Empty", "Dead")
"""The states of a group whose offsets may be committed from outside."""


class InternalTopic:
    """Reads partition 0 of a topic of MM2: all of it, then what is new."""

    def __init__(self, settings: Mapping[str, str], topic: str) -> None:
        self.name = topic
        self._where = TopicPartition(topic, 0)
        fixed = {"auto.offset.reset": "earliest", "isolation.level": "read_committed"}
        wanted = {key: value for key, value in settings.items() if key != "group.id"} | fixed
        self._consumer: Consumer[bytes, bytes] = Consumer.from_config(wanted)

    async def start(self) -> None:
        """Connect; raise BootstrapError if that fails."""
        await self._consumer.start()
        self._consumer.assign([self._where])

    async def new(self) -> AsyncIterator[tuple[bytes, bytes]]:
        """Yield key and value of the records up to the end of now, but for tombstones."""
        end = (await self._consumer.end_offsets([self._where]))[self._where]
        while await self._consumer.position(self._where) < end:
            for record in await self._consumer.poll(500, 10_000):
                if record.key is not None and record.value is not None:
                    yield record.key, record.value

    async def close(self) -> None:
        """Disconnect."""
        await self._consumer.close()


async def read_new(topic: InternalTopic, add: Callable[[bytes, bytes], None]) -> None:
    """Pass the new records of a topic to `add`; one that it cannot read is logged."""
    async for key, value in topic.new():
        try:
            add(key, value)
        except BadMirrorRecord as error:
            log.warning("%s: a record cannot be read: %s", topic.name, error)


class MirrorCheckpointTask(AsyncSourceTask):
    """Writes the checkpoints of its groups."""

    async def start(self, props: Props, context: SourceContext) -> None:
        """Connect to both clusters; raise BootstrapError if that fails."""
        await super().start(props, context)
        self._settings = settings = CHECKPOINT.parse(props)
        self._groups: list[str] = json.loads(props[ASSIGNED])
        self._source_alias: str = settings["source.cluster.alias"]
        self._policy = policy_of(settings)
        self._topics = NameFilter(settings, "topics")
        self._topic = self._policy.checkpoints(self._source_alias)
        self._syncs, self._checkpoints = OffsetSyncStore(), CheckpointStore()
        end, syncs_topic = offset_syncs_of(settings)
        self._syncs_topic = InternalTopic(client_settings(props, end, "consumer"), syncs_topic)
        self._written = InternalTopic(client_settings(props, "target", "consumer"), self._topic)
        self._source = Admin.from_config(admin_settings(props, "source"))
        self._target = Admin.from_config(admin_settings(props, "target"))
        try:
            for client in (self._source, self._target, self._syncs_topic, self._written):
                await client.start()
            await read_new(self._written, self._checkpoints.read)
        except BaseException:
            await self.stop()
            raise

    async def records(self) -> AsyncIterator[Sequence[SourceRecord]]:
        """Yield the new checkpoints of every interval, and commit offsets of idle groups."""
        loop, settings = asyncio.get_running_loop(), self._settings
        every_s = settings["emit.checkpoints.interval.seconds"]
        commit_every_s = settings["sync.group.offsets.interval.seconds"]
        due_s = commit_due_s = loop.time()
        while True:
            if loop.time() >= due_s:
                due_s = loop.time() + every_s
                batch = await self._fresh()
                if batch:
                    yield batch
            if settings["sync.group.offsets.enabled"] and loop.time() >= commit_due_s:
                commit_due_s = loop.time() + commit_every_s
                await self._commit_offsets()
            next_s = due_s
            if settings["sync.group.offsets.enabled"]:
                next_s = min(due_s, commit_due_s)
            await asyncio.sleep(max(0.0, next_s - loop.time()))

    async def _fresh(self) -> list[SourceRecord]:
        """Translate what the groups have committed; a group that cannot be asked is logged."""
        fresh: list[Checkpoint] = []
        try:
            await read_new(self._syncs_topic, self._syncs.read)
            for group in self._groups:
                committed = await self._source.list_group_offsets(group)
                wanted = {
                    at: each for at, each in committed.items() if self._topics.takes(at.topic)
                }
                fresh += self._checkpoints.advance(group, wanted, self._syncs, self._remote)
        except MinikafkaError as error:
            log.warning("checkpoints of %s: %s", self._source_alias, error)
        now_ms = time.time_ns() // 1_000_000
        return [
            SourceRecord(
                topic=self._topic,
                partition=0,
                key=each.key(),
                value=each.value(),
                timestamp_ms=now_ms,
                source_partition={
                    "group": each.group,
                    "partition": each.partition.partition,
                    "topic": each.partition.topic,
                },
                source_offset={"offset": 0},
            )
            for each in fresh
        ]

    def _remote(self, topic: str) -> str:
        return self._policy.remote(self._source_alias, topic)

    # -- offsets of idle groups

    async def _commit_offsets(self) -> None:
        """Commit what is translated for groups without members at the target."""
        try:
            states = {each.group_id: each.state for each in await self._target.list_groups()}
            for group in self._groups:
                known = self._checkpoints.of(group)
                if known and states.get(group, "Dead") in IDLE:
                    await self._commit_group(group, known)
        except MinikafkaError as error:
            log.warning("offsets of groups of %s: %s", self._source_alias, error)

    async def _commit_group(self, group: str, known: Mapping[TopicPartition, Checkpoint]) -> None:
        committed: Offsets = await self._target.list_group_offsets(group)
        ends = await ends_of(self._target, list(known))
        wanted = offsets_to_commit(known, committed, ends)
        if not wanted:
            return
        try:
            await self._target.alter_group_offsets(group, wanted)
        except AdminError as error:
            log.warning("offsets of group %s: %s", group, error)

    async def stop(self) -> None:
        """Disconnect."""
        for client in (self._source, self._target, self._syncs_topic, self._written):
            await client.close()


class MirrorCheckpoint(MirrorConnector):
    """Finds the groups of the source whose offsets count, and deals them out."""

    config = CHECKPOINT
    task = MirrorCheckpointTask
    switches = ("enabled", "emit.checkpoints.enabled", "emit.offset-syncs.enabled")
    dealt = ASSIGNED
    place: ClassVar[Mapping[str, type]] = {"group": str, "topic": str, "partition": int}

    def start(self, props: Props, context: ConnectorContext) -> None:
        """Make the topic of checkpoints at the target; raises as MirrorConnector does."""
        settings = CHECKPOINT.parse(props)
        self._wanted, self._topics = (NameFilter(settings, key) for key in ("groups", "topics"))
        super().start(props, context)

    async def prepare(self) -> None:
        """Make the topics of checkpoints and of offset syncs."""
        topic = policy_of(self.settings).checkpoints(self.settings["source.cluster.alias"])
        replicas = self.settings["checkpoints.topic.replication.factor"]
        await make_compacted(self.upkeep.target, topic, replicas)
        await self.make_offset_syncs()

    async def find(self) -> list[str]:
        """Return the wanted groups that have committed offsets of a wanted topic."""
        found = []
        for group in [each.group_id for each in await self.upkeep.source.list_groups()]:
            if self._wanted.takes(group):
                committed = await self.upkeep.source.list_group_offsets(group)
                if any(self._topics.takes(where.topic) for where in committed):
                    found.append(group)
        return found

    def jobs(self) -> Sequence[Job]:
        """Return the look for groups."""
        return (("refresh.groups", "looking for new groups", self.look_again),)
