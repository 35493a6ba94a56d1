"""The configuration keys of SqlSink, most of them named as those of the JDBC connector."""

from collections.abc import Mapping
from typing import Any

from .database import CONNECTION
from .keys import choice, flag, listed, text, whole
from .ruled import RuledDef

TOPIC = "${topic}"
KAFKA_COLUMNS = ("__connect_topic", "__connect_partition", "__connect_offset")


def _has_topic(text: str) -> str | None:
    parts = text.split(".")
    wrong = len(parts) > 2 or not all(parts) or "$" in text.replace(TOPIC, "")
    return f"must be a table or schema.table, with {TOPIC} for the topic" if wrong else None


def _faults(settings: Mapping[str, Any]) -> Mapping[str, str]:
    mode, fields = settings["pk.mode"], [each for each in settings["pk.fields"] if each]
    faults = {}
    if settings["delete.enabled"] and mode != "record_key":
        faults["delete.enabled"] = "needs pk.mode=record_key"
    if settings["insert.mode"] != "insert" and mode == "none":
        faults["pk.mode"] = f"insert.mode={settings['insert.mode']} needs a primary key"
    if mode == "kafka" and len(fields) not in (0, 3):
        faults["pk.fields"] = "needs three names, or none, with pk.mode=kafka"
    return faults


SQL_SINK = RuledDef(
    [
        *CONNECTION.keys.values(),
        choice(
            "insert.mode",
            "`insert` adds rows; `upsert` replaces those of equal primary key; `update` changes "
            "only rows that exist.",
            ("insert", "upsert", "update"),
        ),
        flag(
            "delete.enabled",
            "A record without a value deletes the row of its key; it needs pk.mode=record_key.",
            False,
        ),
        whole("batch.size", "The most records of one transaction.", 3000, 1),
        whole(
            "max.retries", "How often in a row a batch is tried again while the database fails.", 10
        ),
        whole("retry.backoff.ms", "The wait before that.", 3000),
        text(
            "table.name.format",
            "The table, or schema.table, of a record. `${topic}` is its topic, as a whole: a point "
            "in a topic's name is a part of the table's name.",
            TOPIC,
            check=_has_topic,
        ),
        choice(
            "pk.mode",
            "The primary key: `none`, the record's place (`kafka`), its key (`record_key`) or "
            "fields of its value (`record_value`).",
            ("none", "kafka", "record_key", "record_value"),
        ),
        listed(
            "pk.fields",
            "The columns of the primary key. kafka: three, for topic, partition and offset, or "
            "empty; record_key: the fields of the key, empty for all, or the one name of a key "
            "that is no struct; record_value: fields of the value, empty for all.",
        ),
        listed("fields.whitelist", "The fields of the value that are written; empty: all."),
        flag(
            "auto.create", "Create a table that is not there from the schemas of a record.", False
        ),
        flag(
            "auto.evolve",
            "Add columns for fields that are new and optional. No column is changed or dropped.",
            False,
        ),
        text(
            "offsets.schema",
            "The schema of the table minikafka_connect_offsets; empty: the default one.",
            "",
        ),
    ],
    _faults,
)
