"""The configuration keys of SqlSource, most of them named as those of the JDBC connector."""

from collections.abc import Mapping
from typing import Any

from ..config_def import INT64_MAX, ConfigKey, ConfigType, Importance
from .database import CONNECTION
from .keys import choice, flag, listed, text, whole
from .ruled import RuledDef

MODES = ("bulk", "incrementing", "timestamp", "timestamp+incrementing")


def _faults(settings: Mapping[str, Any]) -> Mapping[str, str]:
    faults = {}
    if "timestamp" in settings["mode"] and not settings["timestamp.column.name"]:
        faults["timestamp.column.name"] = f"needed in mode {settings['mode']}"
    if settings["query"] and table_names(settings):
        faults["query"] = "stands in place of table.whitelist, not beside it"
    needs_number = settings["query"] and "incrementing" in settings["mode"]
    if needs_number and not settings["incrementing.column.name"]:
        faults["incrementing.column.name"] = "needed for a query"
    initial = settings["timestamp.initial"]
    if initial is not None and initial > INT64_MAX // 1_000_000:
        faults["timestamp.initial"] = "is no time in milliseconds since 1970"
    return faults


def table_names(settings: Mapping[str, Any]) -> list[str]:
    """Return the tables that are named, each once."""
    named = [*settings["table.whitelist"], *settings["tables"]]
    return list(dict.fromkeys(each for each in named if each))


SQL_SOURCE = RuledDef(
    [
        *CONNECTION.keys.values(),
        whole(
            "connection.attempts",
            "How often in a row reading is tried while the database fails.",
            3,
            1,
        ),
        whole("connection.backoff.ms", "The wait between these.", 10000, 0, INT64_MAX),
        ConfigKey(
            "mode",
            ConfigType.STRING,
            "How new rows are told: `incrementing` by a growing number, for tables whose rows are "
            "only inserted; `timestamp` by the time of the last change; `timestamp+incrementing` "
            "by both; `bulk` reads everything again each time.",
            choices=MODES,
            importance=Importance.HIGH,
        ),
        text(
            "incrementing.column.name",
            "The column that grows from row to row; empty: the only column of the primary key.",
            "",
        ),
        listed(
            "timestamp.column.name",
            "The column with the time of the last change; of several, the first that is not null.",
        ),
        ConfigKey(
            "timestamp.initial",
            ConfigType.LONG,
            "Rows up to this time are left out at the first start, in milliseconds since 1970; -1 "
            "is the time of the start.",
            None,
            at_least=-1,
        ),
        whole(
            "timestamp.delay.interval.ms",
            "Rows are read this long after their time, by the database's clock. It must be longer "
            "than a transaction takes: a row that becomes visible later is lost.",
            0,
            0,
            INT64_MAX,
        ),
        whole(
            "incrementing.delay.interval.ms",
            "In mode incrementing, rows are read this long after a row with as high a number was "
            "seen, so that slower transactions with lower numbers are not lost.",
            0,
            0,
            INT64_MAX,
        ),
        flag(
            "validate.non.null",
            "Refuse tables in which the columns above may be null; rows with null are not read.",
            True,
        ),
        listed(
            "table.whitelist",
            "The tables, as `table` or `schema.table`; empty: all of the default schema.",
        ),
        listed("tables", "Another name for table.whitelist."),
        listed("table.blacklist", "The tables that are left out, where all are read."),
        whole(
            "table.poll.interval.ms",
            "How often new columns are looked for, and where all tables are read, new tables.",
            60000,
            1,
            INT64_MAX,
        ),
        text(
            "query",
            "A SELECT that is read in place of tables. Types are told by its values; a view has "
            "better ones.",
            "",
        ),
        text(
            "topic.prefix",
            "Put before the name of a table for the name of its topic; of a query, the topic.",
        ),
        whole(
            "poll.interval.ms", "The wait after all rows of a table were read.", 5000, 0, INT64_MAX
        ),
        whole(
            "batch.max.rows",
            "About how many rows are read at once. Rows of equal time in a table without a primary "
            "key stay together.",
            100,
            1,
        ),
        choice(
            "numeric.mapping",
            "`best_fit` makes int64 and double of decimals that fit, `none` makes none.",
            ("none", "best_fit"),
        ),
    ],
    _faults,
)
