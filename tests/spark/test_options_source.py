"""The source's options one by one: what each means, which one counts, and what is refused."""

import pytest

from minikafka.spark.options import OptionError
from minikafka.spark.source_options import (
    Admission,
    AtTime,
    Bound,
    Patience,
    SourceOptions,
    Splitting,
    check_source,
    parse_columns,
    parse_source,
)

CLUSTER = {"kafka.bootstrap.servers": "localhost:9092"}


def batch(**options: str) -> SourceOptions:
    return parse_source({**CLUSTER, "subscribe": "t", **options}, streaming=False)


def stream(**options: str) -> SourceOptions:
    return parse_source({**CLUSTER, "subscribe": "t", **options}, streaming=True)


def kafka(**options: str) -> dict[str, str]:
    """Names with a dot, which keywords cannot have."""
    return {"kafka." + name.replace("_", "."): value for name, value in options.items()}


def refused(options: dict[str, str], *, streaming: bool = False) -> OptionError:
    with pytest.raises(OptionError) as caught:
        parse_source({**CLUSTER, **options}, streaming=streaming)
    return caught.value


# -- what to read


def test_a_pattern_is_found_anywhere_in_a_name_as_the_connector_finds_it() -> None:
    found = parse_source({**CLUSTER, "subscribePattern": " orders-[0-9]+ "}, streaming=False)
    assert found.topics == ()
    assert found.assigned == {}
    assert found.pattern is not None
    assert found.pattern.search("my-orders-7")
    assert not found.pattern.search("orders-x")


@pytest.mark.parametrize("pattern", ["", "  ", "(", "a{2,1}"])
def test_a_pattern_that_is_none(pattern: str) -> None:
    error = refused({"subscribePattern": pattern})
    assert error.option == "subscribePattern"
    assert repr(pattern) in str(error)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"subscribe": "a", "subscribePattern": "a"},
        {"subscribePattern": "a", "assign": '{"a":[0]}'},
        {"subscribe": "a", "subscribePattern": "a", "assign": '{"a":[0]}'},
    ],
)
def test_exactly_one_option_says_what_is_read(given: dict[str, str]) -> None:
    text = str(refused(given))
    assert "give exactly one of subscribe, subscribePattern, assign" in text
    assert all(name in text for name in given)


# -- where to start and to end


def test_one_time_goes_before_times_and_times_before_offsets() -> None:
    by_time = {
        "startingOffsetsByTimestamp": '{"t":{"0":7}}',
        "endingOffsetsByTimestamp": '{"t":{"0":9}}',
    }
    offsets = {"startingOffsets": '{"t":{"0":1}}', "endingOffsets": '{"t":{"0":2}}'}
    found = batch(startingTimestamp="5", endingTimestamp="6", **by_time, **offsets)
    assert found.starting == Bound("startingTimestamp", AtTime(5, or_latest=False))
    assert found.ending == Bound("endingTimestamp", AtTime(6, or_latest=True))
    found = batch(**by_time, **offsets)
    assert found.starting.at == AtTime({"t": {0: 7}}, or_latest=False)
    assert found.ending.at == AtTime({"t": {0: 9}}, or_latest=True)
    found = batch(**offsets)
    assert (found.starting.at, found.ending.at) == ({"t": {0: 1}}, {"t": {0: 2}})


def test_what_is_overruled_is_not_looked_at_as_in_the_connector() -> None:
    assert (
        batch(startingTimestamp="5", startingOffsets="latest").starting.option
        == "startingTimestamp"
    )


def test_a_start_without_a_record_that_young() -> None:
    for strategy, or_latest in [("error", False), ("latest", True), ("LATEST", True)]:
        found = stream(startingTimestamp="5", startingOffsetsByTimestampStrategy=strategy)
        assert found.starting.at == AtTime(5, or_latest)
    error = refused({"subscribe": "t", "startingOffsetsByTimestampStrategy": "earliest"})
    assert "write error or latest" in str(error)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("startingTimestamp", "yesterday"),
        ("startingTimestamp", "-1"),
        ("startingTimestamp", "9223372036854775808"),
        ("endingTimestamp", "1.5"),
        ("startingOffsetsByTimestamp", "5"),
        ("startingOffsetsByTimestamp", '{"t":5}'),
        ("startingOffsetsByTimestamp", '{"t":{"0":-1}}'),
        ("startingOffsetsByTimestamp", '{"t":{"0":"5"}}'),
        ("endingOffsetsByTimestamp", '{"t":{"first":5}}'),
        ("endingOffsetsByTimestamp", "{}"),
        ("startingOffsets", "{}"),
        ("startingOffsets", "newest"),
        ("startingOffsets", '{"t":{"0":9223372036854775808}}'),
    ],
)
def test_a_bound_that_cannot_be_read(option: str, value: str) -> None:
    error = refused({"subscribe": "t", option: value})
    assert error.option == option
    assert value in str(error)


@pytest.mark.parametrize(
    ("starting", "ending", "why"),
    [
        ({"startingTimestamp": "9"}, {"endingTimestamp": "8"}, "is before startingTimestamp, 9"),
        (
            {"startingOffsetsByTimestamp": '{"t":{"0":9}}'},
            {"endingOffsetsByTimestamp": '{"t":{"0":8}}'},
            "t-0 would end before its start, 9",
        ),
        (
            {"startingOffsets": '{"t":{"0":9,"1":0}}'},
            {"endingOffsets": '{"t":{"0":9}}'},
            "must name the partitions that startingOffsets names: t-1",
        ),
        (
            {"startingOffsets": '{"t":{"0":9}}'},
            {"endingOffsets": '{"t":{"0":8}}'},
            "t-0 would end before its start, 9",
        ),
    ],
)
def test_bounds_that_contradict_each_other(
    starting: dict[str, str], ending: dict[str, str], why: str
) -> None:
    error = refused({"subscribe": "t", **starting, **ending})
    assert error.option == next(iter(ending))
    assert why in str(error)


def test_bounds_that_meet() -> None:
    same = '{"t":{"0":9,"1":-1}}'
    assert batch(startingOffsets='{"t":{"0":9,"1":-2}}', endingOffsets=same).ending.at == {
        "t": {0: 9, 1: -1}
    }
    batch(startingTimestamp="9", endingTimestamp="9")


@pytest.mark.parametrize("option", ["endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"])
def test_a_stream_has_no_end(option: str) -> None:
    error = refused({"subscribe": "t", option: "5"}, streaming=True)
    assert error.option == option
    assert "a streaming query has no end" in str(error)


# -- how much, and how it is cut


def test_how_much_a_micro_batch_takes() -> None:
    assert stream().admission == Admission(None, None, 900_000)
    found = stream(minOffsetsPerTrigger="5", maxOffsetsPerTrigger="9", maxTriggerDelay="30s")
    assert found.admission == Admission(5, 9, 30_000)
    error = refused(
        {"subscribe": "t", "minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"}, streaming=True
    )
    assert "'minOffsetsPerTrigger' = 9: is above maxOffsetsPerTrigger, 5" in str(error)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("250", 250),
        ("250ms", 250),
        ("30s", 30_000),
        ("15m", 900_000),
        ("15 MIN", 900_000),
        ("2h", 7_200_000),
        ("1d", 86_400_000),
        ("0", 0),
    ],
)
def test_times_are_written_as_spark_writes_them(text: str, ms: int) -> None:
    assert stream(maxTriggerDelay=text).admission.max_delay_ms == ms


@pytest.mark.parametrize("text", ["", "soon", "-1s", "5 fortnights", "1.5h"])
def test_a_delay_that_is_none(text: str) -> None:
    assert refused({"subscribe": "t", "maxTriggerDelay": text}, streaming=True).option == (
        "maxTriggerDelay"
    )


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("maxOffsetsPerTrigger", "5"),
        ("minOffsetsPerTrigger", "5"),
        ("maxTriggerDelay", "5s"),
        ("commitOffsetsGroup", "g"),
    ],
)
def test_a_batch_has_no_triggers(option: str, value: str) -> None:
    error = refused({"subscribe": "t", option: value})
    assert error.option == option
    assert "only a streaming query" in str(error)


def test_how_ranges_are_cut() -> None:
    assert batch().splitting == Splitting(None, None)
    found = stream(minPartitions="4", maxRecordsPerPartition="100")
    assert found.splitting == Splitting(4, 100)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("minPartitions", "0"),
        ("minPartitions", "two"),
        ("maxRecordsPerPartition", "-1"),
        ("minOffsetsPerTrigger", "0"),
        ("kafkaConsumer.pollTimeoutMs", "0"),
        ("fetchOffset.numRetries", "-1"),
        ("fetchOffset.retryIntervalMs", "-1"),
    ],
)
def test_a_number_below_what_makes_sense(option: str, value: str) -> None:
    error = refused({"subscribe": "t", option: value}, streaming=True)
    assert error.option == option
    assert "a whole number of at least" in str(error)


# -- the cluster, and patience with it


def test_patience() -> None:
    assert batch().patience == Patience(120_000, 3, 10)
    options = {
        "kafkaConsumer.pollTimeoutMs": "500",
        "fetchOffset.numRetries": "0",
        "fetchOffset.retryIntervalMs": "7",
    }
    assert batch(**options).patience == Patience(500, 0, 7)


def test_groups_are_accepted_and_none_is_joined() -> None:
    found = batch(groupIdPrefix="team-a", **kafka(group_id="g"))
    assert "group.id" not in found.client
    for option in ("groupIdPrefix", "kafka.group.id", "commitOffsetsGroup"):
        error = refused({"subscribe": "t", option: " "}, streaming=True)
        assert error.option == option


def test_the_group_that_is_told_of_progress() -> None:
    assert stream().commit_offsets_group is None
    assert stream(commitOffsetsGroup=" seen ").commit_offsets_group == "seen"


def test_isolation_and_other_settings_of_the_client() -> None:
    found = batch(**kafka(isolation_level="read_committed", fetch_max_bytes="1000"))
    assert found.client["isolation.level"] == "read_committed"
    assert found.client["fetch.max.bytes"] == "1000"
    error = refused({"subscribe": "t", **kafka(isolation_level="read_everything")})
    assert error.option == "kafka.isolation.level"


@pytest.mark.parametrize(
    ("option", "why"),
    [
        ("kafka.auto.offset.reset", "startingOffsets"),
        ("kafka.enable.auto.commit", "checkpoint"),
        ("kafka.key.deserializer", "convert the column"),
        ("kafka.value.deserializer", "convert the column"),
        ("kafka.interceptor.classes", "Java"),
        ("kafka.partitioner.class", "give a column partition"),
        ("spark.kafka.consumer.cache.capacity", "keeps its own connections"),
    ],
)
def test_settings_that_are_not_the_users(option: str, why: str) -> None:
    error = refused({"subscribe": "t", option: "secret-or-not"})
    assert error.option == option
    assert why in str(error)


def test_a_secret_is_not_repeated_in_an_error() -> None:
    for key in ("sasl.pasword", "ssl.key.pasword"):
        assert "hunter2" not in str(refused({"subscribe": "t", f"kafka.{key}": "hunter2"}))
    login = kafka(security_protocol="SASL_SSL", sasl_mechanism="PLAIN", sasl_jaas_config="hunter2")
    text = str(refused({"subscribe": "t", **login}))
    assert text.startswith("option 'kafka.sasl.jaas.config': is not `LoginModule required ")
    assert "hunter2" not in text


def test_tls_is_what_the_client_makes_of_it() -> None:
    """Files are read where the connections are made, which may be another machine."""
    tls = kafka(security_protocol="SSL", ssl_truststore_location="/there/ca.pem")
    assert batch(**tls).client["ssl.truststore.location"] == "/there/ca.pem"
    error = refused({"subscribe": "t", **tls, **kafka(ssl_enabled_protocols="TLSv1")})
    assert error.option == "kafka.ssl.enabled.protocols"


def test_a_login_needs_all_that_its_mechanism_needs() -> None:
    options = kafka(security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_username="a")
    assert refused({"subscribe": "t", **options}).option == "kafka.sasl.password"
    client = batch(**options, **kafka(sasl_password="pw")).client
    assert client["sasl.password"] == "pw"


def test_plain_text_needs_nothing() -> None:
    assert batch(**kafka(security_protocol="PLAINTEXT")).client["security.protocol"] == "PLAINTEXT"


# -- columns


def test_columns_are_the_connectors_or_those_named() -> None:
    every = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
    assert batch().columns == every
    assert batch(includeHeaders="true").columns == (*every, "headers")
    assert batch(columns="offset, VALUE").columns == ("offset", "value")
    found = batch(columns="value,headers", includeHeaders="true")
    assert found.columns == ("value", "headers")
    assert parse_columns({"Columns": "timestamptype"}) == ("timestampType",)


@pytest.mark.parametrize(
    "columns", ["", "value,", "value,value", "value,Value", "vlaue", "headers"]
)
def test_columns_that_there_are_not(columns: str) -> None:
    error = refused({"subscribe": "t", "columns": columns})
    assert error.option == "columns"
    assert "name some of key, value" in str(error)


# -- when a frame is made


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"maxOffsetsPerTrigger": "0"}, "at least 1"),
        ({"maxOffsetsPerTrigger": "10", "failOnDataLoss": "maybe"}, "true or false"),
        ({"endingOffsets": "earliest"}, "cannot end at the earliest"),
        ({"maxOffsetsPerTrigger": "10", "endingOffsets": "latest"}, "has no end"),
    ],
)
def test_a_frame_that_is_neither_is_refused_for_what_it_was_meant_to_be(
    options: dict[str, str], why: str
) -> None:
    with pytest.raises(OptionError, match=why):
        check_source({**CLUSTER, "subscribe": "t", **options})


@pytest.mark.parametrize("options", [{"maxOffsetsPerTrigger": "10"}, {"endingOffsets": "latest"}])
def test_a_frame_that_is_one_of_both_passes(options: dict[str, str]) -> None:
    check_source({**CLUSTER, "subscribe": "t", **options})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"t":{"0":1,"00":2}}', "partition '00'"),
        ('{"t":{"\u0663":1}}', "partition"),
        ('{"t":{"0":1,"0":2}}', "names '0' twice"),
        ('{"t":{"0":1},"t":{"1":2}}', "names 't' twice"),
    ],
)
def test_a_partition_is_named_once(text: str, why: str) -> None:
    assert why in str(refused({"subscribe": "t", "startingOffsets": text}))
