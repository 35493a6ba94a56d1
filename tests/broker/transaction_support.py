"""What tests of the transaction coordinator share: a producer's view of the pure machine."""

from dataclasses import dataclass, field, replace

from minikafka.broker.coordinator.transaction import decisions
from minikafka.broker.coordinator.transaction.decisions import (
    AddPartitions,
    Decision,
    EndTransaction,
    InitProducerId,
    NeedsProducerId,
    Now,
)
from minikafka.broker.coordinator.transaction.ledger import Ledger
from minikafka.broker.coordinator.transaction.transaction import State, Transaction
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.records.batch_header import BatchHeader, read_header
from minikafka.protocol.records.records import BatchBuilder
from minikafka.protocol.types import NO_EPOCH, NO_PRODUCER_ID, TopicPartition

NAME = "app"
MINUTE_MS = 60_000
A, B = TopicPartition("a", 0), TopicPartition("b", 1)


def header() -> BatchHeader:
    builder = BatchBuilder()
    builder.append(0, b"k", b"v")
    return read_header(builder.build())


HEADER = header()


@dataclass
class Coordinator:
    """One ledger, its log as a list, and ids from a counter; a change commits when told to."""

    level: int = 2
    wall_ms: int = 1_000_000
    ledger: Ledger = field(default_factory=Ledger)
    log: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    next_id: int = 100
    commits: bool = True
    """False: appends fail, as below min ISR."""

    @property
    def now(self) -> Now:
        return Now(wall_ms=self.wall_ms, level=self.level)

    @property
    def state(self) -> State:
        return self.transaction.state

    @property
    def transaction(self) -> Transaction:
        found = self.ledger.get(NAME)
        assert found is not None
        return found

    def fresh(self) -> Now:
        self.next_id += 1
        return Now(wall_ms=self.wall_ms, level=self.level, fresh_id=self.next_id)

    def carry_out(self, decision: Decision) -> Decision:
        """Append and commit the change, if there is one."""
        if decision.change is not None:
            record = self.ledger.begin(decision.change, self.level)
            self.ledger.settle(decision.change.transactional_id, is_committed=self.commits)
            if not self.commits:
                return Decision(error=ErrorCode.COORDINATOR_NOT_AVAILABLE)
            self.log.append(record)
        self.ledger.check_invariants()
        return decision

    def init(
        self,
        producer_id: int = NO_PRODUCER_ID,
        epoch: int = NO_EPOCH,
        *,
        timeout_ms: int = MINUTE_MS,
    ) -> Decision:
        asked = InitProducerId(
            transactional_id=NAME, timeout_ms=timeout_ms, producer_id=producer_id, epoch=epoch
        )
        present = self.ledger.get(NAME)
        decision = decisions.init_producer_id(present, asked, self.now)
        if isinstance(decision, NeedsProducerId):
            decision = decisions.init_producer_id(present, asked, self.fresh())
        assert isinstance(decision, Decision)
        return self.carry_out(decision)

    def add(self, producer_id: int, epoch: int, *partitions: TopicPartition) -> ErrorCode:
        asked = AddPartitions(
            transactional_id=NAME,
            producer_id=producer_id,
            epoch=epoch,
            partitions=partitions or (A,),
            client_version=self.level,
        )
        decision = decisions.add_partitions(self.ledger.get(NAME), asked, self.now)
        return self.carry_out(decision).error

    def verify(self, producer_id: int, epoch: int, *partitions: TopicPartition) -> list[ErrorCode]:
        asked = AddPartitions(
            transactional_id=NAME,
            producer_id=producer_id,
            epoch=epoch,
            partitions=partitions or (A,),
        )
        return list(decisions.verify_partitions(self.ledger.get(NAME), asked).values())

    def end(self, producer_id: int, epoch: int, *, commit: bool = True) -> Decision:
        """EndTxn in the version that the level suggests."""
        asked = EndTransaction(
            transactional_id=NAME,
            producer_id=producer_id,
            epoch=epoch,
            is_commit=commit,
            client_version=self.level,
        )
        present = self.ledger.get(NAME)
        decision = decisions.end(present, asked, self.now)
        if isinstance(decision, NeedsProducerId):
            decision = decisions.end(present, asked, self.fresh())
        assert isinstance(decision, Decision)
        return self.carry_out(decision)

    def time_out(self) -> Decision:
        decision = decisions.time_out(self.transaction, self.now)
        if isinstance(decision, NeedsProducerId):
            decision = decisions.time_out(self.transaction, self.fresh())
        assert isinstance(decision, Decision)
        return self.carry_out(decision)

    def complete(self) -> Transaction:
        """Every marker is written."""
        self.carry_out(Decision(change=decisions.complete(self.transaction, self.now)))
        return self.transaction

    def fail_over(self) -> "Coordinator":
        """Another broker reads the log."""
        other = Coordinator(self.level, self.wall_ms, next_id=self.next_id + 1000)
        for offset, (key, value) in enumerate(self.log):
            other.ledger.replay(key, value, offset, HEADER)
        other.log = list(self.log)
        other.ledger.on_loaded(self.wall_ms)
        other.ledger.check_invariants()
        return other


def begun(level: int = 2, *partitions: TopicPartition) -> Coordinator:
    """A coordinator with one open transaction, of producer id 101 in epoch 0."""
    coordinator = Coordinator(level)
    assert coordinator.init().error is ErrorCode.NONE
    assert coordinator.add(101, 0, *partitions) is ErrorCode.NONE
    return coordinator


def at_epoch(epoch: int, level: int = 2, state: State = State.ONGOING) -> Coordinator:
    """The same with another epoch."""
    coordinator = begun(level)
    with_epoch = replace(coordinator.transaction, epoch=epoch)
    coordinator.log.append(coordinator.ledger.begin(with_epoch, level))
    coordinator.ledger.settle(NAME, is_committed=True)
    if state is not State.ONGOING:
        coordinator.end(101, epoch, commit=state is State.COMPLETE_COMMIT)
        coordinator.complete()
    return coordinator
