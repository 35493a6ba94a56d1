"""The table of keys: what is parsed, what is refused, and what a form is told."""

import pytest

from minikafka.connect.config_def import (
    BadConfig,
    ConfigDef,
    ConfigKey,
    ConfigType,
    Importance,
)

TABLE = ConfigDef(
    [
        ConfigKey("topic", ConfigType.STRING, "The topic.", importance=Importance.HIGH),
        ConfigKey("batch.size", ConfigType.INT, "Records at once.", 2000, at_least=1),
        ConfigKey("mode", ConfigType.STRING, "How.", "bulk", choices=("bulk", "incrementing")),
        ConfigKey("password", ConfigType.PASSWORD, "Of the database.", None, at_least=None),
        ConfigKey("columns", ConfigType.LIST, "Which.", [], choices=("a", "b")),
        ConfigKey("upsert", ConfigType.BOOLEAN, "Update.", False),
        ConfigKey(
            "even", ConfigType.LONG, "Even.", 2, check=lambda n: "must be even" * (n % 2) or None
        ),
    ]
)


def test_texts_become_values_and_absent_keys_their_defaults() -> None:
    parsed = TABLE.parse({"topic": " t ", "batch.size": "5", "columns": "a, b", "upsert": "TRUE"})
    assert parsed == {
        "topic": "t",
        "batch.size": 5,
        "mode": "bulk",
        "password": None,
        "columns": ["a", "b"],
        "upsert": True,
        "even": 2,
    }


@pytest.mark.parametrize(
    ("key", "text", "why"),
    [
        ("batch.size", "0", "must be at least 1"),
        ("batch.size", "many", "not a number of type INT"),
        ("batch.size", "3000000000", "not a number of type INT"),
        ("mode", "slow", "must be one of bulk, incrementing"),
        ("columns", "a,c", "must be one of a, b"),
        ("upsert", "yes", "must be true or false"),
        ("even", "3", "must be even"),
    ],
)
def test_a_refusal_names_key_value_and_what_is_allowed(key: str, text: str, why: str) -> None:
    expected = f"Invalid value {text} for configuration {key}: {why}"
    with pytest.raises(BadConfig) as caught:
        TABLE.parse({"topic": "t", key: text})
    assert str(caught.value) == expected


def test_all_errors_are_told_at_once() -> None:
    with pytest.raises(BadConfig) as caught:
        TABLE.parse({"batch.size": "0", "mode": "slow"})
    assert len(str(caught.value).splitlines()) == 3


def test_validation_has_a_row_for_each_key_with_defaults_and_offers() -> None:
    found = {value.name: value for value in TABLE.validate({"password": "x", "unknown": "y"})}
    assert list(found) == list(TABLE.keys)
    assert found["topic"].errors == [
        'Missing required configuration "topic" which has no default value.'
    ]
    assert found["batch.size"].value == "2000"
    assert found["mode"].recommended_values == ["bulk", "incrementing"]
    assert found["upsert"].value == "false"


def test_a_password_is_never_in_an_error() -> None:
    key = ConfigKey("p", ConfigType.PASSWORD, "Secret.", check=lambda text: "too short")
    with pytest.raises(BadConfig, match=r"\[hidden\]") as caught:
        key.parse("s3cret")
    assert "s3cret" not in str(caught.value)
