"""The configuration keys of SqlSource, most of them named as those of the JDBC connector."""

from collections.abc import Mapping
from typing import Any

from ..config_def import INT64_MAX, ConfigDef, ConfigKey, ConfigType, ConfigValue, Importance
from .database import CONNECTION

MODES = ("bulk", "incrementing", "timestamp", "timestamp+incrementing")

SQL_SOURCE = CONNECTION + ConfigDef(
    [
        ConfigKey(
            "connection.attempts",
            ConfigType.INT,
            "How often in a row reading is tried while the database fails.",
            3,
            at_least=1,
            group="Database",
        ),
        ConfigKey(
            "connection.backoff.ms",
            ConfigType.LONG,
            "The wait between these.",
            10_000,
            at_least=0,
            group="Database",
        ),
        ConfigKey(
            "mode",
            ConfigType.STRING,
            "How new rows are told: `incrementing` by a growing number, for tables whose rows are "
            "only inserted; `timestamp` by the time of the last change; `timestamp+incrementing` "
            "by both; `bulk` reads everything again each time.",
            choices=MODES,
            importance=Importance.HIGH,
            group="Mode",
        ),
        ConfigKey(
            "incrementing.column.name",
            ConfigType.STRING,
            "The column that grows from row to row; empty: the only column of the primary key.",
            "",
            group="Mode",
        ),
        ConfigKey(
            "timestamp.column.name",
            ConfigType.LIST,
            "The column with the time of the last change; of several, the first that is not null.",
            (),
            group="Mode",
        ),
        ConfigKey(
            "timestamp.initial",
            ConfigType.LONG,
            "Rows up to this time are left out at the first start, in milliseconds since 1970; -1 "
            "is the time of the start.",
            None,
            at_least=-1,
            group="Mode",
        ),
        ConfigKey(
            "timestamp.delay.interval.ms",
            ConfigType.LONG,
            "Rows are read this long after their time, by the database's clock. It must be longer "
            "than a transaction takes: a row that becomes visible later is lost.",
            0,
            at_least=0,
            importance=Importance.HIGH,
            group="Mode",
        ),
        ConfigKey(
            "incrementing.delay.interval.ms",
            ConfigType.LONG,
            "In mode incrementing, rows are read this long after a row with as high a number was "
            "seen, so that slower transactions with lower numbers are not lost.",
            0,
            at_least=0,
            group="Mode",
        ),
        ConfigKey(
            "validate.non.null",
            ConfigType.BOOLEAN,
            "Refuse tables in which the columns above may be null; rows with null are not read.",
            True,
            importance=Importance.LOW,
            group="Mode",
        ),
        ConfigKey(
            "table.whitelist",
            ConfigType.LIST,
            "The tables, as `table` or `schema.table`; empty: all of the default schema.",
            (),
            group="Tables",
        ),
        ConfigKey(
            "tables", ConfigType.LIST, "Another name for table.whitelist.", (), group="Tables"
        ),
        ConfigKey(
            "table.blacklist",
            ConfigType.LIST,
            "The tables that are left out, where all are read.",
            (),
            group="Tables",
        ),
        ConfigKey(
            "table.poll.interval.ms",
            ConfigType.LONG,
            "How often new columns are looked for, and where all tables are read, new tables.",
            60_000,
            at_least=1,
            importance=Importance.LOW,
            group="Tables",
        ),
        ConfigKey(
            "query",
            ConfigType.STRING,
            "A SELECT that is read in place of tables. Types are told by its values; a view has "
            "better ones.",
            "",
            group="Tables",
        ),
        ConfigKey(
            "topic.prefix",
            ConfigType.STRING,
            "Put before the name of a table for the name of its topic; of a query, the topic.",
            importance=Importance.HIGH,
            group="Records",
        ),
        ConfigKey(
            "poll.interval.ms",
            ConfigType.LONG,
            "The wait after all rows of a table were read.",
            5_000,
            at_least=0,
            importance=Importance.HIGH,
            group="Records",
        ),
        ConfigKey(
            "batch.max.rows",
            ConfigType.INT,
            "About how many rows are read at once. Rows of equal time in a table without a primary "
            "key stay together.",
            100,
            at_least=1,
            importance=Importance.LOW,
            group="Records",
        ),
        ConfigKey(
            "numeric.mapping",
            ConfigType.STRING,
            "`best_fit` makes int64 and double of decimals that fit, `none` makes none.",
            "none",
            choices=("none", "best_fit"),
            importance=Importance.LOW,
            group="Records",
        ),
    ]
)


def validated(props: Mapping[str, str]) -> list[ConfigValue]:
    """Return what is known of each key, with the rules that span keys."""
    found = SQL_SOURCE.validate(props)
    by_name = {each.name: each for each in found}
    if any(each.errors for each in found):
        return found
    settings = SQL_SOURCE.parse(props)
    for name, wrong in _faults(settings):
        by_name[name].errors.append(f"Invalid value for configuration {name}: {wrong}")
    return found


def _faults(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    faults = []
    if "timestamp" in settings["mode"] and not settings["timestamp.column.name"]:
        faults.append(("timestamp.column.name", f"needed in mode {settings['mode']}"))
    if settings["query"] and table_names(settings):
        faults.append(("query", "stands in place of table.whitelist, not beside it"))
    needs_number = settings["query"] and "incrementing" in settings["mode"]
    if needs_number and not settings["incrementing.column.name"]:
        faults.append(("incrementing.column.name", "needed for a query"))
    initial = settings["timestamp.initial"]
    if initial is not None and initial > INT64_MAX // 1_000_000:
        faults.append(("timestamp.initial", "is no time in milliseconds since 1970"))
    return faults


def table_names(settings: Mapping[str, Any]) -> list[str]:
    """Return the tables that are named, each once."""
    named = [*settings["table.whitelist"], *settings["tables"]]
    return list(dict.fromkeys(each for each in named if each))
