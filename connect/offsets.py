"""Source offsets in Connect's bytes: keys and values of the offsets topic, and what they mean.

Pure. A key is JSON `["CONNECTOR",{partition}]`, a value a JSON object, or null for no offset
(OffsetStorageWriter of org.apache.kafka.connect.storage). Partitions are equal if their fields are,
in whatever order; a partition keeps the bytes of its first key, because compaction compares bytes.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from .api import SourceOffset, SourcePartition

Pair = tuple[SourcePartition, SourceOffset | None]
"""A source partition and its offset; None removes it."""
Bytes = tuple[bytes, bytes | None]
"""Key and value of a record of the offsets topic."""


class _Entry(NamedTuple):
    key: bytes
    partition: SourcePartition
    offset: SourceOffset


def to_json(value: Any) -> bytes:
    """Return compact JSON. Raise TypeError or ValueError for what JSON cannot hold."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def identity(partition: SourcePartition) -> str:
    """Return a text that is equal for equal partitions."""
    return json.dumps(partition, sort_keys=True)


class OffsetMap:
    """The newest offset of each source partition, by connector."""

    def __init__(self) -> None:
        self._entries: dict[str, dict[str, _Entry]] = {}

    def apply(self, key: bytes | None, value: bytes | None) -> str | None:
        """Take a record of the offsets topic; return why it is left if it is none of Connect's."""
        try:
            connector, partition = json.loads(key or b"null")
            offset = None if value is None else json.loads(value)
            if not isinstance(connector, str) or not isinstance(partition, dict):
                raise ValueError("the key is no connector with a partition")
            if offset is not None and not isinstance(offset, dict):
                raise ValueError("the value is no object")
        except (ValueError, TypeError) as error:
            return f"key {(key or b'')[:200]!r}: {error}"
        entries = self._entries.setdefault(connector, {})
        if offset is None:
            entries.pop(identity(partition), None)
        else:
            entries[identity(partition)] = _Entry(key or b"", partition, offset)
        return None

    def records(self, connector: str, pairs: Iterable[Pair]) -> list[Bytes]:
        """Return the records that set these offsets; `apply` them once they are written.

        Raise TypeError or ValueError for a partition or an offset that JSON cannot hold.
        """
        entries = self._entries.get(connector, {})
        made: list[Bytes] = []
        for partition, offset in pairs:
            entry = entries.get(identity(partition))
            key = entry.key if entry is not None else to_json([connector, dict(partition)])
            made.append((key, None if offset is None else to_json(dict(offset))))
        return made

    def of(self, connector: str) -> list[tuple[SourcePartition, SourceOffset]]:
        """Return all offsets of a connector."""
        entries = self._entries.get(connector, {}).values()
        return [(entry.partition, entry.offset) for entry in entries]

    def get(self, connector: str, partition: SourcePartition) -> SourceOffset | None:
        """Return the offset of one partition, or None."""
        entry = self._entries.get(connector, {}).get(identity(partition))
        return None if entry is None else entry.offset

    def all_records(self) -> list[Bytes]:
        """Return a record for each offset there is."""
        return [
            (entry.key, to_json(entry.offset))
            for entries in self._entries.values()
            for entry in entries.values()
        ]


class Reader:
    """The offsets of one connector; where its own topic has none, those of the worker's."""

    def __init__(self, connector: str, *maps: OffsetMap) -> None:
        self._connector = connector
        self._maps = maps

    def read(self, partition: SourcePartition) -> SourceOffset | None:
        """Return the offset of `partition`, or None if there is none."""
        for one in self._maps:
            found = one.get(self._connector, partition)
            if found is not None:
                return found
        return None

    def read_all(
        self, partitions: Iterable[SourcePartition]
    ) -> list[tuple[SourcePartition, SourceOffset | None]]:
        """Return the offset of each partition, in order."""
        return [(partition, self.read(partition)) for partition in partitions]

    def listed(self) -> list[tuple[SourcePartition, SourceOffset]]:
        """Return all offsets of the connector."""
        found: dict[str, tuple[SourcePartition, SourceOffset]] = {}
        for one in reversed(self._maps):
            for partition, offset in one.of(self._connector):
                found[identity(partition)] = (partition, offset)
        return list(found.values())

    def frozen(self) -> "Reader":
        """Return a copy that another process may be given."""
        copy = OffsetMap()
        for key, value in copy.records(self._connector, self.listed()):
            copy.apply(key, value)
        return Reader(self._connector, copy)


def as_mapping(pairs: Iterable[tuple[SourcePartition, Any]]) -> dict[Any, Mapping[str, Any] | None]:
    """Return offsets by partition, each a tuple of its items, as `alter_offsets` takes them."""
    return {tuple(partition.items()): offset for partition, offset in pairs}
