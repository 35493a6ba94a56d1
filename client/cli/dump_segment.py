"""Prints segments as Kafka's DumpLogSegments does: a line per batch and, if wanted, per record.

Reads one batch at a time and changes nothing. Metadata snapshots have the same format.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import BinaryIO

from ...protocol.errors import RemoteProtocolError
from ...protocol.records.record_batch import (
    HEADER_SIZE,
    MAGIC,
    BatchHeader,
    Record,
    crc_is_valid,
    read_header,
    records,
)

Decoder = Callable[[bytes], str]


def decode_text(data: bytes) -> str:
    """Decode UTF-8 as Java does: bytes that are not UTF-8 become U+FFFD."""
    return data.decode(errors="replace")


CONTROL_TYPES = {
    0: "ABORT",
    1: "COMMIT",
    2: "LEADER_CHANGE",
    3: "SNAPSHOT_HEADER",
    4: "SNAPSHOT_FOOTER",
    5: "KRAFT_VERSION",
    6: "KRAFT_VOTERS",
}
_NO_SEQUENCE = -1
_MAX_INT32 = 0x7FFF_FFFF


class Mismatch(Enum):
    """The kinds of mismatch between two numbers, each with Kafka's title and line for it."""

    INDEX = "Mismatches in :{}", "  Index offset: {}, log offset: {}"
    TIMESTAMP = "Found timestamp mismatch in :{}", "  Index timestamp: {}, log timestamp: {}"
    TIMESTAMP_ORDER = (
        "Found out of order timestamp in :{}",
        "  Index timestamp: {}, Previously indexed timestamp: {}",
    )
    NOT_FOUND = (
        "The following indexed offsets are not found in the log.",
        "Indexed offset: {}, found log offset: {}",
    )
    NON_CONSECUTIVE = "Non-consecutive offsets in {}", "  {} is followed by {}"


class Problems:
    """The problems found in the files, printed after everything else."""

    def __init__(self) -> None:
        self.damaged: list[str] = []
        """The damaged files; one is enough for exit code 1.

        Damage is printed where it is found, so that `lines` does not repeat it.
        """
        self._pairs: dict[Mismatch, dict[str, list[tuple[int, int]]]] = {k: {} for k in Mismatch}

    def add(self, kind: Mismatch, path: Path, pair: tuple[int, int]) -> None:
        """Add two numbers in a file that should agree and do not."""
        self._pairs[kind].setdefault(str(path.absolute()), []).append(pair)

    def lines(self) -> Iterator[str]:
        """Yield the lines for all mismatches, as Kafka prints them."""
        for kind, found in self._pairs.items():
            title, line = kind.value
            for path, pairs in found.items():
                yield title.format(path)
                yield from (line.format(*pair) for pair in pairs)

    def __bool__(self) -> bool:
        return bool(self.damaged) or any(self.lines())


@dataclass(frozen=True)
class SegmentOptions:
    """The parts of a segment to print."""

    deep: bool = False
    print_data: bool = False
    skip_metadata: bool = False
    max_bytes: int = _MAX_INT32
    decode_key: Decoder = decode_text
    decode_value: Decoder = decode_text


def batches(
    file: BinaryIO, position: int = 0, max_bytes: int = _MAX_INT32
) -> Iterator[tuple[int, BatchHeader, bytes]]:
    """Yield the position, header and bytes of each whole batch from `position` on."""
    file.seek(position)
    end = position + max_bytes
    while len(head := file.read(HEADER_SIZE)) == HEADER_SIZE:
        header = read_header(head)
        if header.size < HEADER_SIZE or header.magic != MAGIC or position + header.size > end:
            return
        body = file.read(header.size - HEADER_SIZE)
        if HEADER_SIZE + len(body) < header.size:
            return
        yield position, header, head + body
        position += header.size


def dump_segment(path: Path, options: SegmentOptions, problems: Problems) -> Iterator[str]:
    """Yield the lines of a segment or a metadata snapshot."""
    if path.suffix == ".log":
        yield f"Log starting offset: {int(path.name.split('.')[0])}"
    else:
        offset, _, epoch = path.stem.partition("-")
        yield f"Snapshot end offset: {int(offset)}, epoch: {int(epoch)}"
    last_offset = -1
    valid_bytes = 0
    with path.open("rb") as file:
        for position, header, batch in batches(file, 0, options.max_bytes):
            is_valid = crc_is_valid(batch, 0, header)
            yield _batch_line(header, position, is_valid)
            valid_bytes += header.size
            if not is_valid:
                problems.damaged.append(str(path))
            if not options.deep and not options.print_data:
                continue
            try:
                found = records(batch)
            except RemoteProtocolError as error:
                problems.damaged.append(str(path))
                yield f"| cannot be read: {error}"
                continue
            for record in found:
                if last_offset not in (-1, record.offset - 1):
                    problems.add(Mismatch.NON_CONSECUTIVE, path, (last_offset, record.offset))
                last_offset = record.offset
                yield _record_line(header, record, options)
    trailing = min(path.stat().st_size, options.max_bytes) - valid_bytes
    if trailing > 0:
        if options.max_bytes >= path.stat().st_size:
            problems.damaged.append(str(path))
        yield f"Found {trailing} invalid bytes at the end of {path.name}"


def java_bool(value: bool) -> str:
    """Return `true` or `false`, as Java writes them."""
    return "true" if value else "false"


def java_optional(value: int | None) -> str:
    """Return a number as Java prints an OptionalLong; None is the empty one."""
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def timestamp_type(header: BatchHeader) -> str:
    """Name the timestamp type: `CreateTime` or `LogAppendTime`."""
    return "LogAppendTime" if header.timestamp_type else "CreateTime"


def _batch_line(header: BatchHeader, position: int, is_valid: bool) -> str:
    horizon = header.base_timestamp if header.has_delete_horizon else None
    return (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} "
        f"count: {header.record_count} baseSequence: {header.base_sequence} "
        f"lastSequence: {header.last_sequence} producerId: {header.producer_id} "
        f"producerEpoch: {header.producer_epoch} partitionLeaderEpoch: {header.leader_epoch} "
        f"isTransactional: {java_bool(header.is_transactional)} "
        f"isControl: {java_bool(header.is_control)} deleteHorizonMs: {java_optional(horizon)} "
        f"position: {position} {timestamp_type(header)}: {header.max_timestamp} "
        f"size: {header.size} magic: {header.magic} compresscodec: {_codec(header)} "
        f"crc: {header.crc} isvalid: {java_bool(is_valid)}"
    )


def _codec(header: BatchHeader) -> str:
    try:
        return header.compression.name.lower()
    except ValueError:
        return f"unknown({header.attributes & 7})"


def _record_line(header: BatchHeader, record: Record, options: SegmentOptions) -> str:
    parts = ["|"]
    if not options.skip_metadata:
        sequence = _NO_SEQUENCE
        if header.base_sequence != _NO_SEQUENCE:
            delta = record.offset - header.base_offset
            sequence = (header.base_sequence + delta) & _MAX_INT32
        keys = ",".join(key for key, _ in record.headers)
        parts.append(
            f"offset: {record.offset} {timestamp_type(header)}: {record.timestamp} "
            f"keySize: {_size(record.key)} valueSize: {_size(record.value)} "
            f"sequence: {sequence} headerKeys: [{keys}]"
        )
        if header.is_control:
            parts.append(_control(record))
    if options.print_data and not header.is_control:
        if record.key is not None:
            parts.append(f"key: {options.decode_key(record.key)}")
        if record.value is not None:
            parts.append(f"payload: {options.decode_value(record.value)}")
    return " ".join(parts)


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _control(record: Record) -> str:
    """Return the text of a control record.

    Its key is version int16, type int16; a marker's value is version int16, epoch int32.
    """
    key, value = record.key or b"", record.value or b""
    number = int.from_bytes(key[2:4], signed=True)
    name = CONTROL_TYPES.get(number, "UNKNOWN")
    if name in ("ABORT", "COMMIT"):
        epoch = int.from_bytes(value[2:6], signed=True)
        return f"endTxnMarker: {name} coordinatorEpoch: {epoch}"
    return f"controlType: {name}({number})"


def decode_metadata(value: bytes) -> str:
    """Return a record of the metadata log as one line of JSON; secrets in it are not shown."""
    import dataclasses

    from ...protocol.control.records import ConfigRecord, decode_record
    from ...protocol.shared_methods import HIDDEN
    from ...protocol.types import uuid_to_text
    from ...runtime.config import shown

    def plain(item: object) -> object:
        if dataclasses.is_dataclass(item):
            names = [field.name for field in dataclasses.fields(item)]
            return {name: "***" if name in HIDDEN else plain(getattr(item, name)) for name in names}
        if isinstance(item, bytes):
            return uuid_to_text(item) if len(item) == 16 else item.hex()
        if isinstance(item, list | tuple):
            return [plain(one) for one in item]
        if isinstance(item, dict):
            return {str(key): plain(one) for key, one in item.items()}
        return item

    try:
        record = decode_record(value)
    except RemoteProtocolError as error:
        return f"cannot be read: {error}"
    if isinstance(record, ConfigRecord) and shown(record.key, record.value) is None:
        record = dataclasses.replace(record, value=record.value and "***")
    return json.dumps({"type": type(record).__name__, "data": plain(record)})
