"""Writes records through the producer of who asks: sent in order, each with its own outcome."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...client.errors import ClientError
from ...client.producer.delivery import Delivery
from ...client.producer.producer import Producer
from ...client.records import RecordMetadata
from ...protocol.records.record_batch import Headers
from ...runtime.errors import MinikafkaError
from .clients import Held
from .errors import RestError, answer_of
from .formats import TYPES, form_of, ms_of, to_bytes
from .media import BINARY


class Outgoing(NamedTuple):
    """One record to write."""

    key: bytes | None
    value: bytes | None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: Headers = ()


Outcome = RecordMetadata | RestError


async def send(
    producer: Producer[bytes, bytes], held: Held, topic: str, record: Outgoing
) -> Delivery | RestError:
    """Hand one record to the producer, once it has room; return its delivery, or its error."""
    try:
        if record.partition is not None:
            await held.partitions(topic, record.partition)
        await producer.drain()
        return producer.send(
            topic,
            record.value,
            record.key,
            partition=record.partition,
            timestamp_ms=record.timestamp_ms,
            headers=record.headers,
        )
    except MinikafkaError as error:
        return answer_of(error, is_v2=False)


async def settled(delivery: Delivery | RestError) -> Outcome:
    """Wait for the outcome of one record; the producer's delivery.timeout.ms bounds the wait."""
    if isinstance(delivery, RestError):
        return delivery
    try:
        return await delivery
    except ClientError as error:
        return answer_of(error, is_v2=False)


async def send_all(held: Held, topic: str, records: Sequence[Outgoing]) -> list[Outcome]:
    """Write records, and return the outcome of each, in order.

    Raise RestError if there is no such topic, BootstrapError if no broker can be reached. A record
    that is refused does not keep the others out.
    """
    await held.partitions(topic)
    producer = await held.producer()
    deliveries = [await send(producer, held, topic, record) for record in records]
    return [await settled(each) for each in deliveries]


class Typed(NamedTuple):
    """A v3 record, and what its acknowledgement says about key and value."""

    record: Outgoing
    sizes: dict[str, Any]


def record_of(given: Any, where: str = "record") -> Typed:
    """Return the record that a v3 body stands for, which has its schema; raise RestError."""
    headers = tuple(
        (one["name"], to_bytes(one.get("value"), BINARY, f"{where}.headers"))
        for one in given.get("headers", ())
    )
    key, about_key = _datum(given.get("key"), f"{where}.key")
    value, about_value = _datum(given.get("value"), f"{where}.value")
    index, when = given.get("partition_id"), given.get("timestamp")
    outgoing = Outgoing(
        key,
        value,
        None if index is None else int(index),
        None if when is None else ms_of(when, f"{where}.timestamp"),
        headers,
    )
    return Typed(outgoing, {"key": about_key, "value": about_value})


def _datum(given: Any, where: str) -> tuple[bytes | None, dict[str, Any] | None]:
    if given is None:
        return None, None
    form = form_of(given.get("type"), where)
    data = to_bytes(given.get("data"), form, f"{where}.data")
    return data, {"type": TYPES[form], "size": len(data or b"")}
