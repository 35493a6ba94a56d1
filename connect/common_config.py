"""The keys that every source or every sink connector has, beside those of its class.

Pure. Names, types, defaults, groups and order are Kafka's (ConnectorConfig, SourceConnectorConfig,
SinkConnectorConfig of org.apache.kafka.connect.runtime), so that forms look the same.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from .config_def import (
    INT32_MAX,
    NO_DEFAULT,
    BadConfig,
    ConfigDef,
    ConfigKey,
    ConfigType,
    Importance,
    Width,
)

MOST_NAME_BYTES: Final = 2000
"""The longest name of a connector: workers send it to each other in texts of 32 KiB at most."""
COMMON, TRANSFORMS, PREDICATES, ERRORS = "Common", "Transforms", "Predicates", "Error Handling"
TOPIC_CREATION, EXACTLY_ONCE, OFFSETS = "Topic Creation", "Exactly Once Support", "offsets.topic"
_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW


def _name(value: str) -> str | None:
    if not value:
        return "must not be empty"
    if len(value.encode(errors="replace")) > MOST_NAME_BYTES:
        return f"must have at most {MOST_NAME_BYTES} bytes"
    return "must not contain control characters" if re.search(r"[\x00-\x1f\x7f]", value) else None


def _unique(value: list[str]) -> str | None:
    return None if len(dict.fromkeys(value)) == len(value) else "an alias is given twice"


_Rows = tuple[tuple[str, ConfigType, Any, Importance, str, str], ...]


def _key(row: tuple[str, ConfigType, Any, Importance, str, str], order: int) -> ConfigKey:
    name, kind, default, importance, group, doc = row
    limits = _LIMITS.get(name, {})
    return ConfigKey(
        name,
        kind,
        doc,
        default,
        importance,
        group=group,
        order=order,
        width=Width.MEDIUM if kind in (ConfigType.STRING, ConfigType.LIST) else Width.SHORT,
        display_name=_DISPLAY.get(name),
        **limits,
    )


_LIMITS: Final[dict[str, dict[str, Any]]] = {
    "name": {"check": _name},
    "tasks.max": {"at_least": 1},
    "transforms": {"check": _unique},
    "predicates": {"check": _unique},
    "tasks.isolation": {"choices": ("thread", "process")},
    "errors.retry.timeout": {"at_least": -1},
    "errors.retry.delay.max.ms": {"at_least": -1},
    "errors.tolerance": {"choices": ("none", "all")},
    "errors.deadletterqueue.topic.replication.factor": {"at_least": -1, "at_most": 32_767},
    "exactly.once.support": {"choices": ("requested", "required")},
    "transaction.boundary": {"choices": ("poll", "interval", "connector")},
    "transaction.boundary.interval.ms": {"at_least": 1, "at_most": INT32_MAX},
}

_DISPLAY: Final = {
    "name": "Connector name",
    "connector.class": "Connector class",
    "tasks.max": "Tasks max",
    "key.converter": "Key converter class",
    "value.converter": "Value converter class",
    "header.converter": "Header converter class",
    "errors.retry.timeout": "Retry Timeout for Errors",
    "errors.retry.delay.max.ms": "Maximum Delay Between Retries for Errors",
    "errors.tolerance": "Error Tolerance",
    "errors.log.enable": "Log Errors",
    "errors.log.include.messages": "Log Error Details",
    "errors.deadletterqueue.topic.name": "Dead Letter Queue Topic Name",
    "errors.deadletterqueue.topic.replication.factor": "Dead Letter Queue Topic Replication Factor",
    "errors.deadletterqueue.context.headers.enable": "Enable Error Context Headers",
    "topic.creation.groups": "Topic Creation Groups",
    "exactly.once.support": "Exactly once support",
    "transaction.boundary": "Transaction Boundary",
    "transaction.boundary.interval.ms": "Transaction boundary interval",
    "offsets.storage.topic": "Offsets topic",
}

_STRING, _INT, _LONG, _SHORT = ConfigType.STRING, ConfigType.INT, ConfigType.LONG, ConfigType.SHORT
_BOOLEAN, _CLASS, _LIST = ConfigType.BOOLEAN, ConfigType.CLASS, ConfigType.LIST

_BOTH: Final[_Rows] = (
    ("name", _STRING, NO_DEFAULT, _HIGH, COMMON, "The unique name of this connector."),
    (
        "connector.class",
        _STRING,
        NO_DEFAULT,
        _HIGH,
        COMMON,
        "The class of this connector: a built-in, an entry point, module:Class, or Kafka's name.",
    ),
    ("tasks.max", _INT, 1, _HIGH, COMMON, "The most tasks that this connector may have."),
    (
        "tasks.max.enforce",
        _BOOLEAN,
        True,
        _LOW,
        COMMON,
        "Fail a connector that makes more tasks than tasks.max; false only warns.",
    ),
    (
        "tasks.isolation",
        _STRING,
        "thread",
        _LOW,
        COMMON,
        "Run each sync task in a thread of the worker, or in a process of its own.",
    ),
    (
        "key.converter",
        _CLASS,
        None,
        _LOW,
        COMMON,
        "The converter of keys; that of the worker if absent.",
    ),
    (
        "value.converter",
        _CLASS,
        None,
        _LOW,
        COMMON,
        "The converter of values; that of the worker if absent.",
    ),
    (
        "header.converter",
        _CLASS,
        None,
        _LOW,
        COMMON,
        "The converter of headers; that of the worker if absent.",
    ),
    ("transforms", _LIST, [], _LOW, TRANSFORMS, "Aliases of the transformations, in order."),
    ("predicates", _LIST, [], _LOW, PREDICATES, "Aliases of the predicates of transformations."),
    (
        "errors.retry.timeout",
        _LONG,
        0,
        _MEDIUM,
        ERRORS,
        "How long a failed operation is tried again, in ms; 0: not at all, -1: without end.",
    ),
    (
        "errors.retry.delay.max.ms",
        _LONG,
        60_000,
        _MEDIUM,
        ERRORS,
        "The longest wait between two tries, in ms.",
    ),
    (
        "errors.tolerance",
        _STRING,
        "none",
        _MEDIUM,
        ERRORS,
        "With none the first bad record fails its task; with all, bad records are left out.",
    ),
    ("errors.log.enable", _BOOLEAN, False, _MEDIUM, ERRORS, "Log each error of a record."),
    (
        "errors.log.include.messages",
        _BOOLEAN,
        False,
        _MEDIUM,
        ERRORS,
        "Log topic, partition, offset and timestamp of the record with its error.",
    ),
)

_SOURCE: Final[_Rows] = (
    (
        "topic.creation.groups",
        _LIST,
        [],
        _LOW,
        TOPIC_CREATION,
        "Groups of topics to create with settings of their own, beside `default`.",
    ),
    (
        "exactly.once.support",
        _STRING,
        "requested",
        _MEDIUM,
        EXACTLY_ONCE,
        "With required, a connector that cannot read exactly once is refused.",
    ),
    (
        "transaction.boundary",
        _STRING,
        "poll",
        _MEDIUM,
        EXACTLY_ONCE,
        "Where transactions end: after each batch of the task, by time, or where the task says.",
    ),
    (
        "transaction.boundary.interval.ms",
        _LONG,
        None,
        _LOW,
        EXACTLY_ONCE,
        "The time between the ends of transactions; offset.flush.interval.ms if absent.",
    ),
    (
        "offsets.storage.topic",
        _STRING,
        None,
        _LOW,
        OFFSETS,
        "A topic of its own for this connector's offsets.",
    ),
)

_SINK: Final[_Rows] = (
    ("topics", _LIST, [], _HIGH, COMMON, "The topics to read."),
    ("topics.regex", _STRING, "", _HIGH, COMMON, "A pattern that the names of all topics match."),
    (
        "errors.deadletterqueue.topic.name",
        _STRING,
        "",
        _MEDIUM,
        ERRORS,
        "The topic for records that this connector cannot process; empty: none.",
    ),
    (
        "errors.deadletterqueue.topic.replication.factor",
        _SHORT,
        3,
        _MEDIUM,
        ERRORS,
        "Replicas of that topic, if the worker creates it.",
    ),
    (
        "errors.deadletterqueue.context.headers.enable",
        _BOOLEAN,
        False,
        _MEDIUM,
        ERRORS,
        "Add headers that say what went wrong with a record, where and why.",
    ),
)


def _table(rows: _Rows) -> ConfigDef:
    orders: dict[str, int] = {}
    keys = []
    for row in rows:
        orders[row[4]] = orders.get(row[4], 0) + 1
        keys.append(_key(row, orders[row[4]]))
    return ConfigDef(keys)


SOURCE_CONFIG: Final = _table(_BOTH + _SOURCE)
SINK_CONFIG: Final = _table(_BOTH + _SINK)


def check_sink(props: Mapping[str, str]) -> None:
    """Raise BadConfig unless a sink's topics are given in one way, and its DLQ is none of them."""
    topics = [one.strip() for one in props.get("topics", "").split(",") if one.strip()]
    pattern = props.get("topics.regex", "").strip()
    letters = props.get("errors.deadletterqueue.topic.name", "").strip()
    if topics and pattern:
        raise BadConfig("topics and topics.regex are mutually exclusive options, but both are set.")
    if not topics and not pattern:
        raise BadConfig("Must configure one of topics or topics.regex")
    try:
        whole = re.compile(pattern)
    except re.error as error:
        why = f"Invalid value {pattern} for configuration topics.regex: {error}"
        raise BadConfig(why) from None
    matches = letters in topics or bool(pattern and letters and whole.fullmatch(letters))
    if matches:
        raise BadConfig(
            f"The DLQ topic '{letters}' must not be one of the topics that this sink reads"
        )
