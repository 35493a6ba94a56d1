"""Compacted logs for tests: keyed batches, rounds run in this process, and the fold by key."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from minikafka.protocol.records.record_batch import (
    BatchBuilder,
    Codec,
    Record,
    headers,
    read_header,
    records,
)
from minikafka.storage.compaction.compactor import Compactor, due
from minikafka.storage.log import Log

from .support import Made, TestRuntime, contents

T = TypeVar("T")
Entry = tuple[bytes | None, bytes | None]


class InlineRuntime(TestRuntime):
    """Work for another process is done here, at once; a test may look in between."""

    def __init__(self, fs: Any = None) -> None:
        super().__init__(fs)
        self.before_job: Callable[[int], None] = lambda number: None
        self.jobs = 0

    async def offload(self, job: Callable[..., T], *args: Any) -> T:
        self.before_job(self.jobs)
        self.jobs += 1
        return job(*args)


def keyed(
    offset: int,
    entries: Iterable[Entry],
    *,
    timestamp: int = 1_000,
    epoch: int = 0,
    codec: Codec = Codec.NONE,
    producer: tuple[int, int, int] | None = None,
    is_transactional: bool = False,
) -> Made:
    """A stamped batch of (key, value); `producer` is (id, epoch, first sequence)."""
    builder = BatchBuilder(codec, is_transactional=is_transactional)
    for number, (key, value) in enumerate(entries):
        builder.append(timestamp + number, key, value)
    id_, producer_epoch, sequence = producer or (-1, -1, -1)
    data = builder.build(
        producer_id=id_,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        base_offset=offset,
        leader_epoch=epoch,
    )
    return read_header(data), data


def put(log: Log, *entries: Entry, **how: Any) -> None:
    """Append one batch."""
    log.append([keyed(log.log_end_offset, entries, **how)])


async def compacted(
    runtime: TestRuntime,
    log: Log,
    compacted_to: int = 0,
    *,
    map_bytes: int = 1 << 20,
    up_to: int | None = None,
) -> int | None:
    """Flush, and run a round over all that is complete; None if nothing is due or it failed."""

    async def pay(count: int) -> None:
        pass

    await log.flush()
    bound = log.log_end_offset if up_to is None else up_to
    part = due(log, compacted_to, bound, runtime.wall_ms())
    if part is None:
        return None
    return await Compactor(runtime, map_bytes, pay).compact(log, part)


def all_records(log: Log) -> list[Record]:
    """Every record that can be read, control records too."""
    data = contents(log)
    return [record for position, _ in headers(data) for record in records(data, position)]


def folded(found: Iterable[Record]) -> dict[bytes, tuple[int, bytes | None]]:
    """Newest offset and value of each key, without those that are deleted."""
    newest = {record.key: (record.offset, record.value) for record in found}
    return {key: one for key, one in newest.items() if key is not None and one[1] is not None}


def shown(log: Log) -> list[str]:
    """The records for people: `3 a=1`."""
    return [
        f"{r.offset} {(r.key or b'-').decode()}={(r.value or b'-').decode()}"
        for r in all_records(log)
    ]
