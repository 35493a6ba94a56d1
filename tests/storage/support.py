"""Batches, logs and a runtime with settable clocks for the tests of storage."""

import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from minikafka.protocol.records import record_batch
from minikafka.protocol.records.record_batch import BatchHeader
from minikafka.runtime.config import from_mapping
from minikafka.runtime.fs import FileSystem
from minikafka.runtime.runtime import SystemRuntime
from minikafka.storage.log import Log
from minikafka.storage.topic_config import TopicConfig

Made = tuple[BatchHeader, bytearray]


class TestRuntime(SystemRuntime):
    """The runtime with real files, and clocks that only the test moves."""

    __test__ = False

    def __init__(self, fs: FileSystem | None = None) -> None:
        super().__init__("test")
        self.rng = random.Random(0)
        self.system_fs = self.fs
        if fs is not None:
            self.fs = fs  # type: ignore[assignment]
        self.now_ms = 1_000_000_000_000

    def wall_ms(self) -> int:
        return self.now_ms

    def close(self) -> None:
        self.fs = self.system_fs
        super().close()


def batch(
    offset: int,
    *,
    count: int = 1,
    epoch: int = 0,
    timestamp: int | Iterable[int] = 1_000,
    size: int = 20,
    producer: tuple[int, int, int] | None = None,
) -> Made:
    """A stamped batch; `producer` is (id, epoch, first sequence), `size` that of each value."""
    times = [timestamp] * count if isinstance(timestamp, int) else list(timestamp)
    built = record_batch.build(
        [(at, b"k%d" % n, b"v" * size) for n, at in enumerate(times)],
        base_offset=offset,
        leader_epoch=epoch,
    )
    if producer is not None:
        id_, producer_epoch, sequence = producer
        record_batch.rewrite_producer(
            built, 0, producer_id=id_, epoch=producer_epoch, base_sequence=sequence
        )
    return record_batch.read_header(built), built


def topic(**settings: object) -> TopicConfig:
    """A topic's configuration: `topic(segment_bytes=100)`."""
    return from_mapping(
        TopicConfig, {key.replace("_", "."): str(value) for key, value in settings.items()}
    )


SMALL = {"segment_bytes": 900, "index_interval_bytes": 150}
"""Segments of ten small batches."""


async def recovered(
    runtime: TestRuntime, path: Path, *, recovery_point: int = 0, log_start: int = 0
) -> Log:
    """Open a log without the marker of a clean shutdown."""
    return await Log.open(
        runtime,
        str(path / "t-0"),
        topic(**SMALL),
        recovery_point=recovery_point,
        log_start_offset=log_start,
    )


CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "t-0/leader-epoch-checkpoint",
)


def fill(log: Log, count: int, **how: Any) -> list[Made]:
    """Append one-record batches, one call each."""
    made = []
    for _ in range(count):
        made.append(batch(log.log_end_offset, **how))
        log.append([made[-1]])
    return made


def contents(log: Log) -> bytes:
    """Read all batches from the log's start on."""
    found = b""
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.reader.read(offset, max_bytes=1 << 20, up_to=log.log_end_offset).data
        assert data, f"nothing at {offset} of {log}"
        found += data
        offset = [header for _, header in record_batch.headers(data)][-1].next_offset
    return found


async def read_all(log: Log) -> bytes:
    """Do what `contents` does, off the event loop and in small pieces."""
    found = b""
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = (await log.reader.read_cold(offset, max_bytes=300, up_to=log.log_end_offset)).data
        assert data, f"nothing at {offset} of {log}"
        found += data
        offset = [header for _, header in record_batch.headers(data)][-1].next_offset
    return found


def offsets_in(data: bytes | memoryview) -> list[int]:
    """Base offsets of the batches."""
    return [header.base_offset for _, header in record_batch.headers(data)]


def joined(made: Iterable[Made]) -> bytes:
    return b"".join(bytes(buffer) for _, buffer in made)


def delete(file: Path) -> None:
    file.unlink()


def halve(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: len(file.read_bytes()) // 2 + 1])


def empty(file: Path) -> None:
    file.write_bytes(b"")


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2 + 1] ^= 0x11
    file.write_bytes(data)


def garble(file: Path) -> None:
    file.write_bytes(random.Random(1).randbytes(len(file.read_bytes())))


DAMAGES = (delete, halve, empty, flip, garble)
"""What may become of a small file."""
