"""The transaction coordinator of this broker, which carries out requests about transactional ids.

It asks the pure rules in `transaction/` for a decision, appends the change, applies it at commit,
and then answers. Owns the shards of `__transaction_state` that this broker leads, and the
background work: markers and upkeep.

When this broker becomes the coordinator of a shard, it reads the shard's log, and sends the markers
of every transaction that was decided and not completed. When it ceases to be the coordinator, it
drops that shard's state and markers. Markers that were sent too late are refused by partition
leaders, because each carries the coordinator's leader epoch.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from ...protocol.commit_groups import home_of
from ...protocol.control.image import MetadataImage
from ...protocol.control.records import TRANSACTION_VERSION
from ...protocol.errors import ErrorCode
from ...protocol.types import TopicPartition
from ...runtime.errors import InvariantViolation
from ...runtime.runtime import Runtime
from ..deadlines import Deadlines
from ..partitions import Partitions
from ..peers import Peers
from .commit_groups import CommitGroups
from .keys import TRANSACTIONS_TOPIC
from .producer_ids import ProducerIds
from .shard import KeyValue, Shard, ShardSettings
from .shards import ShardCare, Shards
from .transaction import decisions
from .transaction.config import TransactionConfig
from .transaction.decisions import (
    AddPartitions,
    Decision,
    EndTransaction,
    InitProducerId,
    NeedsProducerId,
    Now,
)
from .transaction.ledger import Ledger
from .transaction.markers import Ending
from .transaction.transaction import Transaction
from .transaction_log import TransactionLog
from .transaction_markers import MarkerSender
from .transaction_questions import TransactionQuestions, Verified
from .transaction_turns import Turns
from .transaction_upkeep import TransactionUpkeep

Decide = Callable[[Transaction | None, Now], Decision | NeedsProducerId]
Decided = Callable[[Decision], None]
"""Called once with the decision that is the answer, perhaps before the call returns."""

RETRY_MS: Final = 500
"""Milliseconds until a completion that could not be written is tried again."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TransactionParts:
    """The parts of the broker that its transaction coordinator uses."""

    runtime: Runtime
    config: TransactionConfig
    partitions: Partitions
    deadlines: Deadlines
    producer_ids: ProducerIds
    peers: Peers
    image: Callable[[], MetadataImage]


class Transactions:
    """The coordinator of every transactional id whose shard this broker leads."""

    def __init__(self, parts: TransactionParts) -> None:
        self.config = parts.config
        self._runtime = parts.runtime
        self._deadlines = parts.deadlines
        self._producer_ids = parts.producer_ids
        self._image = parts.image
        settings = ShardSettings(
            TRANSACTIONS_TOPIC,
            too_large=ErrorCode.MESSAGE_TOO_LARGE,
            home_of=home_of,
        )
        care = ShardCare(Ledger, self._on_loaded, self._on_unloaded)
        self.shards = Shards(parts.runtime, parts.partitions, settings, care)
        self.sender = MarkerSender(
            parts.runtime, parts.deadlines, parts.peers, parts.image, self._on_markers_written
        )
        self._questions = TransactionQuestions(
            parts.runtime, self, parts.deadlines, parts.peers, parts.image
        )
        self._log = TransactionLog(parts.deadlines)
        self._turns = Turns(parts.runtime, parts.deadlines)
        self.groups = CommitGroups(self, parts.runtime, self._log, self._turns, parts.producer_ids)
        self._upkeep = TransactionUpkeep(self, parts.runtime, parts.deadlines)

    @property
    def level(self) -> int:
        """The finalised transaction.version."""
        return self._image().features.get(TRANSACTION_VERSION, 0)

    async def close(self) -> None:
        """Stop all background work and unload all shards, because the broker stops."""
        self._upkeep.close()
        await self._questions.close()
        await self.sender.close()
        await self.shards.close()

    # Requests.

    def init_producer_id(self, asked: InitProducerId, done: Decided) -> None:
        """Give a transactional producer its id and epoch."""
        if not 0 < asked.timeout_ms <= self.config.transaction_max_timeout_ms:
            done(Decision(error=ErrorCode.INVALID_TRANSACTION_TIMEOUT))
            return

        def decide(present: Transaction | None, now: Now) -> Decision | NeedsProducerId:
            if present is None and self.is_full:
                log.warning("%s: too many transactional ids", asked.transactional_id)
                return Decision(error=ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return decisions.init_producer_id(present, asked, now)

        patience_ms = self.config.verification_retry_max_ms
        self.decide_in_turn(asked.transactional_id, decide, done, patience_ms)

    @property
    def is_full(self) -> bool:
        """True if transactional ids and commit groups have reached transactional.ids.max."""
        count = sum(len(shard.state) + len(shard.state.groups) for shard in self.shards)
        return count >= self.config.transactional_ids_max

    def add_partitions(self, asked: AddPartitions, done: Decided, patience_ms: int) -> None:
        """Add partitions to a transaction.

        Wait up to `patience_ms` while an earlier transaction ends or an earlier change is not
        committed.
        """
        self.decide_in_turn(
            asked.transactional_id,
            lambda present, now: decisions.add_partitions(present, asked, now),
            done,
            patience_ms,
        )

    def verify_partitions(self, asked: AddPartitions) -> dict[TopicPartition, ErrorCode]:
        """Check that partitions are in the open transaction; return an error code for each."""
        found = self.find(asked.transactional_id)
        if isinstance(found, ErrorCode):
            return dict.fromkeys(asked.partitions, found)
        return decisions.verify_partitions(found.state.get(asked.transactional_id), asked)

    def verify(self, asked: AddPartitions, done: Verified, *, adds: bool = False) -> None:
        """Ask the coordinator whether partitions are in a transaction, as a leader must (KIP-890).

        With `adds` the coordinator also adds them to the transaction, as producers expect from
        Produce 12 and TxnOffsetCommit 5 on. See `Verified` for the result.
        """
        self._questions.ask(asked, done, adds=adds)

    def end(self, asked: EndTransaction, done: Decided) -> None:
        """Commit or abort a transaction; answer once the outcome is committed to the log."""
        self.decide(
            asked.transactional_id,
            lambda present, now: decisions.end(present, asked, now),
            done,
        )

    def describe(self, transactional_id: str) -> Transaction | ErrorCode:
        """Return the committed state of a transactional id, or the error to answer with."""
        found = self.find(transactional_id)
        if isinstance(found, ErrorCode):
            return found
        known = found.state.get(transactional_id)
        return ErrorCode.TRANSACTIONAL_ID_NOT_FOUND if known is None else known

    def missing_markers(self, transactional_id: str) -> list[TopicPartition] | None:
        """Return the partitions that still lack a marker; None if no markers are being sent."""
        ending = self.sender.markers.get(transactional_id)
        return None if ending is None else list(ending.missing)

    def every(self) -> list[Transaction]:
        """Return the state of every transactional id that this broker coordinates."""
        return [known for shard in self.shards for known in shard.state]

    # Decide, append, apply at commit.

    def find(self, transactional_id: str) -> Shard[Ledger] | ErrorCode:
        """Return the shard of a transactional id or commit group, or the error to answer with."""
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        return self.shards.of(transactional_id)

    def decide_in_turn(
        self, transactional_id: str, decide: Decide, done: Decided, patience_ms: int
    ) -> None:
        """Decide; first wait, up to `patience_ms`, until the id has no pending or ending change."""
        until_ms = self._runtime.monotonic_ms() + patience_ms

        def attempt() -> None:
            self.decide(transactional_id, decide, decided)

        def decided(decision: Decision) -> None:
            must_wait = decision.error is ErrorCode.CONCURRENT_TRANSACTIONS
            if must_wait and not self._turns.is_over(until_ms):
                self._turns.wait(transactional_id, attempt, until_ms)
            else:
                done(decision)

        attempt()

    def decide(
        self, transactional_id: str, decide: Decide, done: Decided, fresh_id: int | None = None
    ) -> None:
        """Decide from the committed state, append the change, apply it at commit, call `done`."""
        found = self.find(transactional_id)
        if isinstance(found, ErrorCode):
            done(Decision(error=found))
            return
        ledger = found.state
        if ledger.is_changing(transactional_id):
            done(Decision(error=ErrorCode.CONCURRENT_TRANSACTIONS))
            return
        decision = decide(ledger.get(transactional_id), self.now(fresh_id))
        if isinstance(decision, NeedsProducerId):
            self._with_fresh_id(transactional_id, decide, done)
        else:
            self._carry_out(found, decision, done)

    def _with_fresh_id(self, transactional_id: str, decide: Decide, done: Decided) -> None:
        """Decide again once an unused producer id is available, from the state at that time."""

        def on_taken(error: ErrorCode, producer_id: int) -> None:
            if error:
                done(Decision(error=error))
            else:
                self.decide(transactional_id, decide, done, producer_id)

        self._producer_ids.wait(on_taken)

    def _carry_out(self, shard: Shard[Ledger], decision: Decision, done: Decided) -> None:
        change = decision.change
        if change is None:
            done(decision)
            return
        record = shard.state.begin(change, self.level)

        def on_appended(error: ErrorCode) -> None:
            if error is ErrorCode.MESSAGE_TOO_LARGE:
                error = ErrorCode.UNKNOWN_SERVER_ERROR  # As in Kafka: the producer sent no batch.
            done(Decision(error=error) if error else decision)

        self._log.append(shard, [record], partial(self.on_settled, shard, change), on_appended)

    def on_settled(self, shard: Shard[Ledger], change: Transaction, is_committed: bool) -> None:
        """End a pending change: apply or drop it; send markers if it decided an outcome."""
        self._settle(shard, change.transactional_id, is_committed)
        if is_committed and change.state.is_prepared:
            self.sender.add(Ending(change, shard.index, shard.epoch))

    def _settle(self, shard: Shard[Ledger], transactional_id: str, is_committed: bool) -> None:
        shard.state.settle(transactional_id, is_committed=is_committed)
        self._turns.on_changed(transactional_id)

    # The end of a transaction.

    def _on_markers_written(self, ending: Ending) -> None:
        shard = self.shards.at(ending.shard)
        if isinstance(shard, ErrorCode) or shard.epoch != ending.coordinator_epoch:
            return
        transactional_id = ending.transaction.transactional_id
        present = shard.state.get(transactional_id)
        assert present is not None
        change = decisions.complete(present, self.now())
        record = shard.state.begin(change, self.level)

        def on_settled(is_committed: bool) -> None:
            self._settle(shard, transactional_id, is_committed)
            if not is_committed:
                self._deadlines.after(RETRY_MS, lambda: self._on_markers_written(ending))

        def on_appended(error: ErrorCode) -> None:
            if error:
                log.info("%r: completion: %s", ending, error.name)

        self._log.append(shard, [record], on_settled, on_appended)

    def now(self, fresh_id: int | None = None) -> Now:
        """Return the facts that a decision may use at this moment."""
        return Now(wall_ms=self._runtime.wall_ms(), level=self.level, fresh_id=fresh_id)

    # Shards come and go.

    def _on_loaded(self, shard: Shard[Ledger]) -> None:
        for decided in shard.state.on_loaded(self._runtime.wall_ms()):
            self.sender.add(Ending(decided, shard.index, shard.epoch))
        self._upkeep.begin()

    def _on_unloaded(self, shard: Shard[Ledger]) -> None:
        self.sender.drop_shard(shard.index)

    def forget(self, shard: Shard[Ledger], transactional_ids: list[str]) -> None:
        """Write tombstones of unused transactional ids to a shard."""
        records: list[KeyValue] = [
            shard.state.begin_to_forget(transactional_id) for transactional_id in transactional_ids
        ]

        def on_settled(is_committed: bool) -> None:
            for transactional_id in transactional_ids:
                self._settle(shard, transactional_id, is_committed)

        def on_appended(error: ErrorCode) -> None:
            said = error.name if error else "forgotten"
            log.info("%r: %d unused transactional ids: %s", shard, len(records), said)

        self._log.append(shard, records, on_settled, on_appended)

    def check_invariants(self) -> None:
        """Check the ledgers and markers.

        Raise InvariantViolation if a sent decision has changed.
        """
        self.sender.markers.check_invariants()
        for shard in self.shards:
            shard.state.check_invariants()
        for ending in self.sender.markers:
            shard_or_error = self.shards.at(ending.shard)
            if isinstance(shard_or_error, ErrorCode):
                continue
            decided = ending.transaction
            if shard_or_error.state.get(decided.transactional_id) is not decided:
                raise InvariantViolation(f"{ending!r}: the decision has changed")
