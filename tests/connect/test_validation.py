"""What validate tells of a connector's configuration, for forms and for refusals."""

from typing import Any

import pytest

from minikafka.connect.api import Props, SinkConnector, SourceConnector
from minikafka.connect.config_def import ConfigDef, ConfigKey, ConfigType
from minikafka.connect.config_json import errors_of, with_nulls
from minikafka.connect.herding import BadRequest, NotFound
from minikafka.connect.plugins import Plugins
from minikafka.connect.validation import Rules, describe, kind_of, validate

from .rest_support import HERE, ILL, LINES, SHELF

Json = dict[str, Any]
PLUGINS = Plugins()
RULES = Rules(dict)


class Rename:
    """A transformation with a key of its own."""

    config = ConfigDef([ConfigKey("to", ConfigType.STRING, "The new name.")])

    def apply(self, record: Any) -> Any:
        return record


class Always:
    """A predicate without keys."""

    def test(self, record: Any) -> bool:
        return True


class Packed:
    """A converter with a key of its own."""

    config = ConfigDef([ConfigKey("level", ConfigType.INT, "How tight.", 3, at_most=9)])

    def from_connect(self, topic: str, schema: Any, value: Any) -> bytes | None:
        return None

    def to_connect(self, topic: str, data: bytes | None) -> Any:
        return None, None


class Careful(SourceConnector):
    """A source that is exactly once for one of its modes."""

    config = ConfigDef([ConfigKey("mode", ConfigType.STRING, "How to read.", "poll")])

    def exactly_once_support(self, props: Props) -> bool:
        return props.get("mode") == "log"


class Blocked(SinkConnector):
    """A sink that cannot be made."""

    def __init__(self) -> None:
        raise OSError("no disk")


RENAME, ALWAYS, PACKED, CAREFUL, BLOCKED = (
    f"{__name__}:{each.__name__}" for each in (Rename, Always, Packed, Careful, Blocked)
)


def check(**config: str) -> Json:
    keys = {key.replace("__", "."): value for key, value in config.items()}
    return validate({"name": "c", **keys}, PLUGINS, RULES)


def errors(answer: Json) -> dict[str, list[str]]:
    values = [each["value"] for each in answer["configs"]]
    return {value["name"]: value["errors"] for value in values if value["errors"]}


def one(answer: Json, name: str) -> Json:
    found: Json = next(each for each in answer["configs"] if each["value"]["name"] == name)
    return found


def test_x_23_missing_wrong_and_unknown_keys_are_told_as_kafka_tells_them() -> None:
    answer = validate(
        {"connector.class": LINES, "tasks.max": "many", "mode": "odd", "colour": "red"},
        PLUGINS,
        RULES,
    )
    assert answer["name"] == LINES
    assert errors(answer) == {
        "name": ['Missing required configuration "name" which has no default value.'],
        "tasks.max": ["Invalid value many for configuration tasks.max: not a number of type INT"],
        "topic": ['Missing required configuration "topic" which has no default value.'],
        "mode": ["Invalid value odd for configuration mode: must be one of all, new"],
    }
    assert answer["error_count"] == 4
    assert one(answer, "mode")["value"]["recommended_values"] == ["all", "new"]
    assert one(answer, "topic") == {
        "definition": {
            "name": "topic",
            "type": "STRING",
            "required": True,
            "default_value": None,
            "importance": "HIGH",
            "documentation": "The topic.",
            "group": None,
            "width": "NONE",
            "display_name": "topic",
            "dependents": [],
            "order": -1,
        },
        "value": {
            "name": "topic",
            "value": None,
            "recommended_values": [],
            "errors": ['Missing required configuration "topic" which has no default value.'],
            "visible": True,
        },
    }
    assert one(answer, "batch.size")["value"]["value"] == "2000"
    # As in Kafka, a key that nobody declares is neither told nor an error.
    assert "colour" not in [each["value"]["name"] for each in answer["configs"]]
    assert answer["groups"][:4] == ["Common", "Transforms", "Predicates", "Error Handling"]


def test_x_23_file_stream_is_validated_by_the_name_that_kafka_has_for_it() -> None:
    java = "org.apache.kafka.connect.file.FileStreamSinkConnector"
    answer = validate({"name": "test", "connector.class": java}, PLUGINS, RULES)
    assert answer["name"] == java
    assert errors(answer) == {
        "topics": ["Must configure one of topics or topics.regex"],
        "topics.regex": ["Must configure one of topics or topics.regex"],
    }
    assert one(answer, "file")["definition"]["type"] == "STRING"


def test_transformations_predicates_and_converters_have_their_keys_below_their_prefix() -> None:
    answer = check(
        connector__class=LINES,
        topic="t",
        transforms="a,b,a",
        predicates="p",
        transforms__a__type=RENAME,
        transforms__a__predicate="p",
        transforms__b__type="Missing",
        predicates__p__type=ALWAYS,
        value__converter=PACKED,
        value__converter__level="10",
        key__converter=f"{__name__}:Rename",
    )
    found = errors(answer)
    assert found["transforms"] == [
        "Invalid value a,b,a for configuration transforms: an alias is given twice"
    ]
    assert found["transforms.a.to"] == [
        'Missing required configuration "transforms.a.to" which has no default value.'
    ]
    assert found["value.converter.level"] == [
        "Invalid value 10 for configuration value.converter.level: must be at most 9"
    ]
    assert "Missing" in found["transforms.b.type"][0]
    assert "is no converter" in found["key.converter"][0]
    assert len(found) == 5
    assert one(answer, "transforms.a.to")["definition"]["group"] == "Transforms: a"
    assert one(answer, "transforms.a.negate")["value"]["value"] == "false"
    assert {"Transforms: a", "Transforms: b", "Predicates: p"} <= {*answer["groups"]}


def test_a_broken_connector_is_an_error_of_its_class_and_no_failure() -> None:
    ill = check(connector__class=ILL)
    assert errors(ill) == {
        "connector.class": ["Ill cannot validate: RuntimeError: the database is away"]
    }
    blocked = check(connector__class=BLOCKED, topics="t")
    assert errors(blocked) == {"connector.class": ["Blocked cannot validate: OSError: no disk"]}
    gone = check(connector__class="no.such.module:Connector")
    assert "cannot be imported" in errors(gone)["connector.class"][0]
    assert kind_of({"connector.class": "no.such.module:Connector"}, PLUGINS) == "unknown"


@pytest.mark.parametrize("cls", ["", "Unknown"])
def test_a_configuration_that_names_no_installed_connector_is_refused(cls: str) -> None:
    with pytest.raises(BadRequest, match=r"connector type|Failed to find any class"):
        check(connector__class=cls)


def test_the_topics_of_a_sink_are_given_in_one_way_and_its_dead_letters_elsewhere() -> None:
    both = "topics and topics.regex are mutually exclusive options, but both are set."
    assert errors(check(connector__class=SHELF, topics="a", topics__regex="b")) == {
        "topics": [both],
        "topics.regex": [both],
    }
    letters = {"errors__deadletterqueue__topic__name": "a"}
    found = errors(check(connector__class=SHELF, topics="a, b", **letters))
    assert [*found] == ["topics"]
    assert errors(check(connector__class=SHELF, topics="b", **letters)) == {}


def test_a_source_that_must_be_exactly_once_and_cannot_is_refused() -> None:
    wanted = {"connector__class": CAREFUL, "exactly__once__support": "required"}
    assert [*errors(check(**wanted))] == ["exactly.once.support"]
    assert errors(check(**wanted, mode="log")) == {}
    own = {"connector__class": CAREFUL, "transaction__boundary": "connector"}
    assert [*errors(check(**own))] == ["transaction.boundary"]


def test_a_setting_of_a_client_that_the_worker_keeps_for_itself_is_an_error() -> None:
    config = {"name": "c", "connector.class": LINES, "topic": "t", "producer.override.acks": "1"}
    assert errors(validate(config, PLUGINS, RULES)) == {}
    (why,) = errors(validate(config, PLUGINS, Rules(dict, "None")))["connector.class"]
    assert "producer.override.acks" in why


def test_secrets_are_in_no_answer() -> None:
    def resolve(config: Any) -> dict[str, str]:
        return {key: value.replace("${env:P}", "s3cret") for key, value in config.items()}

    config = {
        "name": "c",
        "connector.class": LINES,
        "topic": "t",
        "key": "s3cret",
        "batch.size": "${env:P}",
        "file": "${env:P}",
    }
    answer = validate(config, PLUGINS, Rules(resolve))
    assert "s3cret" not in str(answer)
    assert one(answer, "key")["value"]["value"] == "[hidden]"
    assert one(answer, "file")["value"]["value"] == "${env:P}"
    assert errors(answer)["batch.size"] == [
        "Invalid value ${env:P} for configuration batch.size: not a number of type INT"
    ]


def test_a_reference_without_a_value_is_an_error() -> None:
    def resolve(config: Any) -> dict[str, str]:
        raise KeyError("${env:NONE}")

    answer = validate(
        {"name": "c", "connector.class": LINES, "topic": "t"}, PLUGINS, Rules(resolve)
    )
    assert "${env:NONE}" in errors(answer)["connector.class"][0]


def test_a_null_is_an_error_of_its_key() -> None:
    answer = with_nulls(check(connector__class=LINES, topic="t"), ["file", "else"])
    why = "Null value can not be supplied as the configuration value."
    assert errors(answer) == {"file": [why], "else": [why]}
    assert answer["error_count"] == 2
    assert one(answer, "else")["definition"] is None
    assert errors_of(answer) is not None
    assert errors_of(check(connector__class=LINES, topic="t")) is None


def test_the_keys_of_a_plugin_are_its_own_and_then_those_that_all_have() -> None:
    names = [key["name"] for key in describe(LINES, PLUGINS)]
    assert names[:2] == ["file", "topic"]
    assert "exactly.once.support" in names
    assert "topics.regex" in [key["name"] for key in describe(f"{HERE}:Shelf", PLUGINS)]
    with pytest.raises(NotFound, match="Unknown plugin"):
        describe("Unknown", PLUGINS)
