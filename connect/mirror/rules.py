"""Rules of a flow: which topics are mirrored, and what of their settings and ACLs.

Decisions only: `topics.py` asks the clusters and carries them out.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ...client.admin.acl_types import Acl, AclOperation, AclPattern, AclPermission, AclResource
from ...client.admin.config_types import ConfigChange, ConfigEntry
from ...protocol.messages.describe_configs import ConfigSource
from ...protocol.messages.incremental_alter_configs import ConfigOperation
from .patterns import NameFilter, pattern_of
from .policy import DefaultPolicy, policy_of

EVERY = "*"
"""Names all topics in a literal entry."""


@dataclass(frozen=True)
class TopicPlan:
    """Partitions to make at the target, as the total number of each topic."""

    new: Mapping[str, int]
    """By remote name, topics that are not there."""
    grown: Mapping[str, int]
    """By remote name, topics with too few partitions."""


class FlowRules:
    """The rules of a MirrorSource connector."""

    def __init__(self, settings: dict[str, Any]) -> None:
        """Take the parsed configuration."""
        self.source: str = settings["source.cluster.alias"]
        self.target: str = settings["target.cluster.alias"]
        self.policy: DefaultPolicy = policy_of(settings)
        self._topics = NameFilter(settings, "topics")
        self._configs = pattern_of(settings["config.properties.exclude"])
        self._has_heartbeats: bool = settings["heartbeats.replication.enabled"]

    def mirrors(self, topic: str) -> bool:
        """True if a topic of the source is mirrored: wanted, not internal, not from the target."""
        policy = self.policy
        is_wanted = self._topics.takes(topic) or (
            self._has_heartbeats and policy.is_heartbeats(topic)
        )
        return (
            is_wanted and not policy.is_internal(topic) and not policy.is_cycle(topic, self.target)
        )

    def remote(self, topic: str) -> str:
        """Return the name at the target of a topic of the source."""
        return self.policy.remote(self.source, topic)

    def plan(self, source: Mapping[str, int], target: Mapping[str, int]) -> TopicPlan:
        """Compare partitions of mirrored topics, by name, with those at the target.

        Partitions are only ever added.
        """
        wanted = {self.remote(topic): count for topic, count in source.items()}
        return TopicPlan(
            {name: count for name, count in wanted.items() if name not in target},
            {name: count for name, count in wanted.items() if 0 < target.get(name, 0) < count},
        )

    def config_changes(
        self, source: Mapping[str, ConfigEntry], target: Mapping[str, ConfigEntry]
    ) -> list[ConfigChange]:
        """Return what makes the target's settings of a topic those of the source.

        Only what is set for the topic itself counts; the rest is each cluster's own default. A
        setting that the target does not know is left out.
        """
        changes = []
        for name, entry in source.items():
            other = target.get(name)
            if other is None or entry.is_read_only or entry.is_sensitive or not self._syncs(name):
                continue
            wanted, found = _own(entry), _own(other)
            if wanted is not None and wanted != found:
                changes.append(ConfigChange(name, wanted))
            elif wanted is None and found is not None:
                changes.append(ConfigChange(name, None, ConfigOperation.DELETE))
        return changes

    def _syncs(self, setting: str) -> bool:
        return self._configs is None or not self._configs.fullmatch(setting)

    def acls(self, source: Iterable[Acl], target: Iterable[Acl]) -> list[Acl]:
        """Return the entries that the target lacks of the mirrored topics' own entries.

        Entries for all topics of a cluster are no topic's own. What allows to write is left out,
        and what allows everything becomes leave to read, since only the mirror writes there.
        """
        wanted = [
            self._remote_acl(acl)
            for acl in source
            if acl.resource_type == AclResource.TOPIC
            and acl.pattern_type == AclPattern.LITERAL
            and acl.resource_name != EVERY
            and self.mirrors(acl.resource_name)
            and (acl.permission, acl.operation) != (AclPermission.ALLOW, AclOperation.WRITE)
        ]
        there = set(target)
        return [acl for acl in dict.fromkeys(wanted) if acl not in there]

    def _remote_acl(self, acl: Acl) -> Acl:
        is_all = (acl.permission, acl.operation) == (AclPermission.ALLOW, AclOperation.ALL)
        return Acl(
            acl.resource_type,
            self.remote(acl.resource_name),
            acl.pattern_type,
            acl.principal,
            acl.host,
            AclOperation.READ if is_all else acl.operation,
            acl.permission,
        )


def _own(entry: ConfigEntry) -> str | None:
    is_own = entry.source is ConfigSource.TOPIC_CONFIG
    return entry.value if is_own else None
