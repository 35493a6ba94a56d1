"""What must hold after every step of every process, checked from outside the product.

Numbers are those of the invariant list in docs/invariants.md. The truth about records is read from
the disks, not asked of the code under test: `Ledger` remembers every batch that was ever committed.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from minikafka.broker.partition import Partition
from minikafka.protocol.control.image import MetadataImage, PartitionState
from minikafka.protocol.types import NO_LEADER, TopicIdPartition

from .cluster import Cluster, Daemon
from .history import Partition as ClientPartition
from .history import Sent, name
from .inside import image_of_controller, partitions_of, seen
from .loop import Process
from .rawlog import LogCursor, RawBatch
from .world import World


class Seen(NamedTuple):
    """A replica as it was after its process's last step: `inside.seen`."""

    is_leader: bool
    leader_epoch: int
    high_watermark: int
    log_end_offset: int


class Ledger:
    """Every batch of one partition that was ever below a high watermark."""

    def __init__(self) -> None:
        self.batches: list[RawBatch] = []
        self.index: dict[int, int] = {}

    @property
    def end(self) -> int:
        return self.batches[-1].next_offset if self.batches else 0

    def contradiction(self, batch: RawBatch) -> str | None:
        """Enter a committed batch; what is wrong if another one is there already."""
        if batch.base_offset >= self.end:
            if batch.base_offset > self.end:
                return f"a gap before offset {batch.base_offset}, the log ended at {self.end}"
            self.index[batch.base_offset] = len(self.batches)
            self.batches.append(batch)
            return None
        place = self.index.get(batch.base_offset)
        if place is None or self.batches[place] != batch:
            there = "another batching" if place is None else str(self.batches[place])
            return f"{batch} where {there} was committed"
        return None


class Invariants:
    """Installed on a world, it stops the run at the first step after which one is broken."""

    def __init__(self, world: World, cluster: Cluster) -> None:
        self.world = world
        self.cluster = cluster
        self.checks = 0
        self.ledgers: dict[TopicIdPartition, Ledger] = {}
        self.leaders: dict[tuple[TopicIdPartition, int], str] = {}
        self.image: MetadataImage | None = None
        """What the controllers have committed: the newest that any of them shows."""
        self.muted: dict[int, None] = {}
        """Numbers that are not checked: a stage may show what happens without a rule."""
        self.distrusted: dict[tuple[str, TopicIdPartition], None] = {}
        """Replicas whose unsynced data a power loss took; trusted again once back in the ISR."""
        self.unclean = False
        """An unclean election is on record: committed records may be lost."""
        self._seen: dict[tuple[str, TopicIdPartition], Seen] = {}
        self._cursors: dict[tuple[str, TopicIdPartition], LogCursor] = {}
        self._states: dict[TopicIdPartition, PartitionState] = {}
        self._controllers = {each.name: None for each in cluster.controllers.values()}
        self._epoch_of_leader: dict[TopicIdPartition, int] = {}
        world.loop.after_step = self.after_step

    def committed_end(self, partition: TopicIdPartition) -> int:
        ledger = self.ledgers.get(partition)
        return 0 if ledger is None else ledger.end

    def on_acknowledged(self, sent: Sent) -> None:
        """A producer was told that all in-sync replicas hold its record: they must."""
        offset = sent.acknowledged_at
        if offset is not None and offset >= (end := self._committed_end_of(sent.partition)):
            self._report(
                f"invariant 5: {name(sent.partition)}: offset {offset} was acknowledged,"
                f" {end} are committed"
            )

    def on_polled(self, partition: ClientPartition, offset: int) -> None:
        """A consumer was given a record: nobody may take it back any more."""
        if offset >= (end := self._committed_end_of(partition)):
            self._report(
                f"invariant 6: {name(partition)}: offset {offset} was served, {end} are committed"
            )

    def _committed_end_of(self, partition: ClientPartition) -> int:
        topic, index = partition
        topic_id = self.image.topic_ids.get(topic) if self.image is not None else None
        return 0 if topic_id is None else self.committed_end(TopicIdPartition(topic_id, index))

    def after_step(self, process: Process) -> None:
        check = process.check
        if check is not None:
            for finding in check():
                self._report(finding)
                if self.world.violations:
                    return

    def _report(self, finding: str) -> None:
        number = finding.partition(":")[0].removeprefix("invariant ")
        if not number.isdecimal() or int(number) not in self.muted:
            self.world.violation(finding)

    def lost_power(self, daemon: Daemon) -> None:
        """Its disk may have less than it acknowledged; what was seen of it counts no more."""
        if self.image is not None and daemon.name not in self._controllers:
            for key, _ in self.image.partitions():
                self.distrusted[daemon.name, key] = None
                self._cursors.pop((daemon.name, key), None)

    def is_full_isr(self) -> bool:
        """Is every replica of every partition in sync, as the controller has it?"""
        return self.image is not None and all(
            len(state.isr) == len(state.replicas) and state.leader != NO_LEADER
            for _, state in self.image.partitions()
        )

    def is_out_of_every_isr(self, daemon: Daemon) -> bool:
        """Has the controller taken the broker out wherever somebody else is left?"""
        (broker_id,) = (each for each, other in self.cluster.brokers.items() if other is daemon)
        return self.image is None or not any(
            broker_id in state.isr and (daemon.name, key) in self.distrusted
            for key, state in self.image.partitions()
        )

    def watch(self, daemon: Daemon) -> None:
        """The daemon's process has just been started."""
        process = daemon.process
        assert process is not None
        for key in [key for key in self._seen if key[0] == daemon.name]:
            del self._seen[key]
            self._cursors.pop(key, None)
        if daemon.name in self._controllers:
            process.check = self._controller_check(process)
        else:
            process.check = self._broker_check(daemon, process)

    # -- brokers ----------------------------------------------------------------------------

    def _broker_check(self, daemon: Daemon, process: Process) -> Callable[[], Iterator[str]]:
        remembered = self._seen
        name = daemon.name

        def check() -> Iterator[str]:
            for key, partition in partitions_of(process).items():
                now = seen(partition)
                before = remembered.get((name, key))
                if now != before and not partition.offline_because:
                    remembered[name, key] = Seen(*now)
                    self.checks += 1
                    yield from self._check_replica(daemon, partition, before, Seen(*now))

        return check

    def _check_replica(
        self, daemon: Daemon, replica: Partition, before: Seen | None, now: Seen
    ) -> Iterator[str]:
        where = f"{daemon.name} {replica}"
        key = key_of(replica)
        if not 0 <= replica.log_start_offset <= now.high_watermark <= now.log_end_offset:
            yield (
                f"invariant 10: {where}: log start {replica.log_start_offset}, high watermark"
                f" {now.high_watermark}, log end {now.log_end_offset}"
            )
        if now.is_leader:
            yield from self._check_leader(daemon, replica, before, now)
        if before is not None:
            if now.high_watermark < before.high_watermark and not self.unclean:
                yield (
                    f"invariant 9: {where}: high watermark went from {before.high_watermark}"
                    f" to {now.high_watermark}"
                )
            if now.log_end_offset < before.high_watermark and not self.unclean:
                yield (
                    f"invariant 11: {where}: truncated to {now.log_end_offset}, below its high"
                    f" watermark {before.high_watermark}"
                )
            if now.log_end_offset < before.log_end_offset:
                self._cursors.pop((daemon.name, key), None)
        if before is None or now.high_watermark > before.high_watermark:
            yield from self._check_committed(daemon, key, now.high_watermark)
            if now.is_leader:
                yield from self._check_members(replica, now.high_watermark)

    def _check_leader(
        self, daemon: Daemon, replica: Partition, before: Seen | None, now: Seen
    ) -> Iterator[str]:
        where = f"{daemon.name} {replica}"
        key = key_of(replica)
        epoch = (key, now.leader_epoch)
        other = self.leaders.setdefault(epoch, daemon.name)
        if other != daemon.name:
            yield (
                f"invariant 12: {replica}: {other} and {daemon.name} both lead epoch"
                f" {now.leader_epoch}"
            )
        if now.leader_epoch > self._epoch_of_leader.get(key, -1) and not self.unclean:
            self._epoch_of_leader[key] = now.leader_epoch
            # Leader completeness: it holds all that was ever committed.
            yield from self._check_committed(daemon, key, self.committed_end(key), "invariant 1")
        if (
            before is not None
            and now.high_watermark > before.high_watermark
            and replica.leader is not None
            and len(replica.leader.isr) < replica.min_isr
        ):
            yield (
                f"invariant 5: {where}: high watermark moved to {now.high_watermark} with ISR"
                f" {list(replica.leader.isr)} below min ISR {replica.min_isr}"
            )

    def _check_committed(
        self,
        daemon: Daemon,
        key: TopicIdPartition,
        end: int,
        number: str = "invariant 4",
    ) -> Iterator[str]:
        """Everything below `end` on this disk is what is committed there; all of it is there."""
        cursor = self._cursors.get((daemon.name, key))
        if cursor is None:
            cursor = LogCursor(daemon.host.disk, self._directory(daemon, key))
            self._cursors[daemon.name, key] = cursor
        ledger = self.ledgers.setdefault(key, Ledger())
        for batch in cursor.up_to(end):
            if batch.next_offset > end:
                yield f"{number}: {daemon.name} {self._name(key)}: {end} is inside {batch}"
            if self.unclean:
                continue
            wrong = ledger.contradiction(batch)
            if wrong is not None:
                yield f"{number}: {daemon.name} {self._name(key)}: {wrong}"
        if max(cursor.offset, 0) < end:
            yield (
                f"{number}: {daemon.name} {self._name(key)}: the disk holds offsets up to"
                f" {max(cursor.offset, 0)}, {end} are committed"
            )

    def _check_members(self, replica: Partition, end: int) -> Iterator[str]:
        """Leader candidate completeness: every member of the ISR on record holds it too."""
        leader = replica.leader
        if self.image is None or leader is None or self.unclean:
            return
        key = key_of(replica)
        state = self.image.partition(*key)
        if state is None or state.leader_epoch > replica.leader_epoch:
            return
        for member in state.isr:
            daemon = self.cluster.brokers[member]
            if (daemon.name, key) not in self.distrusted:
                yield from self._check_committed(daemon, key, end, "invariant 2")
        uncounted = [member for member in state.isr if member not in leader.maximal_isr]
        if uncounted and len(leader.isr) >= replica.min_isr:
            yield (
                f"invariant 3: {replica}: the leader counts {list(leader.maximal_isr)},"
                f" the controller has {list(state.isr)}"
            )

    def _name(self, key: TopicIdPartition) -> str:
        topic = self.image.topics.get(key.topic_id) if self.image is not None else None
        return f"{topic.name if topic else '?'}-{key.partition}"

    def _directory(self, daemon: Daemon, key: TopicIdPartition) -> str:
        return f"{daemon.properties['log.dirs']}/{self._name(key)}"

    # -- the controller ---------------------------------------------------------------------

    def _controller_check(self, process: Process) -> Callable[[], Iterator[str]]:
        last_offset = -1

        def check() -> Iterator[str]:
            nonlocal last_offset
            image = image_of_controller(process)
            if image is None or image.offset == last_offset:
                return
            last_offset = image.offset
            if self.image is None or image.offset >= self.image.offset:
                self.image = image
                self.checks += 1
                yield from self._check_image(image)

        return check

    def _check_image(self, image: MetadataImage) -> Iterator[str]:
        for key, state in image.partitions():
            old = self._states.get(key)
            if old is state:
                continue
            self._states[key] = state
            yield from self._check_state(image, key, state)
            if old is not None and old != state:
                yield from self._check_change(key, old, state)

    def _check_state(
        self, image: MetadataImage, key: TopicIdPartition, state: PartitionState
    ) -> Iterator[str]:
        name = self._name(key)
        if state.unclean_epoch >= 0:
            self.unclean = True
        if not state.isr or any(member not in state.replicas for member in state.isr):
            yield f"invariant 13: {name}: ISR {state.isr} of replicas {state.replicas}"
        if state.elr:
            yield f"invariant 13: {name}: ELR {state.elr} without eligible leader replicas"
        for member in state.isr:
            broker = image.brokers[member]
            if broker.fenced and len(state.isr) > 1:
                yield f"invariant 13: {name}: broker {member} is fenced and in ISR {state.isr}"
        if state.leader != NO_LEADER and state.leader not in state.isr:
            yield f"invariant 12: {name}: leader {state.leader} is outside of ISR {state.isr}"

    def _check_change(
        self, key: TopicIdPartition, old: PartitionState, state: PartitionState
    ) -> Iterator[str]:
        name = self._name(key)
        if state.partition_epoch <= old.partition_epoch:
            yield (
                f"invariant 14: {name}: partition epoch went from {old.partition_epoch} to"
                f" {state.partition_epoch}"
            )
        grown = state.leader_epoch - old.leader_epoch
        if grown < 0 or (state.leader != old.leader and grown == 0):
            yield (
                f"invariant 14: {name}: leader {old.leader} epoch {old.leader_epoch} became"
                f" leader {state.leader} epoch {state.leader_epoch}"
            )
        for member in state.isr:
            if member not in old.isr:
                daemon = self.cluster.brokers[member]
                if (daemon.name, key) in self.distrusted and not daemon.alive:
                    continue  # The controller does not know yet that it died.
                self.distrusted.pop((daemon.name, key), None)
                yield from self._check_committed(
                    daemon, key, self.committed_end(key), "invariant 15"
                )


def key_of(partition: Partition) -> TopicIdPartition:
    return TopicIdPartition(partition.topic_id, partition.index)
