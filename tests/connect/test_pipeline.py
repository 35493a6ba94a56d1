"""The way of records through converters and transformations, and how it ends."""

from collections.abc import Mapping
from typing import Any

import pytest

from minikafka.connect.config_def import BadConfig, ConfigDef, ConfigKey, ConfigType
from minikafka.connect.data import BYTES, STRING, DataError
from minikafka.connect.pipeline import (
    DROPPED,
    ConsumedRecord,
    Produced,
    SinkPipeline,
    SourcePipeline,
    original_of,
)
from minikafka.connect.records import ConnectRecord, Header, SinkRecord
from minikafka.connect.tolerance import Failed, Stage
from minikafka.connect.transforms.transformation import Predicate, Transformation
from minikafka.protocol.types import TopicPartition

from .pipeline_support import PLAIN_JSON, STRINGS, consumed, find, source

HERE = f"{__name__}:"


class Rename(Transformation):
    config = ConfigDef([ConfigKey("to", ConfigType.STRING, "The topic.")])

    def configure(self, props: Mapping[str, str]) -> None:
        self.to = self.config.parse(props)["to"]
        self.closed = False

    def apply(self, record: Any) -> Any:
        if record.value == "bad":
            raise ValueError("a bad record")
        return record.with_(topic=self.to)

    def close(self) -> None:
        self.closed = True


class Drop(Transformation):
    def apply(self, record: Any) -> Any:
        return None


class Twice(Transformation):
    def apply(self, record: Any) -> Any:
        return [record, record.with_(value=f"{record.value} again")]


class Fresh(Transformation):
    def apply(self, record: Any) -> Any:
        return SinkRecord(
            topic="made", value="new", partition=9, offset=9, origin=TopicPartition("x", 0)
        )


class Wrong(Transformation):
    def apply(self, record: Any) -> Any:
        return source("v") if isinstance(record, SinkRecord) else [record, {"value": 1}]


class IsTombstone(Predicate):
    def test(self, record: ConnectRecord) -> bool:
        return record.value is None


def steps(*classes: str, **more: str) -> dict[str, str]:
    named = {f"t{at}": HERE + each for at, each in enumerate(classes)}
    types = {f"transforms.{name}.type": cls for name, cls in named.items()}
    return {"transforms": ",".join(named), **types, **more}


@pytest.mark.parametrize("props", [{}, steps("Twice")])
def test_a_source_record_without_a_topic_is_only_a_place(props: dict[str, str]) -> None:
    pipeline = SourcePipeline(props, PLAIN_JSON, find)
    assert pipeline.apply([source("v", topic="")]) == [DROPPED]


def test_a_source_record_is_converted_with_its_headers() -> None:
    pipeline = SourcePipeline({}, PLAIN_JSON, find)
    record = source({"a": 1}, key="k", headers=(Header("n", 5),), timestamp_ms=7, partition=2)
    assert pipeline.apply([record, source(None)]) == [
        [Produced("orders", 2, b"k", b'{"a":1}', [("n", b"5")], 7)],
        [Produced("orders", None, None, None, (), None)],
    ]


def test_a_sink_record_has_schemas_headers_and_its_origin() -> None:
    pipeline = SinkPipeline({}, STRINGS, find)
    record = consumed(headers=[("n", b"5"), ("b", b"\xff")], offset=3)
    (made,) = pipeline.apply([record])
    assert isinstance(made, ConsumedRecord)
    assert (made.topic, made.partition, made.offset, made.key, made.value) == (
        *("orders", 1, 3),
        *("k", "v"),
    )
    assert (made.value_schema, made.timestamp_ms) == (STRING.as_optional(), 5)
    assert [(each.key, each.value) for each in made.headers] == [("n", 5), ("b", b"\xff")]
    assert made.headers[1].schema == BYTES
    assert (made.origin, original_of(made)) == (TopicPartition("orders", 1), record)
    (without,) = pipeline.apply([consumed(timestamp_ms=-1)])
    assert isinstance(without, SinkRecord)
    assert without.timestamp_ms is None


def test_the_connectors_converter_comes_with_its_own_settings_only() -> None:
    props = {"value.converter": "JsonConverter"}
    (outcome,) = SourcePipeline(props, PLAIN_JSON, find).apply([source(1)])
    assert isinstance(outcome, list)  # schemas.enable of the worker's converter is not its own
    assert outcome[0].value == b'{"schema":null,"payload":1}'


@pytest.mark.parametrize(
    ("record", "stage", "plugin"),
    [
        (consumed(key=b"\xff"), Stage.KEY_CONVERTER, "text.StringConverter"),
        (consumed(value=b"{"), Stage.VALUE_CONVERTER, "json.JsonConverter"),
    ],
)
def test_bytes_that_no_converter_reads_fail_at_its_stage(
    record: Any, stage: Stage, plugin: str
) -> None:
    outcomes = SinkPipeline({}, PLAIN_JSON, find).apply([record, consumed(value=b"1")])
    assert isinstance(outcomes[0], Failed)
    assert (outcomes[0].stage, outcomes[0].plugin.endswith(plugin)) == (stage, True)
    assert isinstance(outcomes[0].error, DataError)
    assert isinstance(outcomes[1], SinkRecord)


def test_values_that_no_converter_writes_fail_at_its_stage() -> None:
    bad = [
        source("v", key=b"k"),
        source(b"v"),
        source("v", headers=(Header("h", object()),)),
    ]
    found = SourcePipeline({}, STRINGS, find).apply(bad)
    assert [each.stage for each in found if isinstance(each, Failed)] == [
        Stage.KEY_CONVERTER,
        Stage.VALUE_CONVERTER,
        Stage.HEADER_CONVERTER,
    ]


def test_transformations_run_in_order_and_may_drop_or_make_several() -> None:
    props = steps("Rename", "Twice", **{"transforms.t0.to": "new"})
    outcomes = SourcePipeline(props, STRINGS, find).apply([source("a"), source("bad")])
    assert outcomes[0] == [
        Produced("new", None, None, value, (), None) for value in (b"a", b"a again")
    ]
    assert isinstance(outcomes[1], Failed)
    assert (outcomes[1].stage, outcomes[1].plugin) == (
        Stage.TRANSFORMATION,
        f"{__name__}.Rename",
    )
    assert str(outcomes[1].error) == "a bad record"
    assert SourcePipeline(steps("Drop", "Twice"), STRINGS, find).apply([source("a")]) == [DROPPED]


def test_a_sink_record_keeps_its_origin_through_transformations() -> None:
    props = steps("Rename", "Twice", **{"transforms.t0.to": "new"})
    (outcome,) = SinkPipeline(props, STRINGS, find).apply([consumed(offset=3)])
    assert isinstance(outcome, list)
    assert [(each.topic, each.origin, each.offset) for each in outcome] == [
        ("new", TopicPartition("orders", 1), 3)
    ] * 2
    (made,) = SinkPipeline(steps("Fresh"), STRINGS, find).apply([consumed(offset=3)])
    assert isinstance(made, SinkRecord)
    assert (made.value, made.origin, made.offset) == ("new", TopicPartition("orders", 1), 3)
    assert original_of(made) == consumed(offset=3)


def test_a_transformation_that_returns_something_else_fails_the_record() -> None:
    (sunk,) = SinkPipeline(steps("Wrong"), STRINGS, find).apply([consumed()])
    (sent,) = SourcePipeline(steps("Wrong"), STRINGS, find).apply([source("v")])
    for outcome, why in ((sunk, "SinkRecord, None or a list of them, not Source"), (sent, "dict")):
        assert isinstance(outcome, Failed)
        assert (outcome.stage, type(outcome.error)) == (Stage.TRANSFORMATION, DataError)
        assert why in str(outcome.error)


def test_a_predicate_chooses_and_negate_chooses_the_others() -> None:
    for negate, left in (("false", ["v"]), ("true", [None])):
        props = steps(
            "Drop",
            **{
                "predicates": "p",
                "predicates.p.type": f"{HERE}IsTombstone",
                "transforms.t0.predicate": "p",
                "transforms.t0.negate": negate,
            },
        )
        outcomes = SinkPipeline(props, STRINGS, find).apply([consumed(), consumed(None)])
        assert [each.value for each in outcomes if isinstance(each, SinkRecord)] == left


@pytest.mark.parametrize(
    ("props", "why"),
    [
        ({"transforms": "a"}, "transforms.a.type"),
        ({"transforms": "a,a"}, "twice"),
        (steps("Rename"), 'transforms.t0: Missing required configuration "to"'),
        (steps("Drop", **{"transforms.t0.predicate": "p"}), "transforms.t0.predicate"),
        (steps("Drop", **{"transforms.t0.negate": "true"}), "needs transforms.t0.predicate"),
        (steps("Drop", **{"transforms.t0.negate": "maybe"}), "true or false"),
        ({"predicates": "p"}, "predicates.p.type"),
        (
            {"value.converter": "JsonConverter", "value.converter.schemas.enable": "no"},
            "value.converter: Invalid value no for configuration schemas.enable",
        ),
    ],
)
def test_a_wrong_configuration_names_its_key(props: dict[str, str], why: str) -> None:
    with pytest.raises(BadConfig) as caught:
        SourcePipeline(props, STRINGS, find)
    assert why in str(caught.value)
    with pytest.raises(BadConfig, match=r'"value\.converter"'):
        SourcePipeline({}, {"key.converter": "StringConverter"}, find)


def test_close_closes_every_transformation() -> None:
    props = steps("Rename", "Rename", **{f"transforms.t{at}.to": "x" for at in (0, 1)})
    pipeline = SourcePipeline(props, STRINGS, find)
    pipeline.close()
    assert [step.transformation.closed for step in pipeline._steps] == [True, True]  # type: ignore[attr-defined]
