"""Makes the topics of the source at the target, with their partitions, settings and ACLs.

It asks both clusters and carries out what `rules.py` decides. It never deletes a topic, a partition
or an ACL.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...client.admin.acl_types import AclFilter, AclResource
from ...client.admin.admin import Admin
from ...client.admin.config_types import ConfigResource
from ...client.admin.topic_types import NewTopic, TopicDescription
from ...client.errors import AdminError
from ...protocol.acls import ANY
from ...protocol.errors import ApiError, ErrorCode
from ...protocol.messages.list_offsets import LATEST_TIMESTAMP
from ...protocol.types import TopicPartition
from .rules import FlowRules
from .upkeep import Upkeep, make_topics

log = logging.getLogger(__name__)

TOPIC_ACLS = AclFilter(AclResource.TOPIC, None, ANY, None, None, ANY, ANY)

NOT_THERE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION)


async def described(admin: Admin, names: Iterable[str]) -> dict[str, TopicDescription]:
    """Describe those of the topics that exist; raise AdminError if others are refused.

    A name that no topic can have, such as one that is too long, does not exist.
    """
    wanted = list(names)
    if not wanted:
        return {}
    try:
        return await admin.describe_topics(wanted)
    except AdminError as error:
        if any(one.code not in NOT_THERE for one in error.errors.values()):
            raise
        rest = [name for name in wanted if name not in error.errors]
        return await admin.describe_topics(rest) if rest else {}


async def ends_of(admin: Admin, wanted: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the log ends of those of the partitions that exist."""
    found = await described(admin, dict.fromkeys(topic for topic, _ in wanted))
    there = {
        at: LATEST_TIMESTAMP
        for at in wanted
        if at.topic in found and at.partition < len(found[at.topic].partitions)
    }
    listed = await admin.list_offsets(there) if there else {}
    return {at: each.offset for at, each in listed.items()}


def _counts(found: dict[str, TopicDescription]) -> dict[str, int]:
    return {name: len(each.partitions) for name, each in found.items()}


class TopicSync:
    """Keeps the target's topics as the source's are."""

    def __init__(self, upkeep: Upkeep, rules: FlowRules, settings: dict[str, Any]) -> None:
        self._source, self._target = upkeep.source, upkeep.target
        self._rules = rules
        self._replicas: int = settings["replication.factor"]
        self._topics: list[str] = []
        """The mirrored topics, by their names at the source."""

    async def partitions(self) -> list[TopicPartition]:
        """Make what is missing at the target, and return the source's partitions that are there.

        A topic that the target refuses to make is logged and left out.
        """
        listed = await self._source.list_topics()
        names = [each.name for each in listed if self._rules.mirrors(each.name)]
        source = _counts(await described(self._source, names))
        self._topics = sorted(source)
        remote = {self._rules.remote(name): name for name in self._topics}
        target = _counts(await described(self._target, remote))
        plan = self._rules.plan(source, target)
        if plan.new:
            made = await self._make(plan.new)
            await self._sync_configs([remote[name] for name in made])
            missing = {remote[name] for name in plan.new if name not in made}
            self._topics = [name for name in self._topics if name not in missing]
        if plan.grown:
            await self._target.create_partitions(plan.grown)
            log.info("more partitions: %s", dict(plan.grown))
        return [
            TopicPartition(name, index) for name in self._topics for index in range(source[name])
        ]

    async def _make(self, topics: Mapping[str, int]) -> list[str]:
        """Make topics with so many partitions, and return those that are there then."""
        refused: Mapping[str, ApiError] = {}
        try:
            await make_topics(
                self._target, [NewTopic(*each, self._replicas) for each in topics.items()]
            )
        except AdminError as error:
            refused = error.errors
            log.warning("topics that cannot be mirrored: %s", error)
        made = [name for name in topics if name not in refused]
        if made:
            log.info("created %s", ", ".join(made))
        return made

    async def sync_configs(self) -> None:
        """Give the target's topics the settings of the source's; see FlowRules.config_changes."""
        await self._sync_configs(self._topics)

    async def _sync_configs(self, topics: Sequence[str]) -> None:
        if not topics:
            return
        remote = {name: ConfigResource.topic(self._rules.remote(name)) for name in topics}
        source = await self._source.describe_configs([ConfigResource.topic(t) for t in topics])
        target = await self._target.describe_configs(remote.values())
        changes = {
            resource: self._rules.config_changes(
                source[ConfigResource.topic(name)], target[resource]
            )
            for name, resource in remote.items()
        }
        wanted = {resource: each for resource, each in changes.items() if each}
        if wanted:
            await self._target.incremental_alter_configs(wanted)

    async def sync_acls(self) -> None:
        """Give the target's topics the ACLs of the source's; a cluster without ACLs has none."""
        try:
            source = await self._source.describe_acls(TOPIC_ACLS)
            target = await self._target.describe_acls(TOPIC_ACLS)
        except ApiError as error:
            if error.code is not ErrorCode.SECURITY_DISABLED:
                raise
            return
        missing = self._rules.acls(source, target)
        if missing:
            await self._target.create_acls(missing)
