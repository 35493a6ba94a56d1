"""The configuration keys of MM2's connectors: Kafka's names and defaults, and two of ours.

Beside them a connector takes settings of clients: `source.cluster.X` and `target.cluster.X` for all
of an end, `consumer.X`, `producer.X`, `admin.X` for a kind, `source.consumer.X` and so on for both.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ...client.config import KNOWN_UNUSED, AdminConfig, ConsumerConfig, ProducerConfig
from ...runtime.config import settings_of
from ..config_def import NO_DEFAULT, ConfigDef, ConfigKey, ConfigType, Importance
from .patterns import pattern_of
from .policy import DEFAULT, POLICIES, class_of


def _key(kind: ConfigType, importance: Importance) -> Callable[..., ConfigKey]:
    def make(name: str, default: Any, doc: str, **more: Any) -> ConfigKey:
        return ConfigKey(name, kind, doc, default, importance, **more)

    return make


_text = _key(ConfigType.STRING, Importance.HIGH)
_names = _key(ConfigType.LIST, Importance.HIGH)
_flag = _key(ConfigType.BOOLEAN, Importance.LOW)
_number = _key(ConfigType.LONG, Importance.LOW)
_short = _key(ConfigType.SHORT, Importance.LOW)


def _timed(name: str, default: bool, seconds: int, doc: str) -> list[ConfigKey]:
    return [
        _flag(f"{name}.enabled", default, doc),
        _number(
            f"{name}.interval.seconds", seconds, f"Seconds between two rounds: {doc}", at_least=1
        ),
    ]


def _replicas(topic: str) -> ConfigKey:
    doc = "Replicas of that topic; -1 leaves it to the cluster."
    return _short(f"{topic}.topic.replication.factor", 3, doc, at_least=-1)


def _policy_error(text: str) -> str | None:
    return None if class_of(text) in POLICIES else f"known are {' and '.join(POLICIES)}"


def _pattern_error(names: Sequence[str]) -> str | None:
    try:
        pattern_of(names)
    except ValueError as error:
        return str(error)
    return None


_patterns = partial(_key(ConfigType.LIST, Importance.HIGH), check=_pattern_error)


COMMON = ConfigDef(
    [
        _text("source.cluster.alias", NO_DEFAULT, "The name of the source in names of topics."),
        _text("target.cluster.alias", "target", "The name of the target."),
        _names("source.cluster.bootstrap.servers", NO_DEFAULT, "Brokers of the source."),
        _names("target.cluster.bootstrap.servers", NO_DEFAULT, "Brokers of the target."),
        _flag("enabled", True, "Mirror from the source to the target."),
        _text(
            "replication.policy.class",
            DEFAULT,
            "How mirrored topics are named: DefaultReplicationPolicy (source.topic) or "
            "IdentityReplicationPolicy (topic).",
            check=_policy_error,
        ),
        _text("replication.policy.separator", ".", "What stands between alias and topic."),
        _flag(
            "replication.policy.internal.topic.separator.enabled",
            True,
            "Use that separator in the names of MM2's own topics too.",
        ),
        _text(
            "offset-syncs.topic.location",
            "source",
            "The end of the flow that holds the topic of offset syncs.",
            choices=("source", "target"),
        ),
        _replicas("offset-syncs"),
        _flag("emit.offset-syncs.enabled", True, "Write where records of the source are."),
        _number(
            "admin.timeout.ms", 60_000, "The longest that a call of an admin takes.", at_least=1
        ),
    ]
)

TOPICS = ConfigDef(
    [
        _patterns("topics", [".*"], "Topics to mirror: names and regular expressions."),
        _patterns(
            "topics.exclude",
            [r"mm2.*\.internal", r".*\.replica", "__.*"],
            "Topics not to mirror; they take precedence.",
        ),
    ]
)

SOURCE = (
    COMMON
    + TOPICS
    + ConfigDef(
        [
            _patterns(
                "config.properties.exclude",
                [
                    r"follower\.replication\.throttled\.replicas",
                    r"leader\.replication\.throttled\.replicas",
                    r"message\.timestamp\.difference\.max\.ms",
                    r"message\.timestamp\.type",
                    r"unclean\.leader\.election\.enable",
                    r"min\.insync\.replicas",
                ],
                "Settings of topics that are not mirrored.",
            ),
            *_timed("refresh.topics", True, 600, "Look for new topics and partitions."),
            *_timed("sync.topic.configs", True, 600, "Give mirrored topics the source's settings."),
            *_timed("sync.topic.acls", True, 600, "Give mirrored topics the source's ACLs."),
            _number("replication.factor", 2, "Replicas of mirrored topics; -1: the default there."),
            _number(
                "offset.lag.max",
                100,
                "The most records that a group may read again because of an old sync.",
                at_least=0,
            ),
            _flag("heartbeats.replication.enabled", True, "Mirror the topics of heartbeats."),
            _number(
                "consumer.poll.timeout.ms", 1000, "The longest wait for new records.", at_least=1
            ),
            _text(
                "on.gap",
                "fail",
                "What is done if the source lacks records that were not mirrored, or its topic was "
                "made anew: fail, or go on at the earliest or latest record.",
                choices=("fail", "earliest", "latest"),
            ),
            _flag(
                "mirror.provenance.header",
                False,
                "Name in a header the clusters that a record has passed, and mirror no record to "
                "one of them: no loops without names of topics that tell them.",
            ),
        ]
    )
)

CHECKPOINT = (
    COMMON
    + TOPICS
    + ConfigDef(
        [
            _patterns("groups", [".*"], "Groups whose offsets are mirrored."),
            _patterns(
                "groups.exclude",
                ["console-consumer-.*", "connect-.*", "__.*"],
                "Groups that are not; they take precedence.",
            ),
            *_timed("refresh.groups", True, 600, "Look for new groups."),
            *_timed("emit.checkpoints", True, 60, "Write translated offsets of groups."),
            *_timed("sync.group.offsets", False, 60, "Commit them for idle groups at the target."),
            _replicas("checkpoints"),
        ]
    )
)

HEARTBEAT = COMMON + ConfigDef(
    [*_timed("emit.heartbeats", True, 1, "Write heartbeats."), _replicas("heartbeats")]
)

ALL_KEYS = {key: None for table in (SOURCE, CHECKPOINT, HEARTBEAT) for key in table.keys}
"""The keys of the three connectors."""

TABLES = {"consumer": ConsumerConfig, "producer": ProducerConfig, "admin": AdminConfig}


def client_settings(props: Mapping[str, str], end: str, kind: str) -> dict[str, str]:
    """Return the settings of a client, by Kafka's names.

    `end` is `source` or `target`, `kind` one of TABLES. Of the settings of a whole end, those that
    such a client does not have are left out; the narrower prefix counts for more.
    """
    known = {row.key for row in settings_of(TABLES[kind])} | KNOWN_UNUSED.keys()
    found = {key: value for key, value in _below(f"{end}.cluster.", props).items() if key in known}
    found.setdefault("client.id", f"mirror-{end}-{kind}")
    for prefix in (f"{kind}.", f"{end}.{kind}."):
        found |= _below(prefix, props)
    return found


def _below(prefix: str, props: Mapping[str, str]) -> dict[str, str]:
    below = {key[len(prefix) :]: key for key in props if key.startswith(prefix)}
    return {
        name: props[key]
        for name, key in below.items()
        if key not in ALL_KEYS or name == "bootstrap.servers"
    }
