"""The group coordinator's configuration, under Kafka's keys."""

from ....runtime.config import INT32_MAX, MiB, config_table, setting
from ....runtime.errors import ConfigError


@config_table
class GroupConfig:
    """Everything about groups and committed offsets."""

    group_min_session_timeout_ms: int = setting(
        "group.min.session.timeout.ms",
        6_000,
        at_least=1,
        at_most=INT32_MAX,
        doc="A member that wants to be given up sooner is refused; short ones cost heartbeats.",
    )
    group_max_session_timeout_ms: int = setting(
        "group.max.session.timeout.ms",
        1_800_000,
        at_least=1,
        at_most=INT32_MAX,
        doc="A member that wants to be given up later is refused; its partitions would wait.",
    )
    group_initial_rebalance_delay_ms: int = setting(
        "group.initial.rebalance.delay.ms",
        3_000,
        at_least=0,
        at_most=INT32_MAX,
        doc="How long the first rebalance of an empty group waits for more members; 0 begins at "
        "once, and again with each that follows.",
    )
    group_max_size: int = setting(
        "group.max.size",
        INT32_MAX,
        at_least=1,
        at_most=INT32_MAX,
        doc="Members of one group; one more is refused.",
    )
    offset_metadata_max_bytes: int = setting(
        "offset.metadata.max.bytes",
        4_096,
        at_least=0,
        at_most=INT32_MAX,
        doc="Characters of text committed with an offset; a longer one is refused.",
    )
    offsets_commit_timeout_ms: int = setting(
        "offsets.commit.timeout.ms",
        5_000,
        at_least=1,
        at_most=INT32_MAX,
        doc="How long a commit may wait for the replicas of `__consumer_offsets`.",
    )
    offsets_retention_minutes: int = setting(
        "offsets.retention.minutes",
        10_080,
        at_least=1,
        at_most=INT32_MAX,
        doc="How long offsets are kept that nobody uses: from the end of the group on, or for "
        "simple consumers from the commit on.",
    )
    offsets_retention_check_interval_ms: int = setting(
        "offsets.retention.check.interval.ms",
        600_000,
        at_least=1,
        doc="How often offsets are looked for that nobody uses.",
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
        doc="Segments of `__consumer_offsets`; smaller ones are compacted, and loaded, sooner.",
    )

    def check(self) -> None:
        """Check the rules that span keys."""
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            why = "must not exceed group.max.session.timeout.ms"
            value = self.group_min_session_timeout_ms
            raise ConfigError("group.min.session.timeout.ms", value, why)
