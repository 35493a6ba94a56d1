"""Options are refused before any job starts, with the option, its value and what is allowed."""

import pytest

from minikafka.spark.options import OptionError
from minikafka.spark.sink_options import parse_sink
from minikafka.spark.source_options import parse_offsets, parse_source

CLUSTER = {"kafka.bootstrap.servers": "localhost:9092"}


def source(options: dict[str, str], *, streaming: bool = False) -> object:
    return parse_source({**CLUSTER, **options}, streaming=streaming)


def test_defaults_follow_the_connector() -> None:
    batch = parse_source({**CLUSTER, "subscribe": "a, b"}, streaming=False)
    assert batch.topics == ("a", "b")
    assert (batch.starting.at, batch.ending.at) == ("earliest", "latest")
    assert batch.fail_on_data_loss
    assert "headers" not in batch.columns
    assert parse_source({**CLUSTER, "subscribe": "a"}, streaming=True).starting.at == "latest"


def test_kafka_options_become_client_settings_without_their_prefix() -> None:
    options = {**CLUSTER, "Kafka.Client.Id": "me", "subscribe": "a"}
    assert parse_source(options, streaming=False).client == {
        "bootstrap.servers": "localhost:9092",
        "client.id": "me",
    }


def test_assign_names_partitions() -> None:
    options = {**CLUSTER, "assign": '{"a":[1,0,1],"b":[]}'}
    assert parse_source(options, streaming=False).assigned == {"a": (0, 1), "b": ()}


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({}, "subscribe"),
        ({"subscribe": "a", "assign": '{"a":[0]}'}, "subscribe"),
        ({"subscribe": " , "}, "subscribe"),
        ({"assign": '{"a":0}'}, "assign"),
        ({"assign": "{}"}, "assign"),
        ({"assign": "nonsense"}, "assign"),
        ({"subscribe": "a", "startingOffsets": "latest"}, "startingOffsets"),
        ({"subscribe": "a", "startingOffsets": '{"a":{"0":-1}}'}, "startingOffsets"),
        ({"subscribe": "a", "startingOffsets": '{"a":{"0":"7"}}'}, "startingOffsets"),
        ({"subscribe": "a", "startingOffsets": '{"a":{"x":7}}'}, "startingOffsets"),
        ({"subscribe": "a", "endingOffsets": "earliest"}, "endingOffsets"),
        ({"subscribe": "a", "endingOffsets": '{"a":{"0":-2}}'}, "endingOffsets"),
        ({"subscribe": "a", "maxOffsetsPerTrigger": "5"}, "maxOffsetsPerTrigger"),
        ({"subscribe": "a", "failOnDataLoss": "maybe"}, "failOnDataLoss"),
        ({"subscribe": "a", "kafka.auto.offset.reset": "latest"}, "kafka.auto.offset.reset"),
        ({"subscribe": "a", "startingOffset": "latest"}, "startingoffset"),
        ({"subscribe": "a", "topic": "a"}, "topic"),
        (
            {
                "subscribe": "a",
                "startingOffsets": '{"a":{"0":7}}',
                "endingOffsets": '{"a":{"0":6}}',
            },
            "endingOffsets",
        ),
        ({"subscribe": "a", "kafka.fetch.min.byte": "1"}, "kafka.fetch.min.byte"),
        ({"subscribe": "a", "kafka.fetch.min.bytes": "-1"}, "kafka.fetch.min.bytes"),
        ({"subscribe": "a", "kafka.security.protocol": "TLS"}, "kafka.security.protocol"),
    ],
)
def test_a_batch_source_refuses(options: dict[str, str], named: str) -> None:
    with pytest.raises(OptionError) as caught:
        source(options)
    assert caught.value.option == named


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"endingOffsets": "latest"}, "endingOffsets"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger"),
        ({"maxOffsetsPerTrigger": "many"}, "maxOffsetsPerTrigger"),
    ],
)
def test_a_streaming_source_refuses(options: dict[str, str], named: str) -> None:
    with pytest.raises(OptionError) as caught:
        source({"subscribe": "a", **options}, streaming=True)
    assert caught.value.option == named


def test_a_misspelt_option_is_answered_with_the_nearest() -> None:
    with pytest.raises(OptionError, match="did you mean startingOffsets"):
        source({"subscribe": "a", "startingOffset": "earliest"})
    with pytest.raises(OptionError, match=r"did you mean linger\.ms"):
        parse_sink({**CLUSTER, "topic": "a", "kafka.linger.m": "1"})


@pytest.mark.parametrize("name", ["checkpointLocation", "queryName"])
def test_what_spark_itself_keeps_there_is_accepted(name: str) -> None:
    assert parse_sink({**CLUSTER, "topic": "a", name: "x"}).topic == "a"


def test_a_sink_must_hear_of_its_writes() -> None:
    with pytest.raises(OptionError, match="must know"):
        parse_sink({**CLUSTER, "topic": "a", "kafka.acks": "0"})
    assert parse_sink({**CLUSTER, "topic": "a", "kafka.acks": "1"}).client["acks"] == "1"


def test_both_need_a_cluster() -> None:
    with pytest.raises(OptionError, match=r"kafka\.bootstrap\.servers"):
        parse_source({"subscribe": "a"}, streaming=False)
    with pytest.raises(OptionError, match=r"kafka\.bootstrap\.servers"):
        parse_sink({"topic": "a"})
    with pytest.raises(OptionError, match="topic"):
        parse_sink({**CLUSTER, "topic": " "})


def test_offsets_are_read_with_numbers_as_partitions() -> None:
    assert parse_offsets("x", '{"a":{"0":-2,"10":7}}') == {"a": {0: -2, 10: 7}}
