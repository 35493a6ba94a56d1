"""MirrorSource: mirrors topics of a cluster to another, with settings and ACLs (KIP-382)."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from ...protocol.types import TopicPartition
from ..api import ConnectorContext, Props
from .connector import Job, MirrorConnector
from .keys import SOURCE, client_settings
from .rules import FlowRules
from .source_task import ASSIGNED, MirrorSourceTask
from .topics import TopicSync


class MirrorSource(MirrorConnector):
    """Finds the partitions to mirror, makes them at the target and deals them out."""

    config = SOURCE
    task = MirrorSourceTask
    dealt = ASSIGNED
    place: ClassVar[Mapping[str, type]] = {"cluster": str, "topic": str, "partition": int}

    def start(self, props: Props, context: ConnectorContext) -> None:
        """Make the topics of the source at the target; raises as MirrorConnector does."""
        self._rules = FlowRules(SOURCE.parse(props))
        super().start(props, context)

    async def prepare(self) -> None:
        """Make the topic of offset syncs."""
        self._topics = TopicSync(self.upkeep, self._rules, self.settings)
        await self.make_offset_syncs()

    async def find(self) -> list[TopicPartition]:
        """Return the partitions of the source that are at the target, where they are made."""
        return await self._topics.partitions()

    async def _first(self) -> None:
        await super()._first()
        for key, _, job in self.jobs()[1:]:
            if self.settings[f"{key}.enabled"]:
                await job()

    def jobs(self) -> Sequence[Job]:
        """Return the look for topics, and the mirroring of their settings and ACLs."""
        return (
            ("refresh.topics", "looking for new topics", self.look_again),
            ("sync.topic.configs", "mirroring settings of topics", self._topics.sync_configs),
            ("sync.topic.acls", "mirroring ACLs of topics", self._topics.sync_acls),
        )

    def exactly_once_support(self, props: Props) -> bool:
        """Return True if the source is read with isolation.level=read_committed."""
        consumer = client_settings(props, "source", "consumer")
        return consumer.get("isolation.level") == "read_committed"
