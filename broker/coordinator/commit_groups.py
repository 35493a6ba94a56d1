"""Carries out requests about commit groups, and aborts transactions that a commit leaves open.

The pure rules are in `transaction/commit_group.py`. A whole decision is appended as one batch, and
answered once that batch is committed. Owns no state: groups are in the ledgers of `Transactions`.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from ...protocol.errors import ErrorCode
from ...runtime.runtime import Runtime
from .producer_ids import ProducerIds
from .shard import Shard
from .transaction import commit_group
from .transaction.commit_group import (
    Commit,
    CommitGroup,
    GroupDecision,
    InitGroup,
    Named,
    NeedsProducerIds,
)
from .transaction.decisions import Decision, Now
from .transaction.ledger import Ledger
from .transaction.transaction import Transaction
from .transaction_log import TransactionLog
from .transaction_turns import Turns

if TYPE_CHECKING:
    from .transactions import Transactions

Decide = Callable[[Ledger, Now, Sequence[int]], GroupDecision | NeedsProducerIds]
"""Decides on a commit group. The last argument holds the unused producer ids taken so far, at the
request of earlier decisions (`NeedsProducerIds`)."""
Decided = Callable[[GroupDecision], None]
"""Called once with the decision that is the answer, perhaps before the call returns."""
LOSER_PATIENCE_MS: Final = 10_000
"""The most milliseconds to wait for a pending change of a transaction that must be aborted."""

log = logging.getLogger(__name__)


class CommitGroups:
    """The handlers of InitCommitGroup and CommitGroup, and the expiry of unused groups."""

    def __init__(
        self,
        transactions: "Transactions",
        runtime: Runtime,
        appends: TransactionLog,
        turns: Turns,
        producer_ids: ProducerIds,
    ) -> None:
        self._transactions = transactions
        self._runtime = runtime
        self._appends = appends
        self._turns = turns
        self._producer_ids = producer_ids

    # Requests.

    def init(self, asked: InitGroup, done: Decided) -> None:
        """Carry out InitCommitGroup: a run (one start of an application) takes over a group.

        `done` is called once the change is committed.
        """

        def decide(ledger: Ledger, now: Now, fresh_ids: Sequence[int]) -> GroupDecision:
            is_new = ledger.groups.get(asked.group) is None
            if is_new and self._transactions.is_full:
                return GroupDecision(
                    error=ErrorCode.COORDINATOR_NOT_AVAILABLE,
                    message="this broker coordinates transactional.ids.max names already",
                )
            return commit_group.init_group(ledger, asked, now)

        self._decide_in_turn(asked.group, decide, lambda shard, decision: None, done)

    def commit(self, asked: Commit, done: Decided) -> None:
        """Carry out CommitGroup: commit the named transactions and abort the group's others."""

        def decide(
            ledger: Ledger, now: Now, fresh_ids: Sequence[int]
        ) -> GroupDecision | NeedsProducerIds:
            return commit_group.commit(ledger, asked, now, fresh_ids)

        def then(shard: Shard[Ledger], decision: GroupDecision) -> None:
            self._abort(commit_group.left_over(shard.state, asked, decision))

        self._decide_in_turn(asked.group, decide, then, done)

    # Decide, append, apply at commit.

    def _decide_in_turn(
        self,
        group: str,
        decide: Decide,
        then: Callable[[Shard[Ledger], GroupDecision], None],
        done: Decided,
    ) -> None:
        """Decide; wait first for pending changes of the group or of named transactions.

        The wait lasts at most `verification_retry_max_ms`. `then` is called when the decision is
        committed, or immediately if it changes nothing; it is not called after an error.
        """
        patience_ms = self._transactions.config.verification_retry_max_ms
        until_ms = self._runtime.monotonic_ms() + patience_ms
        fresh_ids: list[int] = []

        def attempt() -> None:
            found = self._transactions.find(group)
            if isinstance(found, ErrorCode):
                done(GroupDecision(error=found))
                return
            decision = decide(found.state, self._transactions.now(), fresh_ids)
            if isinstance(decision, NeedsProducerIds):
                self._take_fresh(fresh_ids, decision.count, attempt, done)
            elif decision.waits_for is not None and not self._turns.is_over(until_ms):
                self._turns.wait(decision.waits_for, attempt, until_ms)
            elif decision.changes_group:
                self._write(found, decision, then, done)
            else:
                if not decision.error:
                    then(found, decision)
                done(decision)

        attempt()

    def _take_fresh(
        self, ids: list[int], count: int, again: Callable[[], None], done: Decided
    ) -> None:
        """Add `count` unused producer ids to `ids`, then call `again`; fetch more if necessary."""

        def on_taken(error: ErrorCode, producer_id: int) -> None:
            if error:
                done(GroupDecision(error=error, message="no producer id could be had"))
            else:
                ids.append(producer_id)
                again()

        for _ in range(count):
            producer_id = self._producer_ids.take()
            if producer_id is None:
                self._producer_ids.wait(on_taken)
                return
            ids.append(producer_id)
        again()

    def _write(
        self,
        shard: Shard[Ledger],
        decision: GroupDecision,
        then: Callable[[Shard[Ledger], GroupDecision], None],
        done: Decided,
    ) -> None:
        group, changes = decision.group, decision.changes
        assert group is not None
        ledger, level = shard.state, self._transactions.level
        records = [ledger.begin(change, level) for change in changes]
        records.append(ledger.groups.begin(group))

        def on_settled(is_committed: bool) -> None:
            for change in changes:
                self._transactions.on_settled(shard, change, is_committed)
            self._settle(shard, group.name, is_committed)
            if is_committed:
                then(shard, decision)

        def on_appended(error: ErrorCode) -> None:
            done(_refused(error, group, len(changes)) if error else decision)

        self._appends.append(shard, records, on_settled, on_appended)

    def _settle(self, shard: Shard[Ledger], name: str, is_committed: bool) -> None:
        shard.state.groups.settle(name, is_committed=is_committed)
        self._turns.on_changed(name)

    # Transactions that a commit leaves open.

    def _abort(self, losers: list[Named]) -> None:
        """Abort those of the transactions that are still open, each in its own event loop turn."""
        # Not at once, because a commit may be reported in the middle of an append to the same log.
        for loser in losers:
            asyncio.get_running_loop().call_soon(self._abort_one, loser)

    def _abort_one(self, loser: Named) -> None:
        def decide(present: Transaction | None, now: Now) -> Decision:
            return commit_group.abort_loser(present, loser, now)

        def done(decision: Decision) -> None:
            if decision.error:
                # The next commit aborts it, or else its timeout does.
                log.info("%s: not aborted: %s", loser.transactional_id, decision.error.name)

        self._transactions.decide_in_turn(loser.transactional_id, decide, done, LOSER_PATIENCE_MS)

    # Time.

    def forget_unused(self, shard: Shard[Ledger], wall_ms: int, unused_ms: int) -> None:
        """Write tombstones of groups unused for `unused_ms` that have no transactional ids left."""
        groups = shard.state.groups
        unused = commit_group.unused_groups(shard.state, wall_ms, unused_ms)
        if not unused:
            return
        records = [groups.begin_to_forget(name) for name in unused]

        def on_settled(is_committed: bool) -> None:
            for name in unused:
                self._settle(shard, name, is_committed)

        def on_appended(error: ErrorCode) -> None:
            said = error.name if error else "forgotten"
            log.info("%r: %d unused commit groups: %s", shard, len(unused), said)

        self._appends.append(shard, records, on_settled, on_appended)


def _refused(error: ErrorCode, group: CommitGroup, count: int) -> GroupDecision:
    message = None
    if error is ErrorCode.MESSAGE_TOO_LARGE:
        message = (
            f"commit group {group.name}: {count} transactions are more than one batch of "
            "__transaction_state holds: use fewer tasks, or raise that topic's max.message.bytes"
        )
    return GroupDecision(error=error, message=message)
