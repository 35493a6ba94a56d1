"""The coordinator of a commit group without a broker; its log is a list of batches."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from minikafka.broker.coordinator.transaction import commit_group, decisions
from minikafka.broker.coordinator.transaction.commit_group import (
    Commit,
    GroupDecision,
    InitGroup,
    Named,
    NeedsProducerIds,
)
from minikafka.broker.coordinator.transaction.decisions import (
    AddPartitions,
    Decision,
    InitProducerId,
    NeedsProducerId,
    Now,
)
from minikafka.broker.coordinator.transaction.ledger import Ledger
from minikafka.broker.coordinator.transaction.transaction import State, Transaction
from minikafka.protocol.commit_groups import group_of
from minikafka.protocol.errors import ErrorCode

from .transaction_support import HEADER, MINUTE_MS, A, B

GROUP = "g"
Batch = list[tuple[bytes, bytes | None]]


def member(name: str) -> str:
    """Return the id for a short name; names with a letter are ids outside of the group."""
    if name.isdigit():
        return f"{GROUP}/{name}/0.0"
    return f"{GROUP}/{name}" if name[0].isdigit() else name


@dataclass
class CommitGroupLab:
    """A coordinator that decides requests at once; the test says whether a batch is committed."""

    level: int = 2
    wall_ms: int = 1_000_000
    ledger: Ledger = field(default_factory=Ledger)
    log: list[Batch] = field(default_factory=list)
    next_id: int = 100
    commits: bool = True
    """False: appends fail, as below min ISR."""

    def now(self, fresh_id: int | None = None) -> Now:
        return Now(wall_ms=self.wall_ms, level=self.level, fresh_id=fresh_id)

    def fresh(self) -> int:
        self.next_id += 1
        return self.next_id

    def transaction(self, name: str) -> Transaction:
        found = self.ledger.get(member(name))
        assert found is not None
        return found

    def states(self) -> dict[str, State]:
        return {each.transactional_id.removeprefix(f"{GROUP}/"): each.state for each in self.ledger}

    # Producers.

    def init(self, name: str) -> Named:
        """Send InitProducerId; an open transaction of the id is aborted first."""
        asked = InitProducerId(transactional_id=member(name), timeout_ms=MINUTE_MS)
        while True:
            present = self.ledger.get(asked.transactional_id)
            decision = decisions.init_producer_id(present, asked, self.now())
            if isinstance(decision, NeedsProducerId):
                now = self.now(self.fresh())
                decision = decisions.init_producer_id(present, asked, now)
            assert isinstance(decision, Decision)
            self.write(decision)
            if decision.error is not ErrorCode.CONCURRENT_TRANSACTIONS:
                assert decision.error is ErrorCode.NONE
                return Named(asked.transactional_id, decision.producer_id, decision.epoch)
            self.complete()

    def open(self, name: str) -> Named:
        """Send InitProducerId, and begin a transaction."""
        named = self.init(name)
        assert self.add(named) is ErrorCode.NONE
        return named

    def add(self, named: Named) -> ErrorCode:
        asked = AddPartitions(
            transactional_id=named.transactional_id,
            producer_id=named.producer_id,
            epoch=named.epoch,
            partitions=(A, B),
            client_version=self.level,
        )
        present = self.ledger.get(named.transactional_id)
        return self.write(decisions.add_partitions(present, asked, self.now())).error

    def end(self, named: Named, *, is_commit: bool) -> Decision:
        """Send EndTxn in the version that belongs to the level of transaction.version."""
        asked = decisions.EndTransaction(
            transactional_id=named.transactional_id,
            producer_id=named.producer_id,
            epoch=named.epoch,
            is_commit=is_commit,
            client_version=self.level,
        )
        decision = decisions.end(self.ledger.get(named.transactional_id), asked, self.now())
        assert isinstance(decision, Decision)
        return self.write(decision)

    def time_out(self, name: str) -> None:
        decision = decisions.time_out(self.transaction(name), self.now())
        assert isinstance(decision, Decision)
        self.write(decision)

    # Drivers.

    def run(self, run: str) -> GroupDecision:
        asked = InitGroup(group=GROUP, run=run)
        return self.write_all(commit_group.init_group(self.ledger, asked, self.now()))

    def commit(self, generation: int, batch_id: int, *transactions: Named) -> GroupDecision:
        done = self.decide(generation, batch_id, *transactions)
        if not done.error:
            asked = Commit(
                group=GROUP, generation=generation, batch_id=batch_id, transactions=transactions
            )
            self.abort(commit_group.left_over(self.ledger, asked, done))
        return done

    def decide(self, generation: int, batch_id: int, *transactions: Named) -> GroupDecision:
        """Make only the decision, as if the coordinator died before acting on it."""
        asked = Commit(
            group=GROUP, generation=generation, batch_id=batch_id, transactions=transactions
        )
        decision = commit_group.commit(self.ledger, asked, self.now())
        if isinstance(decision, NeedsProducerIds):
            fresh_ids = [self.fresh() for _ in range(decision.count)]
            decision = commit_group.commit(self.ledger, asked, self.now(), fresh_ids)
        assert isinstance(decision, GroupDecision)
        return self.write_all(decision)

    def abort(self, losers: Iterable[Named]) -> None:
        for loser in losers:
            present = self.ledger.get(loser.transactional_id)
            self.write(commit_group.abort_loser(present, loser, self.now()))

    # The log.

    def write(self, decision: Decision) -> Decision:
        if decision.change is not None:
            record = self.ledger.begin(decision.change, self.level)
            self.ledger.settle(decision.change.transactional_id, is_committed=self.commits)
            if not self.commits:
                return Decision(error=ErrorCode.COORDINATOR_NOT_AVAILABLE)
            self.log.append([record])
        self.ledger.check_invariants()
        return decision

    def write_all(self, decision: GroupDecision) -> GroupDecision:
        """One batch: it is there or not."""
        group = decision.group
        if not decision.changes_group:
            return decision
        assert group is not None
        batch = [self.ledger.begin(change, self.level) for change in decision.changes]
        batch.append(self.ledger.groups.begin(group))
        for change in decision.changes:
            self.ledger.settle(change.transactional_id, is_committed=self.commits)
        self.ledger.groups.settle(group.name, is_committed=self.commits)
        if not self.commits:
            return GroupDecision(error=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self.log.append(batch)
        self.ledger.check_invariants()
        return decision

    def complete(self) -> None:
        """Every marker is written."""
        for each in list(self.ledger):
            if each.state.is_prepared:
                self.write(Decision(change=decisions.complete(each, self.now())))

    def fail_over(self, *, without_last: bool = False) -> "CommitGroupLab":
        """Let another broker load the log, perhaps without the newest batch."""
        other = CommitGroupLab(self.level, self.wall_ms, next_id=self.next_id + 1000)
        other.log = self.log[:-1] if without_last else list(self.log)
        for offset, batch in enumerate(other.log):
            for key, value in batch:
                other.ledger.replay(key, value, offset, HEADER)
        other.ledger.on_loaded(self.wall_ms)
        other.ledger.check_invariants()
        return other

    def open_now(self) -> list[str]:
        """Return the group's ids with an open transaction."""
        return [
            each.transactional_id
            for each in self.ledger.open
            if group_of(each.transactional_id) == GROUP
        ]
