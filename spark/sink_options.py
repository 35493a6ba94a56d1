"""Options of the sink, read once into typed values: strings in, frozen values out.

Names and meanings are those of Spark's own Kafka connector, with delivery=exactly_once added. A
wrong option raises OptionError before any job starts.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

from ..client.config import ProducerConfig
from .options import OptionError, check_names, client_settings, lower_names, whole_number

_KNOWN: Final = (
    "batchId",
    "dead_letters",
    "delivery",
    "exactlyOnceFallback",
    "includeHeaders",
    "sinkId",
    "topic",
)
_ONLY_EXACTLY_ONCE: Final = ("batchId", "exactlyOnceFallback", "sinkId")
_SINK_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,200}")
TRANSACTION_TIMEOUT_MS: Final = 900_000
"""The longest timeout that a cluster allows by default; a transaction must outlast a micro-
batch."""


class Delivery(StrEnum):
    """The guarantee for rows when a task, a query or a broker fails."""

    AT_LEAST_ONCE = "at_least_once"
    EXACTLY_ONCE = "exactly_once"


class Fallback(StrEnum):
    """The behaviour of exactly_once on a cluster that cannot commit a group of transactions."""

    REFUSE = "refuse"
    LEDGER = "ledger"


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The options of a sink: the topic, the client and the guarantee."""

    client: dict[str, str]
    """Client settings: the kafka.* options without their prefix."""
    topic: str | None
    """The topic of every row; None if each row names its own."""
    dead_letters: str | None = None
    """The topic of rows that are refused; None if such a row fails its task."""
    delivery: Delivery = Delivery.AT_LEAST_ONCE
    fallback: Fallback = Fallback.REFUSE
    sink_id: str | None = None
    batch_id: int | None = None
    """The number of a batch job; one already committed under this `sink_id` is not written
    again."""


def parse_sink(options: Mapping[str, str], *, streaming: bool = False) -> SinkOptions:
    """Read the options of a sink; OptionError names the option, its value and what is allowed."""
    options = lower_names(options)
    check_names(options, _KNOWN)
    topic = options.get("topic")
    if topic is not None and not topic.strip():
        raise OptionError("topic", topic, "name a topic, or leave it out and give a topic column")
    dead_letters = options.get("dead_letters")
    if dead_letters is not None and not dead_letters.strip():
        raise OptionError("dead_letters", dead_letters, "name a topic, or leave it out")
    if dead_letters is not None and dead_letters == topic:
        raise OptionError("dead_letters", dead_letters, "name another topic than that of the rows")
    delivery = _one_of(Delivery, options, "delivery", Delivery.AT_LEAST_ONCE)
    if delivery is not Delivery.EXACTLY_ONCE:
        for name in _ONLY_EXACTLY_ONCE:
            if name.lower() in options:
                value = options[name.lower()]
                raise OptionError(name, value, "only delivery=exactly_once knows it")
    sink_id, batch_id = _sink_and_batch(options, streaming=streaming)
    return SinkOptions(
        client=_client(options, delivery),
        topic=topic,
        dead_letters=dead_letters,
        delivery=delivery,
        fallback=_one_of(Fallback, options, "exactlyOnceFallback", Fallback.REFUSE),
        sink_id=sink_id,
        batch_id=batch_id,
    )


def _sink_and_batch(
    options: Mapping[str, str], *, streaming: bool
) -> tuple[str | None, int | None]:
    sink_id = options.get("sinkid")
    if sink_id is not None and not _SINK_ID.fullmatch(sink_id):
        why = "1 to 200 letters, digits and . _ : - are allowed"
        raise OptionError("sinkId", sink_id, why)
    batch_id = whole_number(options, "batchId", at_least=0)
    if batch_id is not None and streaming:
        raise OptionError("batchId", batch_id, "a streaming query counts its batches itself")
    if batch_id is not None and sink_id is None:
        raise OptionError("batchId", batch_id, "give sinkId too: batches are counted for each sink")
    return sink_id, batch_id


def _client(options: Mapping[str, str], delivery: Delivery) -> dict[str, str]:
    client = client_settings(options, ProducerConfig)
    if client.get("acks") == "0":
        raise OptionError("kafka.acks", "0", "a task must know what was written: all or 1")
    if "transactional.id" in client:
        why = "the sink names its transactions itself: set delivery=exactly_once"
        raise OptionError("kafka.transactional.id", client["transactional.id"], why)
    if delivery is Delivery.EXACTLY_ONCE:
        if client.get("acks", "all") not in ("all", "-1"):
            raise OptionError("kafka.acks", client["acks"], "exactly_once needs acks=all")
        if client.get("enable.idempotence", "true").strip().lower() == "false":
            raise OptionError("kafka.enable.idempotence", "false", "exactly_once needs it")
    return client


Word = TypeVar("Word", bound=StrEnum)


def _one_of(words: type[Word], options: Mapping[str, str], option: str, default: Word) -> Word:
    text = options.get(option.lower(), default).strip().lower()
    allowed = [str(word) for word in words]
    if text not in allowed:
        raise OptionError(option, options[option.lower()], f"write {' or '.join(allowed)}")
    return words(text)
