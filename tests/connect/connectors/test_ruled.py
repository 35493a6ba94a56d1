"""Parts of several connectors: rules that span keys, and libraries that are not installed."""

import pytest

from minikafka.connect.api import ConnectError
from minikafka.connect.connectors import schedule
from minikafka.connect.connectors.keys import text, whole
from minikafka.connect.connectors.ruled import RuledDef, needed

TABLE = RuledDef(
    [whole("least", "Least.", 1), whole("most", "Most.", 5), text("name", "Name.", None)],
    lambda parsed: {"most": "is below least"} if parsed["most"] < parsed["least"] else {},
)


def test_a_rule_blames_a_key_once_each_key_is_right() -> None:
    found = {value.name: value.errors for value in TABLE.validate({"most": "0"})}
    assert found == {
        "least": [],
        "most": ["Invalid configuration most: is below least"],
        "name": [],
    }
    found = {value.name: value.errors for value in TABLE.validate({"most": "0", "least": "x"})}
    assert found["most"] == []
    assert found["least"]
    assert TABLE.parse({"most": "3"}) == {"least": 1, "most": 3, "name": None}


def test_a_library_that_is_missing_is_named_with_what_to_do() -> None:
    with pytest.raises(ConnectError, match=r"pip install 'minikafka\[connect\]'"):
        needed("no_such_library")


def test_validation_names_a_missing_library_and_does_not_fail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(schedule, "needed", lambda _: needed("no_such_library"))
    values = schedule.Schedule().validate({"cron": "* * * * *", "topic": "t"})
    (error,) = [error for value in values for error in value.errors]
    assert error.startswith("Invalid configuration cron: no_such_library is not installed")
