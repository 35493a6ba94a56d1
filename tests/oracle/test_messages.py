"""Our messages against kafka-python 3 (Kafka's own definitions) and kio: declared alike, and every
message we write is read by them and written again as the same bytes."""

import io
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from minikafka.protocol import codec
from minikafka.protocol.messages.api_versions import ApiVersionsResponse
from minikafka.protocol.schema import REQUESTS, Versions, shape_of

from ..protocol.strategies import every_version, message_classes, messages_of, name_of
from . import facts, kafka_python

pytestmark = pytest.mark.slow

EVERY_VERSION = pytest.mark.parametrize(
    ("cls", "version"), list(every_version(kafkas_only=True)), ids=name_of
)
FEW = settings(
    max_examples=3,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)
IN_KAFKA_PYTHON = pytest.mark.parametrize(
    ("cls", "version"),
    [case for case in every_version(kafkas_only=True) if kafka_python.has(case[0].__name__)],
    ids=name_of,
)
NEWER_THAN_OURS = {"InitProducerIdRequest": 6, "InitProducerIdResponse": 6}


def theirs_in_kio(cls: type, version: int) -> Any:
    shape = shape_of(cls)
    load: Any = load_request_schema if cls is REQUESTS[shape.api_key] else load_response_schema
    return load(shape.api_key, version)


@pytest.mark.parametrize(
    "cls",
    [cls for cls in message_classes(kafkas_only=True) if kafka_python.has(cls.__name__)],
    ids=name_of,
)
def test_versions_are_those_of_kafka(cls: type) -> None:
    definition = kafka_python.definition(cls.__name__)
    known = Versions.parse(definition["validVersions"])
    ours = shape_of(cls).versions
    assert ours.first == known.first
    assert ours.last == (known.last if cls.__name__ not in NEWER_THAN_OURS else known.last - 1)
    assert shape_of(cls).flexible == Versions.parse(definition["flexibleVersions"])
    assert shape_of(cls).api_key == definition["apiKey"]


@IN_KAFKA_PYTHON
def test_fields_are_those_of_kafka(cls: type, version: int) -> None:
    definition = kafka_python.definition(cls.__name__)
    assert facts.ours(cls, version) == facts.by_definition(definition["fields"], version)


@IN_KAFKA_PYTHON
def test_defaults_are_those_of_kafka(cls: type, version: int) -> None:
    definitions = facts.fields_by_definition(kafka_python.definition(cls.__name__)["fields"])
    for struct, fields in zip(facts.structs_of(cls), definitions, strict=True):
        ours = facts.our_defaults(struct, version)
        theirs = facts.defaults_by_definition(fields, version)
        # A field that no version of ours has need not be declared. One struct of ours may serve two
        # of Kafka's, of which one has in no version what is absent in this one (OffsetFetch).
        absent = facts.absent_in(struct, version)
        assert ours == {name: theirs.get(name, absent.get(name)) for name in ours}, struct


@EVERY_VERSION
def test_fields_are_those_of_kio(cls: type, version: int) -> None:
    ours = facts.without_units(facts.ours(cls, version))
    assert ours == facts.by_kio(theirs_in_kio(cls, version))


@IN_KAFKA_PYTHON
def test_kafka_python_reads_and_writes_the_same_bytes(cls: type, version: int) -> None:
    other = kafka_python.message(cls.__name__, version)

    @FEW
    @given(st.data())
    def check(data: st.DataObject) -> None:
        message = data.draw(messages_of(cls, version, foreign=True))
        if isinstance(message, ApiVersionsResponse):
            message.error_code = 0  # kafka-python reads any error as an answer in version 0
        written = codec.encode_bytes(message, version)
        read = other.decode(written, version=version)
        read._header = None  # decode leaves it unset, encode looks at it
        assert bytes(read.encode(version=version)) == written

    check()


@EVERY_VERSION
def test_kio_reads_and_writes_the_same_bytes(cls: type, version: int) -> None:
    entity = theirs_in_kio(cls, version)
    read, write = entity_reader(entity), entity_writer(entity)

    @FEW
    @given(st.data())
    def check(data: st.DataObject) -> None:
        written = codec.encode_bytes(data.draw(messages_of(cls, version, foreign=True)), version)
        message, size = read(written, 0)
        assert size == len(written)
        buffer = io.BytesIO()
        write(buffer, message)
        assert buffer.getvalue() == written

    check()
