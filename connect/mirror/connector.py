"""The base of MM2's connectors: looks for what there is to mirror, and deals it out.

Calls come from the worker's threads; whatever asks a cluster runs on the loop of `Upkeep`.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar

from ..api import ConnectError, ConnectorContext, Props, SourceConnector
from .policy import offset_syncs_of
from .upkeep import Upkeep, make_compacted

Job = tuple[str, str, Callable[[], Awaitable[None]]]
"""The beginning of its keys (X.enabled, X.interval.seconds), what it does, and the job."""


class MirrorConnector(SourceConnector):
    """A connector between two clusters."""

    switches: ClassVar[Sequence[str]] = ("enabled",)
    """Keys that all must be true, or there are no tasks."""
    ends: ClassVar[Sequence[str]] = ("source", "target")
    """The ends that the connector asks."""
    dealt: ClassVar[str]
    """The key of a task's configuration that has its part, a JSON list."""
    place: ClassVar[Mapping[str, type]]
    """The fields of a source partition."""

    upkeep: Upkeep
    is_on = False
    """True from a start with all switches on."""

    def start(self, props: Props, context: ConnectorContext) -> None:
        """Look at both clusters and make the topics of MM2; begin to look again.

        Raise BadConfig, ConnectError if a cluster does not answer, and AdminError if one refuses.
        """
        super().start(props, context)
        self.settings: dict[str, Any] = self.config.parse(props)
        self._parts: list[Any] = []
        if not all(self.settings[key] for key in self.switches):
            return
        self._timeout_s = self.settings["admin.timeout.ms"] / 1000
        self.upkeep = Upkeep(props, context, self.ends)
        self.is_on = True
        self.upkeep.begin(self._first, self._timeout_s)
        for key, doing, job in self.jobs():
            if self.settings[f"{key}.enabled"]:
                self.upkeep.every(self.settings[f"{key}.interval.seconds"], doing, job)

    async def prepare(self) -> None:
        """Make the topics of MM2 that the tasks need."""

    async def find(self) -> list[Any]:
        """Return what is there to be dealt out."""
        raise NotImplementedError

    def jobs(self) -> Sequence[Job]:
        """Return what is repeated."""
        return ()

    async def _first(self) -> None:
        await self.prepare()
        self._parts = await self.find()

    async def look_again(self) -> None:
        """Find what there is; if it is not what it was, ask for new tasks."""
        found = await self.find()
        if found != self._parts:
            self._parts = found
            self.context.request_reconfiguration()

    def refresh(self) -> None:
        """Look again now, and wait until that is done."""
        self.upkeep.run(self.look_again, self._timeout_s)

    def task_configs(self, max_tasks: int) -> Sequence[Props]:
        """Deal the parts out, so that neighbours are in different tasks."""
        parts = self._parts
        count = min(max_tasks, len(parts))
        return [{**self.props, self.dealt: json.dumps(parts[n::count])} for n in range(count)]

    def stop(self) -> None:
        """End the jobs, and disconnect."""
        if self.is_on:
            self.upkeep.stop()

    async def make_offset_syncs(self) -> None:
        """Create the topic of offset syncs where it belongs, unless it is there."""
        if self.settings["emit.offset-syncs.enabled"]:
            end, topic = offset_syncs_of(self.settings)
            admin = self.upkeep.source if end == "source" else self.upkeep.target
            replicas = self.settings["offset-syncs.topic.replication.factor"]
            await make_compacted(admin, topic, replicas)

    def alter_offsets(self, props: Props, offsets: Mapping[Any, Mapping[str, Any] | None]) -> bool:
        """Take offsets {"offset": n} of partitions that have the fields of `place`."""
        for items, offset in offsets.items():
            partition = dict(items)
            for name, kind in self.place.items():
                if not isinstance(partition.get(name), kind):
                    raise ConnectError(f"{partition}: {name} must be there, as {kind.__name__}")
            number = 0 if offset is None else offset.get("offset")
            if not isinstance(number, int) or isinstance(number, bool) or number < 0:
                raise ConnectError(f"{partition}: offset must be a number of 0 or more: {offset}")
        return True
