"""Bugs planted by hand: each is a product that is wrong in one place, and must be caught.

`python -m tests.simulation.planted [NAME] [SEEDS]` says by which seed and finding.
"""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from minikafka.broker import reading
from minikafka.broker.partition import Partition
from minikafka.broker.replica.follower import FollowerReplica
from minikafka.broker.replica.leader import LeaderReplica
from minikafka.controller.metadata import brokers
from minikafka.controller.quorum.metadata_log import MetadataLog
from minikafka.storage.directory import LogDirectory
from minikafka.storage.producer_state import ProducerState
from minikafka.storage.scan import Scan

from . import scenario

Patch = AbstractContextManager[Any]


def truncate_to_own_high_watermark() -> Patch:
    """Before KIP-101: a follower of a new leader cuts its log at its own high watermark."""
    follow = Partition._follow

    def broken(self: Partition, metadata: Any) -> None:
        before = self.follower.metadata.leader_epoch if self.follower is not None else -1
        follow(self, metadata)
        if metadata.leader_epoch > before:
            self.log.truncate_to(self.high_watermark)

    return patch.object(Partition, "_follow", broken)


def acknowledge_before_commit() -> Patch:
    """acks=all is answered as soon as the leader has appended."""

    def broken(self: Partition, appended: Any, deadline_ms: int, done: Callable[[], None]) -> None:
        done()

    return patch.object(Partition, "when_committed", broken)


def count_what_was_sent() -> Patch:
    """A fetch counts as proof of what it is about to be given, before the follower appended it."""
    on_follower_fetched = LeaderReplica.on_follower_fetched

    def broken(self: LeaderReplica, follower: int, fetch_offset: int, *rest: Any) -> Any:
        return on_follower_fetched(self, follower, self.log_end_offset, *rest)

    return patch.object(LeaderReplica, "on_follower_fetched", broken)


def commit_below_min_isr() -> Patch:
    """The high watermark moves with whoever is left."""
    advance = LeaderReplica._advance_high_watermark

    def broken(self: LeaderReplica, now_ms: int) -> Any:
        min_isr, self.min_isr = self.min_isr, 1
        try:
            return advance(self, now_ms)
        finally:
            self.min_isr = min_isr

    return patch.object(LeaderReplica, "_advance_high_watermark", broken)


def shrink_before_the_controller_answers() -> Patch:
    """A member proposed to leave is not waited for any more."""

    def broken(self: LeaderReplica) -> tuple[int, ...]:
        if self.proposal is None:
            return self.metadata.isr
        return tuple(broker for broker, _ in self.proposal.isr)

    return patch.object(LeaderReplica, "maximal_isr", property(broken))


def join_before_catching_up() -> Patch:
    """Whoever fetches is taken into the ISR, however far behind."""

    def broken(self: LeaderReplica, follower: int, now_ms: int) -> bool:
        progress = self.followers[follower]
        return progress.log_end_offset >= 0 and follower in self._brokers.eligible

    return patch.object(LeaderReplica, "_may_join", broken)


def ignore_divergence() -> Patch:
    """The leader serves any follower whose offset it has, whatever its history."""
    return patch.object(reading, "find_divergence", lambda log, offset, epoch: None)


def serve_what_is_not_committed() -> Patch:
    """Consumers read up to the end of the leader's log."""
    fetch = reading.fetch

    def broken(partition: Partition, spec: Any, now_ms: int) -> Any:
        committed = partition.high_watermark
        if spec.replica_id < 0:
            partition.high_watermark = partition.log.log_end_offset
        try:
            return fetch(partition, spec, now_ms)
        finally:
            if spec.replica_id < 0:
                partition.high_watermark = committed

    return patch.object(reading, "fetch", broken)


def trust_torn_batches() -> Patch:
    """Recovery does not look at checksums."""
    return patch.object(Scan, "_crc_holds", lambda self, header, view: True)


def forget_to_sync_the_directory() -> Patch:
    """The name of a new data directory is left to the page cache."""

    async def broken(self: LogDirectory) -> None:
        pass

    return patch.object(LogDirectory, "_stabilise_path", broken)


def forget_sequences() -> Patch:
    """The leader does not recognise a repeated batch."""
    return patch.object(ProducerState, "check", lambda self, header: None)


def keep_an_unclean_restart_in_the_isr() -> Patch:
    """A broker that comes back is not taken out of the ISRs it was in."""
    return patch.object(brokers, "without_broker", lambda cluster, broker_id: [])


def answer_before_metadata_is_stable() -> Patch:
    """The controller takes its page cache for the disk."""

    async def broken(self: MetadataLog) -> None:
        pass

    return patch.object(MetadataLog, "flush", broken)


def follow_beyond_the_log() -> Patch:
    """A follower takes over the leader's high watermark though it holds less."""
    follow_bounds = FollowerReplica._follow_bounds

    def broken(self: FollowerReplica, answer: Any, log: Any, end: int) -> Any:
        return follow_bounds(self, answer, log, end + 1)

    return patch.object(FollowerReplica, "_follow_bounds", broken)


PLANTED: dict[str, Callable[[], Patch]] = {
    each.__name__: each
    for each in (
        truncate_to_own_high_watermark,
        acknowledge_before_commit,
        count_what_was_sent,
        commit_below_min_isr,
        shrink_before_the_controller_answers,
        join_before_catching_up,
        ignore_divergence,
        serve_what_is_not_committed,
        trust_torn_batches,
        forget_to_sync_the_directory,
        forget_sequences,
        keep_an_unclean_restart_in_the_isr,
        answer_before_metadata_is_stable,
        follow_beyond_the_log,
    )
}


def first_caught(name: str, seeds: range) -> tuple[int, str] | None:
    """The first seed that catches the bug, and how; None if none does."""
    for seed in seeds:
        with PLANTED[name]():
            outcome = scenario.run(seed)
        if outcome.violation is not None:
            return seed, outcome.violation
    return None


def main(arguments: list[str]) -> None:
    names = arguments[:1] or list(PLANTED)
    seeds = range(int(arguments[1]) if len(arguments) > 1 else 50)
    for name in names:
        caught = first_caught(name, seeds)
        print(f"{name:<40} {f'seed {caught[0]}: {caught[1]}' if caught else 'NOT CAUGHT'}")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
