"""Converts (topic, number) pairs to the lists by topic in messages; names partitions."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from ..protocol.types import TopicPartition

V = TypeVar("V")
Named = TopicPartition | tuple[str, int]
Partitions = Iterable[Named]


def name_of(partition: Named) -> str:
    """Return a partition's name as Kafka writes it: `topic-0`."""
    return f"{partition[0]}-{partition[1]}"


def by_topic(partitions: Partitions) -> dict[str, list[int]]:
    """Group the partition numbers by topic."""
    found: dict[str, list[int]] = {}
    for topic, index in partitions:
        found.setdefault(topic, []).append(index)
    return found


def values_by_topic(values: Mapping[TopicPartition, V]) -> dict[str, list[tuple[int, V]]]:
    """Group the partition numbers by topic, each with its value."""
    found: dict[str, list[tuple[int, V]]] = {}
    for (topic, index), value in values.items():
        found.setdefault(topic, []).append((index, value))
    return found
