"""The way of records between a task and the brokers: converters and transformations.

A source's records are transformed, then converted; a sink's are converted, then transformed. Each
record ends in an outcome. An error is an outcome too, with the stage where it came up: `tolerance`
decides what becomes of it. Never here: producing, consuming, waiting.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from ..protocol.records.record_batch import Headers
from .chain import Find, Props, StepFailed, make_converter, make_steps, passed
from .converters.converter import Converter, HeaderConverter
from .records import Header, SinkRecord, SourceRecord
from .tolerance import Consumed, Failed, Stage, name_of


class Produced(NamedTuple):
    """One record to be produced."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int | None


class Dropped(NamedTuple):
    """A transformation has dropped the record, which counts as processed."""


DROPPED = Dropped()


@dataclass(slots=True, kw_only=True)
class ConsumedRecord(SinkRecord):
    """A sink's record with the record that it was made of, for dead letters."""

    original: Consumed


SourceOutcome = list[Produced] | Dropped | Failed
SinkOutcome = SinkRecord | list[SinkRecord] | Dropped | Failed
"""A list only where a transformation has made several records of one."""


def original_of(record: SinkRecord) -> Consumed | None:
    """Return the record that a task was given `record` for; None if the task has made it itself."""
    return record.original if isinstance(record, ConsumedRecord) else None


class _Pipeline:
    """The converters and transformations of one task. Not for use by two threads at once."""

    def __init__(self, props: Props, worker_props: Props, find: Find) -> None:
        """Make the plugins. Raise BadConfig, or what `find(class name, kind)` raises."""
        self._key: Converter = make_converter("key.converter", props, worker_props, find)
        self._value: Converter = make_converter("value.converter", props, worker_props, find)
        self._header: HeaderConverter = make_converter(
            "header.converter", props, worker_props, find
        )
        self._steps = make_steps(props, find)

    def close(self) -> None:
        """Close every transformation, then raise the first error of them."""
        errors = []
        for step in self._steps:
            try:
                step.transformation.close()
            except Exception as error:  # any class of a user
                errors.append(error)
        if errors:
            raise errors[0]

    def _transformed(self, record: Any) -> list[Any] | Dropped | Failed:
        try:
            return passed(record, self._steps) or DROPPED
        except StepFailed as failure:
            return Failed(Stage.TRANSFORMATION, failure.error, name_of(failure.plugin))

    def _failed(self, stage: Stage, error: Exception) -> Failed:
        converters = {Stage.KEY_CONVERTER: self._key, Stage.VALUE_CONVERTER: self._value}
        return Failed(stage, error, name_of(type(converters.get(stage, self._header))))


class SourcePipeline(_Pipeline):
    """Makes records for the producer of the records of a source task."""

    def apply(self, records: Sequence[SourceRecord]) -> list[SourceOutcome]:
        """Return the outcome of each record, in order. Whatever plugins raise is an outcome."""
        if not self._steps:
            return [self._converted((each,)) if each.topic else DROPPED for each in records]
        found = [self._transformed(each) if each.topic else DROPPED for each in records]
        return [self._converted(each) if isinstance(each, list) else each for each in found]

    def _converted(self, records: Sequence[SourceRecord]) -> list[Produced] | Failed:
        stage = Stage.HEADER_CONVERTER
        made = []
        try:
            for record in records:
                topic, headers = record.topic, record.headers
                stage = Stage.HEADER_CONVERTER
                written = self._headers(topic, headers) if headers else ()
                stage = Stage.KEY_CONVERTER
                key = self._key.from_connect(topic, record.key_schema, record.key)
                stage = Stage.VALUE_CONVERTER
                value = self._value.from_connect(topic, record.value_schema, record.value)
                made.append(
                    Produced(topic, record.partition, key, value, written, record.timestamp_ms)
                )
        except Exception as error:  # any class of a user
            return self._failed(stage, error)
        return made

    def _headers(self, topic: str, headers: tuple[Header, ...]) -> Headers:
        convert = self._header.from_header
        return [(key, convert(topic, key, schema, value)) for key, value, schema in headers]


class SinkPipeline(_Pipeline):
    """Makes records for a sink task of the records of its consumer."""

    def apply(self, records: Sequence[Consumed]) -> list[SinkOutcome]:
        """Return the outcome of each record, in order. Whatever plugins raise is an outcome."""
        found = [self._converted(record) for record in records]
        if not self._steps:
            return found  # type: ignore[return-value]
        return [self._changed(each) if isinstance(each, ConsumedRecord) else each for each in found]

    def _converted(self, record: Consumed) -> ConsumedRecord | Failed:
        topic, headers = record.topic, record.headers
        stage = Stage.KEY_CONVERTER
        try:
            key_schema, key = self._key.to_connect(topic, record.key)
            stage = Stage.VALUE_CONVERTER
            value_schema, value = self._value.to_connect(topic, record.value)
            stage = Stage.HEADER_CONVERTER
            read = self._headers(topic, headers) if headers else ()
        except Exception as error:  # any class of a user
            return self._failed(stage, error)
        return ConsumedRecord(
            topic=topic,
            value=value,
            key=key,
            value_schema=value_schema,
            key_schema=key_schema,
            headers=read,
            timestamp_ms=record.timestamp_ms if record.timestamp_ms >= 0 else None,
            partition=record.partition,
            offset=record.offset,
            origin=record.topic_partition,
            timestamp_type=record.timestamp_type,
            original=record,
        )

    def _headers(self, topic: str, headers: Headers) -> tuple[Header, ...]:
        convert = self._header.to_header
        read = ((key, convert(topic, key, data)) for key, data in headers)
        return tuple(Header(key, value, schema) for key, (schema, value) in read)

    def _changed(self, record: ConsumedRecord) -> SinkOutcome:
        found = self._transformed(record)
        if not isinstance(found, list):
            return found
        kept = [_with_original(each, record) for each in found]
        return kept[0] if len(kept) == 1 else kept


def _with_original(made: SinkRecord, source: ConsumedRecord) -> SinkRecord:
    """Return a record that a transformation has made with what it was made of."""
    if isinstance(made, ConsumedRecord):
        return made
    shared = {each.name: getattr(made, each.name) for each in fields(SinkRecord)}
    place = {"origin": source.origin, "offset": source.offset, "partition": source.partition}
    return ConsumedRecord(**(shared | place), original=source.original)
