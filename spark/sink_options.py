"""Options of the sink, read once into typed values: strings in, frozen values out.

Names and meanings are those of Spark's own Kafka connector; what is wrong is an OptionError before
any job starts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ..client.config import ProducerConfig
from .options import OptionError, check_names, client_settings, lower_names

_KNOWN: Final = ("includeHeaders", "topic")


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Where to write."""

    client: dict[str, str]
    """Client settings: the kafka.* options without their prefix."""
    topic: str | None
    """For every row; None when each row names its own."""


def parse_sink(options: Mapping[str, str]) -> SinkOptions:
    """Read the options of a sink; OptionError names the option, its value and what is allowed."""
    options = lower_names(options)
    check_names(options, _KNOWN)
    topic = options.get("topic")
    if topic is not None and not topic.strip():
        raise OptionError("topic", topic, "name a topic, or leave it out and give a topic column")
    client = client_settings(options, ProducerConfig)
    if client.get("acks") == "0":
        raise OptionError("kafka.acks", "0", "a task must know what was written: all or 1")
    return SinkOptions(client=client, topic=topic)
