"""The group coordinator's configuration, under Kafka's keys."""

from ....runtime.config import INT32_MAX, MiB, config_table, setting
from ....runtime.errors import ConfigError


@config_table
class GroupConfig:
    """The settings of groups and committed offsets."""

    group_min_session_timeout_ms: int = setting(
        "group.min.session.timeout.ms",
        6_000,
        at_least=1,
        at_most=INT32_MAX,
        doc="The shortest session timeout that a member may ask for; short ones cost heartbeats.",
    )
    group_max_session_timeout_ms: int = setting(
        "group.max.session.timeout.ms",
        1_800_000,
        at_least=1,
        at_most=INT32_MAX,
        doc="The longest session timeout that a member may ask for; if it dies, its partitions "
        "are not read for so long.",
    )
    group_initial_rebalance_delay_ms: int = setting(
        "group.initial.rebalance.delay.ms",
        3_000,
        at_least=0,
        at_most=INT32_MAX,
        doc="How long the first rebalance of an empty group waits for more members. With 0 it does "
        "not wait, and each further member causes another rebalance.",
    )
    group_max_size: int = setting(
        "group.max.size",
        INT32_MAX,
        at_least=1,
        at_most=INT32_MAX,
        doc="The most members of one group; one more is refused.",
    )
    offset_metadata_max_bytes: int = setting(
        "offset.metadata.max.bytes",
        4_096,
        at_least=0,
        at_most=INT32_MAX,
        doc="The most characters of metadata committed with an offset; longer ones are refused.",
    )
    offsets_commit_timeout_ms: int = setting(
        "offsets.commit.timeout.ms",
        5_000,
        at_least=1,
        at_most=INT32_MAX,
        doc="How long a commit may wait until the replicas of `__consumer_offsets` have it.",
    )
    offsets_retention_minutes: int = setting(
        "offsets.retention.minutes",
        10_080,
        at_least=1,
        at_most=INT32_MAX,
        doc="How long unused offsets are kept, counted from when the group became empty, or from "
        "the commit if the group never had members.",
    )
    offsets_retention_check_interval_ms: int = setting(
        "offsets.retention.check.interval.ms",
        600_000,
        at_least=1,
        doc="How often the broker looks for unused offsets to delete.",
    )
    offsets_topic_num_partitions: int = setting(
        "offsets.topic.num.partitions",
        50,
        at_least=1,
        at_most=10_000,
        doc="Partitions of `__consumer_offsets`; without effect once it exists.",
    )
    offsets_topic_replication_factor: int = setting(
        "offsets.topic.replication.factor",
        3,
        at_least=1,
        at_most=32767,
        doc="Replicas of `__consumer_offsets`; with fewer live brokers no group can begin.",
    )
    offsets_topic_segment_bytes: int = setting(
        "offsets.topic.segment.bytes",
        100 * MiB,
        at_least=1024,
        at_most=INT32_MAX,
        doc="Segment size of `__consumer_offsets`; with smaller segments it is compacted sooner, "
        "and so loaded faster.",
    )

    def check(self) -> None:
        """Raise ConfigError if the shortest session timeout exceeds the longest."""
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            why = "must not exceed group.max.session.timeout.ms"
            value = self.group_min_session_timeout_ms
            raise ConfigError("group.min.session.timeout.ms", value, why)
