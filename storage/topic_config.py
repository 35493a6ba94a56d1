"""The settings of a topic: Kafka's keys, their bounds and their consequences.

The controller checks settings by this table, and the broker's logs obey them. The broker applies
its own defaults (`log.*`) where a topic has no setting.
"""

from functools import partial

from ..protocol.delays import IMMEDIATE, DelayRule
from ..runtime import config
from ..runtime.config import INT32_MAX, INT64_MAX, GiB, MiB, config_table, part
from ..runtime.errors import ConfigError
from .delay_config import DAY_MS, DelayConfig
from .route_config import RouteConfig
from .ttl_config import TtlConfig

COMPRESSIONS = ("producer", "uncompressed", "none", "gzip", "snappy", "lz4", "zstd")
WITHOUT_EFFECT: dict[str, str] = dict.fromkeys(
    (
        "local.retention.bytes",
        "local.retention.ms",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
    ),
    "there is no tiered storage",
)
"""Keys of features that this broker does not have, and why they have no effect. They are accepted
so that topics with Kafka's own configurations can be created."""
setting = partial(config.setting, dynamic=True)
"""Declares a setting of a topic; all of them can change while the topic's logs are open."""


@config_table
class TopicConfig:
    """The settings of one topic."""

    cleanup_policy: tuple[str, ...] = setting(
        "cleanup.policy",
        ("delete",),
        choices=("delete", "compact"),
        doc="delete removes old segments by age and size; compact keeps each key's newest record.",
    )
    compression_type: str = setting(
        "compression.type",
        "producer",
        choices=COMPRESSIONS,
        doc="Accepted without effect: batches are stored as the producer compressed them.",
    )
    delete_retention_ms: int = setting(
        "delete.retention.ms",
        DAY_MS,
        at_least=0,
        doc="How long compaction keeps the tombstone of a deleted key for readers that lag.",
    )
    file_delete_delay_ms: int = setting(
        "file.delete.delay.ms",
        60_000,
        at_least=0,
        doc="Accepted without effect: a segment's files are deleted at once.",
    )
    flush_messages: int = setting(
        "flush.messages",
        INT64_MAX,
        at_least=1,
        doc="A flush begins at this many unflushed records; no request waits for it.",
    )
    flush_ms: int = setting(
        "flush.ms",
        INT64_MAX,
        at_least=0,
        doc="Records that have been unflushed for this long are flushed. Replication "
        "protects data, not the flush.",
    )
    follower_replication_throttled_replicas: tuple[str, ...] = setting(
        "follower.replication.throttled.replicas",
        (),
        doc="partition:broker,... or * for the replicas that fetch within "
        "follower.replication.throttled.rate.",
    )
    flush_policy: str = setting(
        "flush.policy",
        "none",
        choices=("none", "group"),
        doc="With group, acks=1 waits for an fdatasync on the leader, acks=all for one on "
        "every in-sync replica.",
    )
    index_interval_bytes: int = setting(
        "index.interval.bytes",
        4096,
        at_least=0,
        at_most=INT32_MAX,
        doc="Bytes of log between two index entries. Smaller values make searches shorter "
        "and indexes larger.",
    )
    leader_replication_throttled_replicas: tuple[str, ...] = setting(
        "leader.replication.throttled.replicas",
        (),
        doc="partition:broker,... or * for the replicas served within "
        "leader.replication.throttled.rate.",
    )
    local_retention_bytes: int = setting(
        "local.retention.bytes",
        -2,
        at_least=-2,
        doc="Accepted without effect: without tiered storage, retention.bytes decides.",
    )
    local_retention_ms: int = setting(
        "local.retention.ms",
        -2,
        at_least=-2,
        doc="Accepted without effect: without tiered storage, retention.ms decides.",
    )
    max_compaction_lag_ms: int = setting(
        "max.compaction.lag.ms",
        INT64_MAX,
        at_least=1,
        doc="A record is compacted at the latest this long after it was written.",
    )
    max_message_bytes: int = setting(
        "max.message.bytes",
        MiB + 12,
        at_least=0,
        at_most=INT32_MAX,
        doc="Larger batches are refused with MESSAGE_TOO_LARGE.",
    )
    message_timestamp_after_max_ms: int = setting(
        "message.timestamp.after.max.ms",
        INT64_MAX,
        at_least=0,
        doc="Records this far ahead of the broker's clock are refused.",
    )
    message_timestamp_before_max_ms: int = setting(
        "message.timestamp.before.max.ms",
        INT64_MAX,
        at_least=0,
        doc="Records this far behind the broker's clock are refused.",
    )
    message_timestamp_type: str = setting(
        "message.timestamp.type",
        "CreateTime",
        choices=("CreateTime", "LogAppendTime"),
        doc="LogAppendTime: the broker's clock replaces the producer's timestamps.",
    )
    min_cleanable_dirty_ratio: float = setting(
        "min.cleanable.dirty.ratio",
        0.5,
        at_least=0,
        at_most=1,
        doc="Compact when this share of the log is not yet compacted.",
    )
    min_compaction_lag_ms: int = setting(
        "min.compaction.lag.ms",
        0,
        at_least=0,
        doc="A record is not compacted earlier than this after it was written.",
    )
    min_insync_replicas: int = setting(
        "min.insync.replicas",
        2,
        at_least=1,
        at_most=INT32_MAX,
        doc="With fewer replicas in sync, writes with acks=all are refused, and the high "
        "watermark does not advance.",
    )
    preallocate: bool = setting(
        "preallocate",
        False,
        doc="Accepted without effect: files grow as they are written.",
    )
    remote_log_copy_disable: bool = setting(
        "remote.log.copy.disable",
        False,
        doc="Accepted without effect: there is no tiered storage to copy to.",
    )
    remote_log_delete_on_disable: bool = setting(
        "remote.log.delete.on.disable",
        False,
        doc="Accepted without effect: there is no tiered storage to delete from.",
    )
    remote_storage_enable: bool = setting(
        "remote.storage.enable",
        False,
        doc="Must be false: there is no tiered storage.",
    )
    records_validation: str = setting(
        "minikafka.records.validation",
        "auto",
        choices=("auto", "batch", "structure", "full"),
        doc="batch checks a batch's header, structure also uncompressed records, full all records."
        " auto is structure with the compiled codec, else batch.",
    )
    retention_bytes: int = setting(
        "retention.bytes",
        -1,
        at_least=-1,
        doc="Delete a partition's oldest segments while it is larger than this; -1 means no limit.",
    )
    retention_ms: int = setting(
        "retention.ms",
        7 * DAY_MS,
        at_least=-1,
        doc="Delete segments whose newest record is older than this; -1 means never.",
    )
    segment_bytes: int = setting(
        "segment.bytes",
        GiB,
        at_least=14,
        at_most=INT32_MAX,
        doc="A new segment begins at this size. Larger segments make recovery slower and "
        "retention coarser.",
    )
    segment_index_bytes: int = setting(
        "segment.index.bytes",
        10 * MiB,
        at_least=4,
        at_most=INT32_MAX,
        doc="A new segment begins when an index of the newest one would grow past this size.",
    )
    segment_jitter_ms: int = setting(
        "segment.jitter.ms",
        0,
        at_least=0,
        doc="A new segment begins earlier than segment.ms by a random time up to this, so "
        "that logs do not roll together.",
    )
    segment_ms: int = setting(
        "segment.ms",
        7 * DAY_MS,
        at_least=1,
        doc="A new segment begins when the newest one's timestamps span more than this.",
    )
    unclean_leader_election_enable: bool = setting(
        "unclean.leader.election.enable",
        False,
        doc="If true, a replica that lacks acknowledged records may lead when no other can.",
    )
    delay: DelayConfig = part(DelayConfig)
    route: RouteConfig = part(RouteConfig)
    ttl: TtlConfig = part(TtlConfig)

    @property
    def is_source(self) -> bool:
        """True if records of the topic are forwarded, when they are due or by rules."""
        return self.delay.is_on or self.route.is_on

    @property
    def forwarding_rule(self) -> DelayRule | None:
        """When records of the topic are forwarded; None if they are not."""
        rule = self.delay.rule
        return DelayRule(IMMEDIATE) if rule is None and self.route.is_on else rule

    @property
    def is_compacted(self) -> bool:
        """True if the newest record of each key is kept, so that every record must have a key."""
        return "compact" in self.cleanup_policy

    @property
    def is_deleted(self) -> bool:
        """True if old segments are deleted by age and size."""
        return "delete" in self.cleanup_policy

    @property
    def is_group_flush(self) -> bool:
        """True if a replica's records count as replicated only once they are on stable storage."""
        return self.flush_policy == "group"

    @property
    def is_log_append_time(self) -> bool:
        """True if the broker's clock replaces the producer's timestamps."""
        return self.message_timestamp_type == "LogAppendTime"

    def check(self) -> None:
        """Raise ConfigError if settings contradict each other."""
        if not self.cleanup_policy:
            raise ConfigError("cleanup.policy", "", "must be delete, compact or both")
        if self.remote_storage_enable:
            why = "Tiered Storage functionality is disabled in the broker. "
            why += "Topic cannot be configured with remote log storage."
            raise ConfigError("remote.storage.enable", "true", why)
        for side, replicas in (
            ("leader", self.leader_replication_throttled_replicas),
            ("follower", self.follower_replication_throttled_replicas),
        ):
            key = f"{side}.replication.throttled.replicas"
            if replicas != ("*",) and not all(map(_is_replica, replicas)):
                raise ConfigError(key, ",".join(replicas), "must be partition:broker,... or *")
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            raise ConfigError(
                "min.compaction.lag.ms",
                self.min_compaction_lag_ms,
                f"must not exceed max.compaction.lag.ms={self.max_compaction_lag_ms}",
            )
        self.delay.check_with(
            is_compacted=self.is_compacted, is_log_append_time=self.is_log_append_time
        )
        self.route.check_with(is_compacted=self.is_compacted)
        self.ttl.check_with(delay_target=self.delay.target)


def _is_replica(text: str) -> bool:
    """True if the text is "partition:broker"."""
    partition, colon, broker = text.partition(":")
    return bool(colon) and all(each.isascii() and each.isdigit() for each in (partition, broker))
