"""Checks the invariants after every step of every process, from outside the product.

Numbers are those of the invariant list in docs/invariants.md. This module checks brokers' replicas
and the answers to clients; metadata_checks.py checks what controllers commit. Each check looks only
at what the step has changed.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from minikafka.protocol.control.image import MetadataImage, PartitionState
from minikafka.protocol.types import TopicIdPartition

from .cluster import Cluster, Daemon
from .coverage import Coverage
from .forward_checks import ForwardChecks
from .history import Partition as ClientPartition
from .history import Sent, name
from .inside import (
    holds_lease,
    image_of_broker,
    image_of_controller,
    partitions_of,
    seen,
    touched_replicas,
)
from .log_start_checks import LogStartChecks
from .loop import Process
from .metadata_checks import MetadataChecks
from .quorum_checks import QuorumChecks
from .rawlog import LogCursor
from .scrape_checks import Scrapes
from .seal_checks import SealChecks
from .truth import Place, Seen, Truth, cursor_of
from .world import World

if TYPE_CHECKING:
    from .rot import Rot

Check = Callable[[], Iterable[str]]
NOTHING: tuple[str, ...] = ()


class Invariants:
    """The invariants of a world; the run stops at the first step after which one is violated."""

    def __init__(self, world: World, cluster: Cluster, coverage: Coverage | None = None) -> None:
        self.world = world
        self.cluster = cluster
        self.coverage = coverage or Coverage()
        self.checks = 0
        self.muted: dict[int, None] = {}
        """The numbers of invariants that are not checked, for stories that show why a rule is
        needed."""
        self.truths: dict[TopicIdPartition, Truth] = {}
        self.image: MetadataImage | None = None
        """The newest committed metadata that any controller shows."""
        self.distrusted: dict[Place, None] = {}
        """Replicas that lost unsynced data with the power; they are removed once back in the ISR.
        """
        self.rotten: dict[Place, Rot] = {}
        """Replicas with a damaged batch that is not repaired yet."""
        self.compacted: dict[str, None] = {}
        """Compacted topics, whose replicas are not compared batch by batch, as each drops batches
        at its own time."""
        self.is_flushed: Callable[[TopicIdPartition], bool] = lambda key: False
        """Returns whether a partition's acknowledged records are on stable storage."""
        self.may_be_unclean: Callable[[str], bool] = lambda topic: True
        """Returns whether an unclean election may have lost committed records of a topic."""
        self._seen: dict[Place, Seen] = {}
        self._cursors: dict[Place, LogCursor] = {}
        self._leases: dict[str, bool] = {}
        self.has_leases = True
        self._controllers = {each.name: None for each in cluster.controllers.values()}
        self.metadata = MetadataChecks(self)
        self.quorum = QuorumChecks(self)
        self.seals = SealChecks()
        self.starts = LogStartChecks(self.coverage, world.now)
        self.forwards = ForwardChecks(self, self.coverage)
        world.loop.after_step = self.after_step

    def after_step(self, process: Process) -> None:
        check = process.check
        if check is not None:
            for finding in check():
                self.report(finding)
                if self.world.violations:
                    return

    def report(self, finding: str) -> None:
        number = finding.partition(":")[0].removeprefix("invariant ")
        if not number.isdecimal() or int(number) not in self.muted:
            self.world.violation(finding)

    def watch(self, daemon: Daemon) -> None:
        """Check the steps of a daemon's process, which has just been started."""
        process = daemon.process
        assert process is not None
        self._leases.pop(daemon.name, None)
        for place in [place for place in self._seen if place[0] == daemon.name]:
            del self._seen[place]
            self._cursors.pop(place, None)
        if daemon.name in self._controllers:
            self.quorum.forget(daemon)
            process.check = self._controller_check(daemon, process)
        else:
            self._mend_what_nobody_else_has(daemon)
            process.check = self._broker_check(daemon, process)

    def _mend_what_nobody_else_has(self, daemon: Daemon) -> None:
        """Repair the damaged batches of a killed daemon that no other live replica in sync holds.

        Recovery cuts a log at a damaged batch (docs/decisions/0020). No guarantee covers both
        faults.
        """
        for (whose, key), rot in self.rotten.items():
            state = self.image.partition(*key) if self.image is not None else None
            if whose == daemon.name and state is not None:
                others = [self.cluster.brokers[each] for each in state.isr]
                if not any(each.alive for each in others if each is not daemon):
                    rot.mend()

    def lost_power(self, daemon: Daemon) -> None:
        """Forget what was seen of a daemon, whose disk may have less than it acknowledged."""
        if daemon.name in self._controllers:
            self.quorum.forget(daemon)
        else:
            for key in self.truths:
                if not self.is_flushed(key):
                    self.distrusted[daemon.name, key] = None
                self._cursors.pop((daemon.name, key), None)

    # -- what clients were told -------------------------------------------------------------

    def on_acknowledged(self, sent: Sent) -> None:
        """Check that all in-sync replicas hold a record that was just acknowledged."""
        truth = self._truth_of(sent.partition)
        offset = sent.acknowledged_at
        if truth is None or truth.was_unclean or offset is None:
            return
        if offset >= (end := truth.ledger.end):
            self.report(
                f"invariant 5: {name(sent.partition)}: offset {offset} was acknowledged,"
                f" {end} are committed"
            )

    def on_polled(self, partition: ClientPartition, offset: int) -> None:
        """Check that a record which a consumer got is committed (invariant 6)."""
        truth = self._truth_of(partition)
        if truth is None or truth.was_unclean:
            return
        if offset >= (end := truth.ledger.end):
            self.report(
                f"invariant 6: {name(partition)}: offset {offset} was served, {end} are committed"
            )

    def may_be_gone_below(self, partition: ClientPartition) -> int:
        """Return the offset below which a partition's records need not exist any more."""
        truth = self._truth_of(partition)
        return max(truth.start, truth.asked_start) if truth is not None else 0

    def on_delete_asked(self, partition: ClientPartition, offset: int) -> None:
        """Note that a client asks for the deletion of all records before this offset."""
        truth = self._truth_of(partition)
        if truth is not None:
            truth.asked_start = max(truth.asked_start, offset)

    def _truth_of(self, partition: ClientPartition) -> Truth | None:
        """Return the truth about a partition; None if its topic's name was used for two topics."""
        topic, index = partition
        if topic in self.compacted:
            return None
        if self.image is None or topic in self.metadata.reused_names:
            return None
        topic_id = self.image.topic_ids.get(topic)
        return None if topic_id is None else self.truths.get(TopicIdPartition(topic_id, index))

    # -- controllers ------------------------------------------------------------------------

    def _controller_check(self, daemon: Daemon, process: Process) -> Check:
        last_offset = -1
        scrapes = Scrapes(process)

        def check() -> Iterable[str]:
            nonlocal last_offset
            image = image_of_controller(process)
            offset = image.offset if image is not None else -1
            has_news = process.admitted or self.quorum.has_news(daemon, process)
            if offset == last_offset and not has_news:
                return NOTHING
            is_new, last_offset = offset != last_offset, offset
            found = self._check_controller(daemon, process, image if is_new else None)
            return chain(found, scrapes.on_changed())

        return check

    def _check_controller(
        self, daemon: Daemon, process: Process, image: MetadataImage | None
    ) -> Iterator[str]:
        """Check a controller after a step that changed its quorum state or, if given, its image."""
        yield from self.quorum.check(daemon, process)
        yield from self.seals.check(daemon, process)
        if image is not None and (self.image is None or image.offset >= self.image.offset):
            self.image = image
            self.checks += 1
            yield from self.metadata.check(image)
            yield from self.seals.check_image(image)

    # -- brokers ----------------------------------------------------------------------------

    def _broker_check(self, daemon: Daemon, process: Process) -> Check:
        metadata_offset = -1
        states: dict[TopicIdPartition, PartitionState] = {}
        scrapes = Scrapes(process)

        def check() -> Iterable[str]:
            nonlocal metadata_offset
            image = image_of_broker(process)
            offset = image.offset if image is not None else -1
            if offset != metadata_offset:
                metadata_offset = offset
                found = self._check_broker(daemon, process, image, states)
                return chain(found, scrapes.on_changed())
            has_forwarded = process.folded or process.sent
            if (
                process.touched
                or has_forwarded
                or (self.has_leases and holds_lease(process) is not self._leases.get(daemon.name))
            ):
                found = self._check_broker(daemon, process, None, states)
                return chain(found, scrapes.on_changed())
            return NOTHING

        return check

    def _check_broker(
        self,
        daemon: Daemon,
        process: Process,
        image: MetadataImage | None,
        states: dict[TopicIdPartition, PartitionState],
    ) -> Iterator[str]:
        """Check a broker after a step that changed its lease, a replica or, if given, its image."""
        if self.has_leases:
            yield from self._follow_lease(daemon, process)
        if image is not None:
            yield from self.metadata.check_follower(daemon.name, image, states)
        if process.touched:
            yield from self._check_replicas(daemon, process)
        yield from self.forwards.check(daemon, process)

    def _check_replicas(self, daemon: Daemon, process: Process) -> Iterator[str]:
        self.coverage.note("transition", "log-compacted", process.compaction_count)
        process.compaction_count = 0
        yield from _check_coordinator(daemon.name, process)
        for replica in touched_replicas(process):
            place = (daemon.name, replica.key)
            before = self._seen.get(place)
            now = seen(replica)
            if now != before:
                self._seen[place] = now
                self.checks += 1
                yield from self._check_replica(daemon, before, now)

    def _follow_lease(self, daemon: Daemon, process: Process) -> Iterator[str]:
        """Check, when a broker wins a lease, that no other leads its partitions by now."""
        held = holds_lease(process)
        if held is None or held == self._leases.get(daemon.name):
            return
        self._leases[daemon.name] = held
        self.coverage.note("transition", "lease-won" if held else "lease-ended")
        led = [each for each in partitions_of(process).values() if held and each.leader is not None]
        for other in self.cluster.brokers.values() if led else ():
            if other is daemon or other.process is None or not other.process.alive:
                continue
            theirs = partitions_of(other.process)
            for ours in led:
                newer = theirs.get(ours.key)
                if newer is None or newer.leader is None:
                    continue
                if newer.leader_epoch > ours.leader_epoch:
                    yield (
                        f"invariant 30: {daemon.name} wins a lease and leads {ours} in epoch"
                        f" {ours.leader_epoch}, {other.name} leads epoch {newer.leader_epoch}"
                    )

    def _check_leases(self, daemon: Daemon, now: Seen) -> Iterator[str]:
        """Check, when a broker begins to lead, that no other acts as the leader by its lease."""
        key = now.replica.key
        for other in self.cluster.brokers.values():
            process = other.process
            if other is daemon or process is None or not process.alive:
                continue
            replica = partitions_of(process).get(key)
            if replica is not None and replica.leader is not None and holds_lease(process):
                yield (
                    f"invariant 30: {daemon.name} begins to lead {replica} in epoch"
                    f" {now.leader_epoch}, {other.name} leads epoch {replica.leader_epoch}"
                    " and holds a lease"
                )

    def _check_replica(self, daemon: Daemon, before: Seen | None, now: Seen) -> Iterator[str]:
        key = now.replica.key
        truth = self.truths.get(key)
        if truth is None or truth.is_deleted:
            return
        place = (daemon.name, key)
        where = f"{daemon.name} {truth.name}"
        if before is not None and before.replica is not now.replica:
            before = None
            self._cursors.pop(place, None)
        if now.replica.offline_because:
            # Its disk failed, but what it had committed before that, in the same step, counts.
            if before is not None and now.high_watermark > before.high_watermark:
                yield from self.check_committed(daemon, key, now.high_watermark)
            return
        if not 0 <= now.log_start_offset <= now.high_watermark <= now.log_end_offset:
            yield (
                f"invariant 10: {where}: log start {now.log_start_offset}, high watermark"
                f" {now.high_watermark}, log end {now.log_end_offset}"
            )
        stable = now.replica.last_stable_offset
        if not now.log_start_offset <= stable <= now.high_watermark:
            yield (
                f"invariant 10: {where}: last stable offset {stable}, log start"
                f" {now.log_start_offset}, high watermark {now.high_watermark}"
            )
        self._count_replica(before, now)
        yield from self.starts.check(daemon, truth, before, now)
        self.forwards.on_high_watermark(key, now.high_watermark)
        if before is None or now.log_start_offset > before.log_start_offset:
            yield from self.forwards.on_log_start(where, truth, now.replica)
        if now.is_leader:
            yield from self._check_leader(daemon, truth, before, now)
        if before is not None and now.log_end_offset < before.log_end_offset:
            self._cursors.pop(place, None)
        if now.leader_epoch < truth.unclean_epoch or daemon.name in truth.excused:
            return  # It does not know yet that less is committed than it thinks.
        if before is not None:
            yield from self._check_backwards(where, before, now)
        if before is None or now.high_watermark > before.high_watermark:
            yield from self.check_committed(daemon, key, now.high_watermark)
            is_compared = truth.topic not in self.compacted
            if is_compared and stable > (decided := truth.ledger.decided):
                yield (
                    f"invariant 21: {where}: last stable offset {stable}, a transaction is open"
                    f" from {decided} on"
                )
            if now.is_leader:
                yield from self._check_members(now, now.high_watermark)

    def _check_backwards(self, where: str, before: Seen, now: Seen) -> Iterator[str]:
        if now.high_watermark < before.high_watermark:
            yield (
                f"invariant 9: {where}: high watermark went from {before.high_watermark}"
                f" to {now.high_watermark}"
            )
        if now.log_end_offset < before.high_watermark:
            yield (
                f"invariant 11: {where}: truncated to {now.log_end_offset}, below its high"
                f" watermark {before.high_watermark}"
            )

    def _check_leader(
        self, daemon: Daemon, truth: Truth, before: Seen | None, now: Seen
    ) -> Iterator[str]:
        replica = now.replica
        where = f"{daemon.name} {truth.name}"
        other = truth.leaders.setdefault(now.leader_epoch, daemon.name)
        if other != daemon.name:
            yield (
                f"invariant 12: {truth.name}: {other} and {daemon.name} both lead epoch"
                f" {now.leader_epoch}"
            )
        if now.leader_epoch > truth.newest_leader_epoch:
            truth.newest_leader_epoch = now.leader_epoch
            truth.witnesses = {each.name: each.process for each in self.cluster.brokers.values()}
            yield from self._check_leases(daemon, now)
            if now.leader_epoch >= truth.unclean_epoch and not truth.is_cut:
                truth.is_cut = True
                truth.ledger.cut(cursor_of(daemon, replica.key, truth.name))
                # The leader may hold batches that an earlier such election took out of the ledger:
                # whatever was walked over before has to be entered, or compared, again.
                for each in self.cluster.brokers.values():
                    self._cursors.pop((each.name, replica.key), None)
            if now.leader_epoch >= truth.unclean_epoch:
                # Leader completeness: it holds all that was ever committed.
                end = truth.ledger.end
                yield from self.check_committed(daemon, replica.key, end, "invariant 1")
        if (
            before is not None
            and now.high_watermark > before.high_watermark
            and replica.leader is not None
            # One step may commit with the ISR that it knew, and then hear of another.
            and max(len(now.isr), len(before.isr)) < replica.metadata.effective_min_isr
        ):
            yield (
                f"invariant 5: {where}: high watermark moved to {now.high_watermark} with ISR"
                f" {list(replica.leader.isr)} below min ISR {replica.metadata.effective_min_isr}"
            )
        if before is not None and now.high_watermark > before.high_watermark:
            yield from self._check_counted(where, truth, before, now)

    def _check_counted(self, where: str, truth: Truth, before: Seen, now: Seen) -> Iterator[str]:
        """Check that a leader counts no member of the ISR that is still in an older epoch."""
        epoch = now.leader_epoch
        if before.leader_epoch != epoch or truth.newest_leader_epoch != epoch:
            return
        for member in now.isr:
            process = self.cluster.brokers[member].process
            if process is None or not process.alive:
                continue
            replica = partitions_of(process).get(now.replica.key)
            was_there = truth.witnesses.get(process.name) is process
            if replica is not None and was_there and replica.leader_epoch < epoch:
                yield (
                    f"invariant 9: {where}: high watermark moved to {now.high_watermark} in epoch"
                    f" {epoch}, {process.name} counts and is in epoch {replica.leader_epoch}"
                )

    def check_committed(
        self, daemon: Daemon, key: TopicIdPartition, end: int, number: str = "invariant 4"
    ) -> Iterator[str]:
        """Check that this disk holds exactly the committed batches below `end`."""
        truth = self.truths[key]
        if truth.topic in self.compacted:
            return
        rot = self.rotten.get((daemon.name, key))
        cursor = self._cursors.get((daemon.name, key))
        if cursor is not None and cursor.has_ended:
            cursor = None  # The replica is in another directory of its broker now.
        if cursor is not None and cursor.offset >= end > 0:
            return  # It was looked at, and has not been truncated since.
        if cursor is None:
            cursor = cursor_of(daemon, key, truth.name)
            if cursor is not None:
                self._cursors[daemon.name, key] = cursor
                if not self.starts.may_be_gone(truth, cursor.begins_at):
                    yield (
                        f"{number}: {daemon.name} {truth.name}: the disk holds offsets from"
                        f" {cursor.begins_at} on, {truth.start} and later must be there"
                    )
        for batch in cursor.up_to(end) if cursor is not None else ():
            # A log that was told to begin inside of a batch may know no more than that it does.
            if batch.next_offset > end > truth.start:
                yield f"{number}: {daemon.name} {truth.name}: {end} is inside {batch}"
            if rot is not None and rot.offset == batch.base_offset:
                continue
            wrong = truth.ledger.contradiction(batch)
            if wrong is not None:
                yield f"{number}: {daemon.name} {truth.name}: {wrong}"
        held = max(cursor.offset, 0) if cursor is not None else 0
        if not held and end <= max(truth.start, truth.asked_start):
            return  # All of it may be gone, and a log without a batch has no file.
        if held < end:
            yield (
                f"{number}: {daemon.name} {truth.name}: the disk holds offsets up to {held},"
                f" {end} are committed"
            )

    def _check_members(self, now: Seen, end: int) -> Iterator[str]:
        """Check that every member of the recorded ISR and ELR holds all below `end` too."""
        replica = now.replica
        leader = replica.leader
        state = self.image.partition(*replica.key) if self.image is not None else None
        if state is None or leader is None or state.leader_epoch > now.leader_epoch:
            return
        candidates = (*state.isr, *state.elr)
        for member in candidates:
            daemon = self.cluster.brokers[member]
            if (daemon.name, replica.key) not in self.distrusted:
                yield from self.check_committed(daemon, replica.key, end, "invariant 2")
        for member in leader.isr:
            if member in candidates:
                continue
            daemon = self.cluster.brokers[member]
            if (daemon.name, replica.key) not in self.distrusted:
                yield from self.check_committed(daemon, replica.key, end, "invariant 8")
        uncounted = [member for member in candidates if member not in leader.maximal_isr]
        if uncounted and len(leader.isr) >= replica.metadata.effective_min_isr:
            yield (
                f"invariant 3: {replica}: the leader counts {list(leader.maximal_isr)},"
                f" the controller has ISR {list(state.isr)} and ELR {list(state.elr)}"
            )

    def _count_replica(self, before: Seen | None, now: Seen) -> None:
        note = self.coverage.note
        if before is None:
            return
        if now.is_leader and not before.is_leader:
            note("transition", "became-leader")
        elif now.is_leader and now.leader_epoch > before.leader_epoch:
            note("transition", "led-again")
        elif before.is_leader and not now.is_leader:
            note("transition", "became-follower")
        if now.log_end_offset < before.log_end_offset:
            note("transition", "truncated")
        if (
            now.replica.leader is not None
            and now.log_end_offset > before.log_end_offset
            and len(now.replica.leader.isr) < now.replica.metadata.effective_min_isr
        ):
            note("transition", "high-watermark-frozen")


def _check_coordinator(name: str, process: Process) -> Iterator[str]:
    """Check the states that a transaction coordinator holds as committed, and its outcomes."""
    if process.broker is not None:
        try:
            process.broker.parts.edge.transactions.check_invariants()
        except AssertionError as error:
            yield f"invariants 22 and 23: {name}: {error}"
