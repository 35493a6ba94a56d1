"""Aborts transactions that are overdue, and forgets transactional ids that are not used.

The module owns two timers, which run from the moment when the first shard is loaded. `transaction/`
decides what is overdue or unused; `Transactions` aborts or forgets it.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ...runtime.runtime import Runtime
from ..deadlines import Deadline, Deadlines
from .transaction import decisions
from .transaction.decisions import Decision, NeedsProducerId, Now
from .transaction.transaction import Transaction

if TYPE_CHECKING:
    from .transactions import Transactions

TOMBSTONES_MAX: Final = 1_000
"""The most tombstones in one batch."""

log = logging.getLogger(__name__)


class TransactionUpkeep:
    """The two regular checks of one coordinator."""

    def __init__(
        self, transactions: "Transactions", runtime: Runtime, deadlines: Deadlines
    ) -> None:
        self._transactions = transactions
        self._runtime = runtime
        self._deadlines = deadlines
        self._checks: dict[Callable[[], None], Deadline] = {}
        """The handle of each check's next deadline."""

    def begin(self) -> None:
        """Start both timers, unless they run already."""
        if not self._checks:
            config = self._transactions.config
            self._repeat(config.abort_check_interval_ms, self._abort_overdue)
            self._repeat(config.expiry_check_interval_ms, self._forget_unused)

    def close(self) -> None:
        """Cancel both timers."""
        for check in self._checks.values():
            check.cancel()

    def _repeat(self, interval_ms: int, check: Callable[[], None]) -> None:
        def due() -> None:
            self._repeat(interval_ms, check)
            check()

        self._checks[check] = self._deadlines.after(interval_ms, due)

    def _abort_overdue(self) -> None:
        wall_ms = self._runtime.wall_ms()
        for shard in self._transactions.shards:
            for known in shard.state.open:
                if decisions.is_overdue(shard.state.bring_back(known, wall_ms), wall_ms):
                    self._abort(known.transactional_id)

    def _abort(self, transactional_id: str) -> None:
        def decide(present: Transaction | None, now: Now) -> Decision | NeedsProducerId:
            # It may have ended while a producer id was being fetched.
            if present is None or not decisions.is_overdue(present, now.wall_ms):
                return Decision()
            return decisions.time_out(present, now)

        def done(decision: Decision) -> None:
            said = decision.error.name if decision.error else "aborted"
            log.info("%s: open for longer than its timeout: %s", transactional_id, said)

        self._transactions.decide(transactional_id, decide, done)

    def _forget_unused(self) -> None:
        wall_ms = self._runtime.wall_ms()
        unused_ms = self._transactions.config.transactional_id_expiration_ms
        for shard in self._transactions.shards:
            ledger = shard.state
            unused = [
                known.transactional_id
                for known in list(ledger)
                if decisions.is_expired(ledger.bring_back(known, wall_ms), wall_ms, unused_ms)
                and not ledger.is_changing(known.transactional_id)
            ]
            for at in range(0, len(unused), TOMBSTONES_MAX):
                self._transactions.forget(shard, unused[at : at + TOMBSTONES_MAX])
            self._transactions.groups.forget_unused(shard, wall_ms, unused_ms)
