"""The settings of the rates at which a broker transfers what is in no hurry."""

from ...runtime.config import INT64_MAX, config_table, setting


@config_table
class RateConfig:
    """The bounds on bytes per second of one broker, which `Throttles` holds."""

    leader_replication_throttled_rate: int = setting(
        "leader.replication.throttled.rate",
        INT64_MAX,
        at_least=0,
        dynamic=True,
        doc="The most bytes per second that leaders send of throttled replicas to "
        "followers out of sync.",
    )
    follower_replication_throttled_rate: int = setting(
        "follower.replication.throttled.rate",
        INT64_MAX,
        at_least=0,
        dynamic=True,
        doc="The most bytes per second that throttled replicas fetch while they are out of sync.",
    )
    replica_alter_log_dirs_io_max_bytes_per_second: int = setting(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        INT64_MAX,
        at_least=0,
        dynamic=True,
        doc="The most bytes per second that are copied of replicas that move from one of "
        "`log.dirs` to another, all of them together.",
    )
    forward_rate_bytes: int = setting(
        "minikafka.forward.rate.bytes",
        INT64_MAX,
        at_least=1,
        dynamic=True,
        doc="The most bytes per second that this broker forwards from delay topics and by rules, so"
        " that what is due at once leaves room for producers. The sources take turns.",
    )
