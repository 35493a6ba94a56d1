"""MirrorSource: mirrors topics of a cluster to another, with settings and ACLs (KIP-382)."""

from collections.abc import Mapping, Sequence
from typing import Any

from ...protocol.types import TopicPartition
from ..api import ConnectError, ConnectorContext, Props, SourceConnector
from ..config_def import BadConfig, ConfigValue
from .keys import SOURCE, client_settings
from .policy import offset_syncs_of
from .rules import FlowRules
from .source_task import ASSIGNED, MirrorSourceTask, partition_text
from .topics import TopicSync
from .upkeep import Upkeep, make_compacted


class MirrorSource(SourceConnector):
    """Finds the partitions to mirror, makes them at the target and divides them among tasks."""

    config = SOURCE
    task = MirrorSourceTask

    def start(self, props: Props, context: ConnectorContext) -> None:
        """Look at both clusters and make the topics at the target; begin to look again.

        Raise BadConfig, and AdminError if the target refuses a topic.
        """
        super().start(props, context)
        self._settings = settings = SOURCE.parse(props)
        self._rules = FlowRules(settings)
        self._partitions: list[TopicPartition] = []
        self._upkeep: Upkeep | None = None
        if not settings["enabled"]:
            return
        self._upkeep = upkeep = Upkeep(props, context)
        self._topics = TopicSync(upkeep, self._rules, settings)
        upkeep.begin(self._first, settings["admin.timeout.ms"] / 1000)
        jobs = {
            "refresh.topics": ("looking for new topics", self._refresh),
            "sync.topic.configs": ("mirroring settings of topics", self._topics.sync_configs),
            "sync.topic.acls": ("mirroring ACLs of topics", self._topics.sync_acls),
        }
        for key, (doing, job) in jobs.items():
            if settings[f"{key}.enabled"]:
                upkeep.every(settings[f"{key}.interval.seconds"], doing, job)

    async def _first(self) -> None:
        if self._upkeep is not None and self._settings["emit.offset-syncs.enabled"]:
            await make_offset_syncs(self._settings, self._upkeep)
        self._partitions = await self._topics.partitions()
        if self._settings["sync.topic.configs.enabled"]:
            await self._topics.sync_configs()
        if self._settings["sync.topic.acls.enabled"]:
            await self._topics.sync_acls()

    async def _refresh(self) -> None:
        partitions = await self._topics.partitions()
        if partitions != self._partitions:
            self._partitions = partitions
            self.context.request_reconfiguration()

    def refresh(self) -> None:
        """Look for new topics and partitions now, and wait until that is done."""
        if self._upkeep is not None:
            self._upkeep.run(self._refresh, self._settings["admin.timeout.ms"] / 1000)

    def task_configs(self, max_tasks: int) -> Sequence[Props]:
        """Deal the partitions out, so that those of one topic are spread over the tasks."""
        known = self._partitions
        count = min(max_tasks, len(known))
        return [
            {**self.props, ASSIGNED: partition_text(known[number::count])}
            for number in range(count)
        ]

    def stop(self) -> None:
        """End the jobs, and disconnect."""
        if self._upkeep is not None:
            self._upkeep.stop()

    def validate(self, props: Props) -> list[ConfigValue]:
        """Return what is known of each key, with malformed patterns among the errors."""
        found = super().validate(props)
        try:
            FlowRules(SOURCE.parse(props))
        except BadConfig as error:
            for each in found:
                if not each.errors and f"configuration {each.name}:" in str(error):
                    each.errors.append(str(error))
        return found

    def exactly_once_support(self, props: Props) -> bool:
        """True if only committed records of the source are read: isolation.level=read_committed."""
        consumer = client_settings(props, "source", "consumer")
        return consumer.get("isolation.level") == "read_committed"

    def alter_offsets(self, props: Props, offsets: Mapping[Any, Mapping[str, Any] | None]) -> bool:
        """Take offsets {"offset": n} of partitions {"cluster", "topic", "partition"}."""
        check_offsets(offsets, {"cluster": str, "topic": str, "partition": int})
        return True


def check_offsets(
    offsets: Mapping[Any, Mapping[str, Any] | None], fields: Mapping[str, type]
) -> None:
    """Raise ConnectError unless each partition has these fields and each offset a number >= 0."""
    for items, offset in offsets.items():
        partition = dict(items)
        for name, kind in fields.items():
            if not isinstance(partition.get(name), kind):
                raise ConnectError(f"{partition}: {name} must be there, as {kind.__name__}")
        if offset is None:
            continue
        number = offset.get("offset")
        if not isinstance(number, int) or isinstance(number, bool) or number < 0:
            raise ConnectError(f"{partition}: offset must be a number of 0 or more: {offset}")


async def make_offset_syncs(settings: dict[str, Any], upkeep: Upkeep) -> None:
    """Create the topic of offset syncs where it belongs, unless it is there."""
    end, topic = offset_syncs_of(settings)
    admin = upkeep.source if end == "source" else upkeep.target
    await make_compacted(admin, topic, settings["offset-syncs.topic.replication.factor"])
