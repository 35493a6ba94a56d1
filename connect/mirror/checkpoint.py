"""MirrorCheckpoint: translates offsets of groups, and commits them for idle groups (KIP-382, 545).

A checkpoint tells where a group of the source goes on at the target. With sync.group.offsets it is
also committed there, as long as the group has no members at the target.
"""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from ...client.admin.admin import Admin
from ...client.consumer.consumer import Consumer
from ...client.errors import AdminError
from ...protocol.messages.list_offsets import LATEST_TIMESTAMP
from ...protocol.types import TopicPartition
from ...runtime.errors import MinikafkaError
from ..api import AsyncSourceTask, ConnectorContext, Props, SourceConnector, SourceContext
from ..config_def import ConfigValue
from ..records import SourceRecord
from .checkpoints import CheckpointStore, Offsets, offsets_to_commit
from .codec import BadMirrorRecord, Checkpoint, OffsetSync
from .keys import CHECKPOINT, client_settings
from .policy import offset_syncs_of, policy_of
from .rules import NameFilter
from .source import check_offsets, make_offset_syncs
from .topics import described
from .translation import OffsetSyncStore
from .upkeep import Upkeep, admin_settings, make_compacted

log = logging.getLogger(__name__)

ASSIGNED = "task.assigned.groups"
"""The groups of a task, as JSON: an id may hold any character."""
IDLE = ("Empty", "Dead")
"""The states of a group whose offsets may be committed from outside."""


class InternalTopic:
    """Reads partition 0 of a topic of MM2: all of it, then what is new."""

    def __init__(self, settings: Mapping[str, str], topic: str) -> None:
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


async def read_syncs(topic: InternalTopic, store: OffsetSyncStore) -> None:
    """Add the new records of the topic of offset syncs to the store; a bad one is logged."""
    async for key, value in topic.new():
        try:
            store.add(OffsetSync.decode(key, value))
        except BadMirrorRecord as error:
            log.warning("an offset sync cannot be read: %s", error)


async def read_checkpoints(topic: InternalTopic, store: CheckpointStore) -> None:
    """Add the new records of a topic of checkpoints to the store; a bad one is logged."""
    async for key, value in topic.new():
        try:
            store.add(Checkpoint.decode(key, value))
        except BadMirrorRecord as error:
            log.warning("a checkpoint cannot be read: %s", error)


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
            await read_checkpoints(self._written, self._checkpoints)
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
            await read_syncs(self._syncs_topic, self._syncs)
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
        ends = await self._ends(known)
        wanted = offsets_to_commit(known, committed, ends)
        if not wanted:
            return
        try:
            await self._target.alter_group_offsets(group, wanted)
        except AdminError as error:
            log.warning("offsets of group %s: %s", group, error)

    async def _ends(self, wanted: Mapping[TopicPartition, Any]) -> dict[TopicPartition, int]:
        found = await described(self._target, dict.fromkeys(topic for topic, _ in wanted))
        there = [at for at in wanted if at.topic in found]
        listed = await self._target.list_offsets(dict.fromkeys(there, LATEST_TIMESTAMP))
        return {at: each.offset for at, each in listed.items()}

    async def stop(self) -> None:
        """Disconnect."""
        for client in (self._source, self._target, self._syncs_topic, self._written):
            await client.close()


class MirrorCheckpoint(SourceConnector):
    """Finds the groups of the source whose offsets count, and deals them out to tasks."""

    config = CHECKPOINT
    task = MirrorCheckpointTask

    def start(self, props: Props, context: ConnectorContext) -> None:
        """Look for groups, make the topic of checkpoints at the target; begin to look again.

        Raise BadConfig, and AdminError if the target refuses the topic.
        """
        super().start(props, context)
        self._settings = settings = CHECKPOINT.parse(props)
        self._groups: list[str] = []
        self._upkeep: Upkeep | None = None
        self._group_filter = NameFilter(settings, "groups")
        self._topic_filter = NameFilter(settings, "topics")
        if not (settings["enabled"] and settings["emit.checkpoints.enabled"]):
            return
        self._upkeep = upkeep = Upkeep(props, context)
        upkeep.begin(lambda: self._first(upkeep), settings["admin.timeout.ms"] / 1000)
        if settings["refresh.groups.enabled"]:
            seconds = settings["refresh.groups.interval.seconds"]
            upkeep.every(seconds, "looking for new groups", lambda: self._refresh(upkeep))

    async def _first(self, upkeep: Upkeep) -> None:
        topic = policy_of(self._settings).checkpoints(self._settings["source.cluster.alias"])
        replicas = self._settings["checkpoints.topic.replication.factor"]
        await make_compacted(upkeep.target, topic, replicas)
        await make_offset_syncs(self._settings, upkeep)
        self._groups = await self._find(upkeep)

    async def _find(self, upkeep: Upkeep) -> list[str]:
        """Return the wanted groups that have committed offsets of a wanted topic."""
        found = []
        for listed in await upkeep.source.list_groups():
            if not self._group_filter.takes(listed.group_id):
                continue
            committed = await upkeep.source.list_group_offsets(listed.group_id)
            if any(self._topic_filter.takes(where.topic) for where in committed):
                found.append(listed.group_id)
        return found

    async def _refresh(self, upkeep: Upkeep) -> None:
        groups = await self._find(upkeep)
        if groups != self._groups:
            self._groups = groups
            self.context.request_reconfiguration()

    def refresh(self) -> None:
        """Look for new groups now, and wait until that is done."""
        upkeep = self._upkeep
        if upkeep is not None:
            timeout_s = self._settings["admin.timeout.ms"] / 1000
            upkeep.run(lambda: self._refresh(upkeep), timeout_s)

    def task_configs(self, max_tasks: int) -> Sequence[Props]:
        """Deal the groups out."""
        groups = self._groups
        count = min(max_tasks, len(groups))
        return [
            {**self.props, ASSIGNED: json.dumps(groups[number::count])} for number in range(count)
        ]

    def stop(self) -> None:
        """End the jobs, and disconnect."""
        if self._upkeep is not None:
            self._upkeep.stop()

    def validate(self, props: Props) -> list[ConfigValue]:
        """Return what is known of each key; checkpoints need offset syncs."""
        found = super().validate(props)
        is_off = props.get("emit.offset-syncs.enabled", "true").lower() == "false"
        if is_off and props.get("emit.checkpoints.enabled", "true").lower() == "true":
            for each in found:
                if each.name == "emit.checkpoints.enabled":
                    each.errors.append("checkpoints need emit.offset-syncs.enabled=true")
        return found

    def alter_offsets(self, props: Props, offsets: Mapping[Any, Mapping[str, Any] | None]) -> bool:
        """Take offsets of partitions {"group", "topic", "partition"}; the task uses none."""
        check_offsets(offsets, {"group": str, "topic": str, "partition": int})
        return True
