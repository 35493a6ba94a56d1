"""The small text files of a data directory: checkpoints, meta.properties, clean-stop mark.

    offset checkpoint     0\\n  count\\n  (topic SP partition SP offset \\n)*
                          with a last row of our own, `#crc32c 0 <CRC-32C of all before the row>`:
                          to Kafka a partition that it does not have; no topic has such a name
    meta.properties       version=1, cluster.id=, node.id=, directory.id=
    .kafka_cleanshutdown  {"version":0,"brokerEpoch":N}

Text in, values out: nothing here touches a file. A checkpoint that is empty, torn or wrong, even in
one digit, is decoded as None, and the caller continues with the safest value. A checkpoint without
the checksum row was written by Kafka or by an earlier version, and is accepted unchecked.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from crc32c import crc32c

from ..protocol.types import TopicPartition, uuid_from_text, uuid_to_text
from ..runtime.config import INT64_MAX, parse_properties

_VERSION = "0"
_META_VERSION = "1"
CHECK = "#crc32c"
"""The word in place of a topic in the row of the checksum. No topic can have this name."""


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """Return the contents of an offset checkpoint."""
    rows = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    if not rows:
        return f"{_VERSION}\n0\n".encode()
    data = "".join(f"{line}\n" for line in (_VERSION, str(len(rows) + 1), *rows)).encode()
    return data + f"{CHECK} 0 {crc32c(data)}\n".encode()


def decode_offsets(data: bytes | None) -> dict[TopicPartition, int] | None:
    """Read an offset checkpoint; None if it is missing, torn or corrupt."""
    if data is None:
        return None
    offsets: dict[TopicPartition, int] = {}
    try:
        version, count, *rows, end = data.decode().split("\n")
        for row in rows:
            topic, partition, offset = row.split(" ")
            offsets[TopicPartition(topic, _number(partition))] = _number(offset)
        is_whole = len(offsets) == len(rows) == _number(count)
        check = offsets.pop(TopicPartition(CHECK, 0), None)
        if check is not None:
            is_whole = is_whole and check == crc32c(data[: data.rindex(b"\n", 0, -1) + 1])
        return offsets if version == _VERSION and not end and is_whole else None
    except ValueError:
        return None


def _number(text: str) -> int:
    """Read an int64 that is not negative, in plain digits; raise ValueError for anything else."""
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(INT64_MAX))):
        raise ValueError(text)
    number = int(text)
    if number > INT64_MAX:
        raise ValueError(text)
    return number


class OtherVersion(Exception):
    """Raised if meta.properties is of a version that this release does not know."""


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The identity in meta.properties: a directory, its node and its cluster."""

    directory_id: bytes
    node_id: int
    cluster_id: str | None
    """The cluster's id. It is None until the node has joined a cluster."""

    def encode(self) -> bytes:
        """Return the contents of the file."""
        lines = [f"version={_META_VERSION}", f"node.id={self.node_id}"]
        if self.cluster_id is not None:
            lines.append(f"cluster.id={self.cluster_id}")
        lines.append(f"directory.id={uuid_to_text(self.directory_id)}")
        return "".join(f"{line}\n" for line in lines).encode()

    @classmethod
    def decode(cls, data: bytes) -> "MetaProperties":
        """Read the contents of the file.

        Raises ValueError if they are malformed, and OtherVersion if they are of another version.
        """
        values = parse_properties(data.decode())
        try:
            meta = cls(
                directory_id=uuid_from_text(values["directory.id"]),
                node_id=int(values["node.id"]),
                cluster_id=values.get("cluster.id"),
            )
        except KeyError as error:
            raise ValueError(f"{error} is missing") from None
        if values.get("version") != _META_VERSION:
            raise OtherVersion(values.get("version", "none"))
        return meta


def encode_clean_shutdown(broker_epoch: int) -> bytes:
    """Return the contents of the marker of a clean shutdown."""
    text = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    return text.encode()


def decode_clean_shutdown(data: bytes | None) -> int | None:
    """Return the broker epoch in the marker of a clean shutdown; None if it is unreadable."""
    if data is None:
        return None
    try:
        mark = json.loads(data)
        version, epoch = mark["version"], mark["brokerEpoch"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    is_one = type(version) is int and version == 0 and type(epoch) is int
    return epoch if is_one and -1 <= epoch <= INT64_MAX else None


def encode_partition_metadata(topic_id: bytes) -> bytes:
    """Return the contents of `partition.metadata`."""
    return f"version: 0\ntopic_id: {uuid_to_text(topic_id)}\n".encode()


def decode_partition_metadata(data: bytes | None) -> bytes | None:
    """Return the topic id in `partition.metadata`; None if it cannot be read."""
    if data is None:
        return None
    try:
        values = parse_properties(data.decode())
        return uuid_from_text(values["topic_id"]) if values["version"] == "0" else None
    except (ValueError, KeyError):
        return None
