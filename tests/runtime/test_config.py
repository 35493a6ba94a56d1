import dataclasses
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.broker.config import BrokerConfig
from minikafka.broker.coordinator.group.config import GroupConfig
from minikafka.broker.coordinator.transaction.config import TransactionConfig
from minikafka.controller.config import ControllerConfig
from minikafka.runtime.config import (
    INT32_MAX,
    apply_overrides,
    check_keys,
    config_table,
    from_mapping,
    parse_properties,
    setting,
    settings_of,
)
from minikafka.runtime.errors import ConfigError
from minikafka.runtime.kafka_keys import KNOWN_UNUSED
from minikafka.storage.topic_config import TopicConfig


@config_table
class Table:
    node_id: int = setting("node.id", at_least=0, at_most=INT32_MAX, doc="Names the node.")
    ratio: float = setting("some.ratio", 0.5, at_least=0, at_most=1, doc="A share.")
    enable: bool = setting("enable", False, dynamic=True, doc="A switch.")
    kind: str = setting("kind", "a", choices=("a", "b"), doc="One of two.")
    names: tuple[str, ...] = setting("names", ("x",), doc="A list.")
    rack: str | None = setting("rack", None, doc="May be absent.")
    secret: str | None = setting("password", None, secret=True, doc="Never shown.")
    retention_ms: int = setting(
        "retention.ms",
        1000,
        at_least=-1,
        aliases={"retention.minutes": 60_000, "retention.hours": 3_600_000},
        doc="How long.",
    )

    def check(self) -> None:
        if self.enable and self.kind == "b":
            raise ConfigError("enable", "true", "does not go with kind=b")


def read(**values: str) -> Table:
    return from_mapping(Table, {"node.id": "1", **values})


def test_values_are_typed_and_defaults_fill_in() -> None:
    table = from_mapping(
        Table,
        {
            "node.id": " 7 ",
            "some.ratio": "0.25",
            "enable": "TRUE",
            "names": "a, b ,,c",
            "rack": "",
            "other.owner": "ignored",
        },
    )
    assert (table.node_id, table.ratio, table.enable) == (7, 0.25, True)
    assert (table.names, table.kind, table.rack) == (("a", "b", "c"), "a", None)
    with pytest.raises(dataclasses.FrozenInstanceError):
        table.node_id = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"node.id": "x"}, "node.id=x: must be an integer"),
        ({"node.id": ""}, "node.id=: must be an integer"),
        ({"node.id": "-1"}, "node.id=-1: must be at least 0"),
        ({"node.id": "2147483648"}, "node.id=2147483648: must be at most 2147483647"),
        ({"some.ratio": "2"}, "some.ratio=2: must be at most 1"),
        ({"some.ratio": "half"}, "some.ratio=half: must be a number"),
        ({"enable": "yes"}, "enable=yes: must be true or false"),
        ({"kind": "c"}, "kind=c: must be one of a, b"),
        ({"enable": "true", "kind": "b"}, "enable=true: does not go with kind=b"),
        ({"retention.hours": "-2"}, "retention.hours=-2: must be at least -1"),
        ({"some.ratio": "nan"}, "some.ratio=nan: must be a finite number"),
        ({"some.ratio": "inf"}, "some.ratio=inf: must be a finite number"),
        (
            {"retention.ms": "99999999999999999999"},
            f"retention.ms=99999999999999999999: must be at most {2**63 - 1}",
        ),
        (
            {"retention.hours": "9999999999999999"},
            f"retention.hours=9999999999999999: must be at most {2**63 - 1}",
        ),
    ],
)
def test_an_error_names_key_value_and_reason_in_one_line(values: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError) as refused:
        from_mapping(Table, {"node.id": "1", **values})
    assert str(refused.value) == why


def test_no_number_is_without_bounds() -> None:
    """Of every table: what does not fit the field of Kafka's type is refused."""
    tables = (BrokerConfig, ControllerConfig, TopicConfig, GroupConfig, TransactionConfig)
    for row in (row for table in tables for row in settings_of(table) if row.type is int):
        for absurd in (1 << 63, -(1 << 63) - 1):
            with pytest.raises(ConfigError, match="must be at"):
                row.parse(str(absurd))


def test_a_key_without_default_is_required() -> None:
    with pytest.raises(ConfigError, match=r"^node\.id: is required$"):
        from_mapping(Table, {})


def test_aliases_scale_and_give_way() -> None:
    assert from_mapping(Table, {"node.id": "1", "retention.hours": "2"}).retention_ms == 7_200_000
    assert from_mapping(Table, {"node.id": "1", "retention.hours": "-1"}).retention_ms == -1
    both = {"node.id": "1", "retention.minutes": "3", "retention.hours": "2"}
    assert from_mapping(Table, both).retention_ms == 180_000
    assert from_mapping(Table, {**both, "retention.ms": "5"}).retention_ms == 5


def test_a_table_can_be_read_as_one() -> None:
    rows = {row.key: row for row in settings_of(Table)}
    assert next(iter(rows)) == "node.id"
    assert rows["node.id"].required
    assert [rows[key].kafka_type for key in rows] == [
        *("INT", "DOUBLE", "BOOLEAN", "STRING", "LIST", "STRING", "PASSWORD", "LONG"),
    ]
    assert rows["enable"].dynamic
    written = {key: row.format(getattr(read(), row.field)) for key, row in rows.items()}
    assert written["names"] == "x"
    assert from_mapping(Table, written) == read()


def test_a_wrong_default_is_found_at_once() -> None:
    with pytest.raises(ConfigError, match=r"depth=0: must be at least 1"):

        @config_table
        class Wrong:
            depth: int = setting("depth", 0, at_least=1, doc="Too small.")


def test_properties_files_are_javas() -> None:
    text = """
# a comment
! another
plain=value
  spaced   =   some value  \n\
colon:v:w
blank value
alone
path=/a\\
    /b
unicode=\\u00e9\\tx
a\\=b=c
plain=last wins
"""
    assert parse_properties(text) == {
        "plain": "last wins",
        "spaced": "some value",
        "colon": "v:w",
        "blank": "value",
        "alone": "",
        "path": "/a/b",
        "unicode": "é\tx",
        "a=b": "c",
    }
    with pytest.raises(ConfigError, match="is no character"):
        parse_properties("a=\\u12x")


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(ConfigError):
        assert all(isinstance(value, str) for value in parse_properties(text).values())


def test_overrides_lie_over_the_file() -> None:
    merged = apply_overrides({"a": "1", "b": "2"}, ["b=3", "c = x=y "])
    assert merged == {"a": "1", "b": "3", "c": "x=y"}
    for wrong in ("b", "=3", ""):
        with pytest.raises(ConfigError, match="must be key=value"):
            apply_overrides({}, [wrong])


def test_keys_are_known_unused_or_refused_with_a_suggestion() -> None:
    known = {"node.id": "1", "retention.hours": "2", "confluent.x.ssl": "y"}
    assert check_keys(known, Table, known_unused=KNOWN_UNUSED) == []
    warnings = check_keys({**known, "num.io.threads": "8"}, Table, known_unused=KNOWN_UNUSED)
    assert warnings == ["num.io.threads has no effect: one event loop serves the process"]
    with pytest.raises(ConfigError) as refused:
        check_keys({"retention.hour": "1"}, Table, known_unused=KNOWN_UNUSED)
    assert str(refused.value) == ("retention.hour=1: unknown key; did you mean retention.hours?")
    with pytest.raises(ConfigError, match=r"^zzz=1: unknown key$"):
        check_keys({"zzz": "1"}, Table, known_unused=KNOWN_UNUSED)
