"""The names of mirrored topics and of MM2's own topics, and the cluster that a topic comes from.

The rules are those of DefaultReplicationPolicy and IdentityReplicationPolicy (KIP-382, KIP-690).
"""

from typing import Any

HEARTBEATS = "heartbeats"


class DefaultPolicy:
    """Puts the source's alias before the name: `orders` of A is `A.orders` at the target."""

    def __init__(self, separator: str = ".", *, is_separator_internal: bool = True) -> None:
        self._separator = separator
        internal = separator if is_separator_internal else "."
        self._internal = internal
        self._internal_suffix = f"{internal}internal"

    def remote(self, source: str, topic: str) -> str:
        """Return the name at the target of a topic of cluster `source`."""
        return f"{source}{self._separator}{topic}"

    def source_of(self, topic: str) -> str | None:
        """Return the alias of the cluster that a topic was mirrored from; None if it was not."""
        head, _, rest = topic.partition(self._separator)
        return head if rest.replace(self._separator, "") else None

    def upstream(self, topic: str) -> str | None:
        """Return a mirrored topic's name in the cluster that it comes from; None if of none."""
        source = self.source_of(topic)
        return None if source is None else topic[len(source) + len(self._separator) :]

    def is_heartbeats(self, topic: str) -> bool:
        """True of the topic of heartbeats, and of its mirrors over any number of hops."""
        upstream = self.upstream(topic)
        while upstream is not None and upstream != topic:
            topic, upstream = upstream, self.upstream(upstream)
        return topic == HEARTBEATS

    def is_internal(self, topic: str) -> bool:
        """True of topics that are never mirrored: of Kafka, of Connect, of MM2."""
        endings = (self._internal_suffix, "-internal", ".internal")
        return topic.startswith(("__", ".")) or topic.endswith(endings)

    def is_cycle(self, topic: str, target: str) -> bool:
        """True if the topic has passed through cluster `target`, as its name tells."""
        separator = self._separator
        _, _, rest = f"{separator}{topic}".partition(f"{separator}{target}{separator}")
        return bool(rest.replace(separator, ""))

    def offset_syncs(self, cluster: str) -> str:
        """Return the topic of offset syncs that concern `cluster`, the other end of the flow."""
        return f"mm2-offset-syncs{self._internal}{cluster}{self._internal_suffix}"

    def checkpoints(self, source: str) -> str:
        """Return the topic, at the target, of the checkpoints of groups of `source`."""
        return f"{source}{self._internal}checkpoints{self._internal_suffix}"


class IdentityPolicy(DefaultPolicy):
    """Keeps the names of topics, but for heartbeats. Names then tell nothing of loops."""

    def __init__(
        self, source: str, separator: str = ".", *, is_separator_internal: bool = True
    ) -> None:
        super().__init__(separator, is_separator_internal=is_separator_internal)
        self._source = source

    def remote(self, source: str, topic: str) -> str:
        """Return `topic`; of heartbeats, the name under the default policy."""
        return super().remote(source, topic) if topic.endswith(HEARTBEATS) else topic

    def source_of(self, topic: str) -> str | None:
        """Return the flow's source, which any topic may come from; of heartbeats, the real one."""
        return super().source_of(topic) if topic.endswith(HEARTBEATS) else self._source

    def upstream(self, topic: str) -> str | None:
        """Return `topic`; of heartbeats, the name under the default policy."""
        return super().upstream(topic) if topic.endswith(HEARTBEATS) else topic

    def is_cycle(self, topic: str, target: str) -> bool:
        """True of heartbeats that have passed through cluster `target`."""
        return topic.endswith(HEARTBEATS) and super().is_cycle(topic, target)


DEFAULT = "DefaultReplicationPolicy"
IDENTITY = "IdentityReplicationPolicy"
POLICIES = (DEFAULT, IDENTITY)


def class_of(name: str) -> str:
    """Return the name of a policy's class without its package."""
    return name.strip().rpartition(".")[2]


def policy_of(settings: dict[str, Any]) -> DefaultPolicy:
    """Return the policy of a connector's parsed configuration."""
    separator = settings["replication.policy.separator"]
    is_internal = settings["replication.policy.internal.topic.separator.enabled"]
    if class_of(settings["replication.policy.class"]) == DEFAULT:
        return DefaultPolicy(separator, is_separator_internal=is_internal)
    source = settings["source.cluster.alias"]
    return IdentityPolicy(source, separator, is_separator_internal=is_internal)


def offset_syncs_of(settings: dict[str, Any]) -> tuple[str, str]:
    """Return the end that holds the offset syncs of a flow, `source` or `target`, and the topic."""
    end = settings["offset-syncs.topic.location"]
    other = "target" if end == "source" else "source"
    return end, policy_of(settings).offset_syncs(settings[f"{other}.cluster.alias"])
