"""The settings of a delay topic, whose records are forwarded to another topic when they are due."""

from functools import partial

from ..protocol.delays import BY_HEADER, BY_TIMESTAMP, FIXED, DelayRule
from ..protocol.header_targets import BY_HEADER as BY_NAME
from ..protocol.header_targets import check_list
from ..runtime import config
from ..runtime.config import config_table
from ..runtime.errors import ConfigError

HOUR_MS = 60 * 60 * 1000
DAY_MS = 24 * HOUR_MS
DUE, ORIGINAL, NOW = "due", "original", "now"
KEY, SAME, NAMED = "key", "same", "header"
NONE = "none"
LONGEST_MS = 400 * DAY_MS
setting = partial(config.setting, dynamic=True)


@config_table
class DelayConfig:
    """The settings of one delay topic; of a topic without a target they have no effect."""

    target: str = setting(
        "minikafka.delay.target",
        "",
        doc="Makes this a delay topic: each record is forwarded to this topic when it is due; with"
        " header, to the topic that its header minikafka-target names.",
    )
    targets: tuple[str, ...] = setting(
        "minikafka.delay.targets",
        (),
        doc="The topics that records may name with minikafka.delay.target=header: at most 32 names,"
        " and patterns with * and ?. A producer needs WRITE on the topic that its record names.",
    )
    by: str = setting(
        "minikafka.delay.by",
        BY_HEADER,
        choices=(BY_HEADER, BY_TIMESTAMP, FIXED),
        doc="When a record is due. header: at minikafka-deliver-at, or minikafka-delay-ms after its"
        " timestamp; timestamp: at its timestamp; fixed: minikafka.delay.ms after its timestamp.",
    )
    delay_ms: int = setting(
        "minikafka.delay.ms",
        0,
        at_least=0,
        at_most=LONGEST_MS,
        doc="The delay of every record with minikafka.delay.by=fixed.",
    )
    max_ms: int = setting(
        "minikafka.delay.max.ms",
        30 * DAY_MS,
        at_least=0,
        at_most=LONGEST_MS,
        doc="Records that are due later than this from now are refused with INVALID_TIMESTAMP.",
    )
    paused: bool = setting(
        "minikafka.delay.paused",
        False,
        doc="While true, no more records are forwarded; what is due waits.",
    )
    clock_ahead_max_ms: int = setting(
        "minikafka.delay.clock.ahead.max.ms",
        1_000,
        at_least=0,
        doc="A broker whose wall clock is further ahead of the other brokers' forwards nothing:"
        " what is late can be mended, what is early cannot.",
    )
    keep_ms: int = setting(
        "minikafka.delay.keep.ms",
        DAY_MS,
        at_least=0,
        doc="How long forwarded records are kept for inspection, counted from their timestamps. It"
        " replaces retention.ms and retention.bytes; a record that is not forwarded always stays."
        " A segment of which most is over is rewritten without that.",
    )
    timestamp: str = setting(
        "minikafka.delay.timestamp",
        DUE,
        choices=(DUE, ORIGINAL, NOW),
        doc="The timestamp of a forwarded record: when it was due, its own, or when it was planned."
        " With its own, the target's retention may delete it at once.",
    )
    partition: str = setting(
        "minikafka.delay.partition",
        KEY,
        choices=(KEY, SAME, NAMED),
        doc="The partition of a forwarded record in its target: by its key, as Java's default"
        " partitioner does, or the same number, modulo the target's partitions. header: the number"
        " in minikafka-partition, likewise, and by its key without that header.",
    )
    undeliverable_ms: int = setting(
        "minikafka.delay.undeliverable.ms",
        HOUR_MS,
        at_least=0,
        doc="A record whose target is deleted, or forbidden by minikafka.delay.authorize, is tried"
        " for this long before it is a dead letter.",
    )
    authorize: str = setting(
        "minikafka.delay.authorize",
        "",
        doc="A principal such as User:alice, whose right to WRITE to the target is asked each time"
        " that records are due, by the ACLs for all hosts. Empty: only whoever sets the target is"
        " asked, once.",
    )
    replace: str = setting(
        "minikafka.delay.replace",
        NONE,
        choices=(NONE, KEY),
        doc="With key, a newer record of a key takes the place of the one that waits, and one"
        " without a value cancels it. Records without a key always count each.",
    )
    pending_max: int = setting(
        "minikafka.delay.pending.max",
        10_000_000,
        at_least=1,
        at_most=100_000_000,
        doc="Records of one partition that may wait; beyond it producers get POLICY_VIOLATION. From"
        " four fifths on they are held back, up to a second for each request. Each record takes"
        " about 10 bytes of memory on every replica.",
    )
    dead_letters: str = setting(
        "minikafka.deadletter.topic",
        "",
        doc="The topic for records that their target refuses for good. Without it they are tried"
        " again until it takes them, and do not stop other records.",
    )

    buries_expired: bool = setting(
        "minikafka.delay.deadletter.on.expiry",
        False,
        doc="A record that expires before it is forwarded, by minikafka-ttl-ms (from when it is"
        " due) or minikafka-expires-at, is a dead letter instead of being cancelled.",
    )

    @property
    def is_on(self) -> bool:
        """True if the topic is a delay topic."""
        return bool(self.target)

    @property
    def replaces(self) -> bool:
        """True if of each key only the newest record that waits is forwarded."""
        return self.replace == KEY

    @property
    def names_target(self) -> bool:
        """True if each record names its target."""
        return self.target == BY_NAME

    @property
    def rule(self) -> DelayRule | None:
        """How records say when they are due; None if the topic is no delay topic."""
        if not self.target:
            return None
        return DelayRule(
            self.by,
            self.delay_ms,
            self.max_ms,
            self.replaces,
            self.targets if self.names_target else (),
            self.partition == NAMED,
        )

    def check_with(self, *, is_compacted: bool, is_log_append_time: bool) -> None:
        """Raise ConfigError if a setting is wrong, or others do not go with a target."""
        kind, colon, name = self.authorize.partition(":")
        if self.authorize and not (kind and colon and name):
            why = "needs a principal such as User:alice"
            raise ConfigError("minikafka.delay.authorize", self.authorize, why)
        if not self.target:
            return
        key = "minikafka.delay.target"
        if is_compacted:
            raise ConfigError(key, self.target, "a compacted topic cannot be a delay topic")
        if self.names_target:
            try:
                check_list(self.targets)
            except ValueError as error:
                text = ",".join(self.targets)[:80]
                raise ConfigError("minikafka.delay.targets", text, str(error)) from None
        if is_log_append_time and self.by == BY_TIMESTAMP:
            why = "with message.timestamp.type=LogAppendTime producers cannot say when"
            raise ConfigError("minikafka.delay.by", self.by, why)
