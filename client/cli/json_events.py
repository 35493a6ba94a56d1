"""Prints events as JSON, one a line, as the tools of Kafka's system tests do."""

import json
import time
from collections.abc import Iterable

from ...protocol.types import TopicPartition


def tell(name: str, **fields: object) -> None:
    """Print one event: its time in ms since the epoch, its name, then `fields` in their order."""
    event = {"timestamp": time.time_ns() // 1_000_000, "name": name, **fields}
    print(json.dumps(event, separators=(",", ":"), ensure_ascii=False), flush=True)


def text_of(data: bytes | None) -> str | None:
    """Return a key or a value as text, or None if it is null. Bytes not UTF-8 become U+FFFD."""
    return None if data is None else data.decode(errors="replace")


def listed(partitions: Iterable[TopicPartition]) -> list[dict[str, object]]:
    """Return partitions in the form that JSON events have."""
    return [{"topic": one.topic, "partition": one.partition} for one in partitions]
