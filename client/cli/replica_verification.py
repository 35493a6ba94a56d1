"""`minikafka replica-verification`: compare the replicas of partitions while they are written."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...protocol.errors import ApiError, ErrorCode
from ...protocol.types import TopicPartition
from .common import administer, bootstrap_server, command_config, refusal, say
from .performance import java_date
from .topic_table import included

if TYPE_CHECKING:
    from ..admin.admin import Admin
    from .replica_comparison import Comparison, Reads

COMPLAINT = "Error while executing replica verification command"
LATEST, EARLIEST = -1, -2


@click.command("replica-verification")
@bootstrap_server
@click.option(
    "--topics-include",
    "include",
    default=".*",
    metavar="REGEX",
    help="The topics whose names match a regular expression. [default: all]",
)
@click.option(
    "--time",
    "timestamp",
    default=LATEST,
    type=click.IntRange(min=EARLIEST),
    help="Where to begin: -1 at the end, -2 at the beginning, or a time in ms since 1970.",
)
@click.option(
    "--fetch-size",
    "max_bytes",
    default=1024 * 1024,
    type=click.IntRange(min=1),
    help="The most bytes of a partition in one read.",
)
@click.option(
    "--max-wait-ms",
    default=1000,
    type=click.IntRange(min=0),
    help="How long a read waits for records, in ms.",
)
@click.option(
    "--report-interval-ms",
    default=30_000,
    type=click.IntRange(min=0),
    help="The time between two lines of results, in ms.",
)
@command_config()
def replica_verification(
    bootstrap: str,
    include: str,
    timestamp: int,
    max_bytes: int,
    max_wait_ms: int,
    report_interval_ms: int,
    command_config: Path | None,
) -> None:
    """Check that all replicas of topics have the same batches, until Ctrl-C.

    Reads each replica from its own broker, compares checksums, and prints the largest lag in
    intervals. The exit code is 1 if the offsets of two replicas differ. Each broker compacts its
    replicas of a compacted topic at a time of its own, so these may differ for a while.

    \b
    minikafka replica-verification --broker-list localhost:9092 --topics-include 'orders|events' \\
        --time -2
    """
    pattern = included(include, "--topics-include")

    async def act(admin: "Admin") -> int:
        from .replica_comparison import Comparison

        listed = await admin.list_topics(include_internal=True)
        names = [one.name for one in listed if pattern.fullmatch(one.name)]
        described = await admin.describe_topics(names)
        replicas = {
            TopicPartition(name, one.partition): one.replicas
            for name in names
            for one in described[name].partitions
        }
        if not replicas:
            say(f"No topics found: --topics-include {include} matches none")
            return 1
        _print("verification process is started")
        begins = await _offsets(admin, list(replicas), timestamp)
        verification = _Verification(
            admin, Comparison(begins), replicas, report_interval_ms=report_interval_ms
        )
        while await verification.go_on(max_bytes, max_wait_ms):
            pass
        return 1

    administer(act, COMPLAINT, bootstrap, command_config)


class _Verification:
    """Reads and compares replicas, and prints differences; logs unreadable brokers once."""

    def __init__(
        self,
        admin: "Admin",
        comparison: "Comparison",
        replicas: dict[TopicPartition, tuple[int, ...]],
        *,
        report_interval_ms: int,
    ) -> None:
        self._admin = admin
        self._comparison = comparison
        self._replicas = replicas
        self._interval_s = report_interval_ms / 1000
        self._reported_at = time.monotonic()
        self._order = list(replicas)
        self._unread: dict[int, str] = {}

    async def go_on(self, max_bytes: int, max_wait_ms: int) -> bool:
        """Read and compare once; return False if two logs cannot be compared any further."""
        offsets = self._comparison.offsets
        read = await self._admin.read_replicas(
            {partition: offsets[partition] for partition in self._order},
            self._replicas,
            max_bytes=max_bytes,
            max_wait_ms=max_wait_ms,
        )
        # Others come first next time: the bytes of one answer may not be enough for all.
        self._order.append(self._order.pop(0))
        for partition in sorted(read):
            for difference in self._comparison.compare(partition, read[partition]):
                _print(difference.text)
                if difference.is_final:
                    return False
        await self._look_at_errors(read)
        lag = max(self._comparison.lag(partition, reads) for partition, reads in read.items())
        if time.monotonic() - self._reported_at > self._interval_s:
            where = f"{lag.partition.topic}-{lag.partition.partition}"
            _print(
                f"max lag is {lag.records} for partition {where} at offset {lag.offset} "
                f"among {len(read)} partitions"
            )
            self._reported_at = time.monotonic()
        return True

    async def _look_at_errors(self, read: "Mapping[TopicPartition, Reads]") -> None:
        unread: dict[int, str] = {}
        behind: list[TopicPartition] = []
        for partition, reads in sorted(read.items()):
            errors = {broker: one for broker, one in reads.items() if isinstance(one, ApiError)}
            out = [one for one in errors.values() if one.code is ErrorCode.OFFSET_OUT_OF_RANGE]
            if len(out) == len(reads):
                behind.append(partition)
            for broker, error in errors.items():
                if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                    unread.setdefault(broker, refusal(error))
        for broker, why in unread.items():
            if broker not in self._unread:
                say(f"replicas of broker {broker} cannot be read: {why}")
        self._unread = unread
        if behind:
            # The beginning of the log went past: go on with what is left.
            self._comparison.offsets |= await _offsets(self._admin, behind, EARLIEST)


async def _offsets(
    admin: "Admin", partitions: list[TopicPartition], timestamp: int
) -> dict[TopicPartition, int]:
    """Return the offsets at a time; where no record is that new, the end of the log."""
    found = await admin.list_offsets(dict.fromkeys(partitions, timestamp))
    offsets = {partition: each.offset for partition, each in found.items()}
    newer = [partition for partition, offset in offsets.items() if offset < 0]
    return offsets | await _offsets(admin, newer, LATEST) if newer else offsets


def _print(text: str) -> None:
    print(f"{java_date(time.time() * 1000, 'yyyy-MM-dd HH:mm:ss,SSS')}: {text}", flush=True)
