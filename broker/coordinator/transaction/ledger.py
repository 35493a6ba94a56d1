"""The transactional ids of one partition of `__transaction_state`, and their pending changes.

A change is applied at commit, whereas consumer groups apply changes at the append. Until the commit
the old state holds, and any other request about the id gets CONCURRENT_TRANSACTIONS. The ledger
writes no log and reads no clock: the coordinator appends the record that `begin` returns, and
reports the outcome with `settle`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from ....protocol.coordinator_records import (
    CommitGroupRecord,
    UnknownRecord,
    Unread,
    decode_transaction_record,
)
from ....protocol.errors import RemoteProtocolError
from ....protocol.records.batch_header import BatchHeader
from ....protocol.types import NO_PRODUCER_ID
from ....runtime.errors import InvariantViolation
from .group_ledger import GroupLedger
from .records import encode, encode_tombstone, from_record
from .transaction import EPOCH_MAX, PREVIOUS, State, Transaction


class Ledger:
    """One shard's transactional ids, and its commit groups beside them."""

    def __init__(self) -> None:
        self.groups = GroupLedger()
        self._known: dict[str, Transaction] = {}
        self._open: dict[str, None] = {}
        """The ids with an open transaction; only these can be overdue."""
        self._changing: dict[str, Transaction | None] = {}
        """The pending changes by id, not yet known to be committed; None stands for a tombstone."""

    def __iter__(self) -> Iterator[Transaction]:
        """Iterate over the transactions as committed."""
        return iter(self._known.values())

    def __len__(self) -> int:
        return len(self._known)

    def get(self, transactional_id: str) -> Transaction | None:
        """Return the committed transaction of an id; None if the id is not known."""
        return self._known.get(transactional_id)

    def is_changing(self, transactional_id: str) -> bool:
        """True if a change of the id is pending, so that no request about it may be decided."""
        return transactional_id in self._changing

    @property
    def open(self) -> list[Transaction]:
        """The open transactions."""
        return [self._known[transactional_id] for transactional_id in self._open]

    @property
    def changing(self) -> Mapping[str, Transaction | None]:
        """The pending changes by transactional id; None stands for a tombstone."""
        return MappingProxyType(self._changing)

    # Loading.

    def replay(
        self, key: bytes, value: bytes | None, offset: int, header: BatchHeader
    ) -> Unread | None:
        """Apply a record of the log. Return the reason if the record cannot be read, else None."""
        try:
            record = decode_transaction_record(key, value)
        except RemoteProtocolError as error:
            return error
        if isinstance(record, UnknownRecord):
            return record
        if isinstance(record, CommitGroupRecord):
            self.groups.replay(record)
        else:
            self._apply(record.key.transactional_id, from_record(record))
        return None

    def replay_marker(self, header: BatchHeader, *, is_commit: bool) -> None:
        """Ignore a marker, because this topic is never written in transactions."""

    def on_loaded(self, wall_ms: int) -> list[Transaction]:
        """Set wall times in the future to `wall_ms`; return the transactions in a Prepare state."""
        self.groups.on_loaded(wall_ms)
        present = [self.bring_back(known, wall_ms) for known in list(self._known.values())]
        return [known for known in present if known.state.is_prepared]

    def bring_back(self, known: Transaction, wall_ms: int) -> Transaction:
        """Set wall times of `known` that lie in the future to `wall_ms`; return it as it is now.

        The clock that gave them was ahead, or this one was set back. A transaction then times out
        as if it had begun now, and not when the clock has caught up.
        """
        if max(known.started_ms, known.updated_ms) <= wall_ms:
            return known
        brought_back = replace(
            known,
            started_ms=min(known.started_ms, wall_ms),
            updated_ms=min(known.updated_ms, wall_ms),
        )
        self._apply(known.transactional_id, brought_back)
        return brought_back

    # Changes.

    def begin(self, change: Transaction, level: int) -> tuple[bytes, bytes | None]:
        """Return the key and value of a change's record; the change is pending until `settle`."""
        self._check(change)
        self._changing[change.transactional_id] = change
        return encode(change, level)

    def begin_to_forget(self, transactional_id: str) -> tuple[bytes, bytes | None]:
        """Return the key and value (None) of an unused id's tombstone.

        The tombstone is pending until `settle`.
        """
        assert transactional_id not in self._changing
        self._changing[transactional_id] = None
        return encode_tombstone(transactional_id)

    def settle(self, transactional_id: str, *, is_committed: bool) -> None:
        """End a pending change: apply it if it is committed, else keep the old state.

        While its record is in the log and may yet be committed, a change must stay pending, because
        the next decision would be made from an outdated state.
        """
        change = self._changing.pop(transactional_id)
        if is_committed:
            self._apply(transactional_id, change)

    def _apply(self, transactional_id: str, to: Transaction | None) -> None:
        if to is None:
            self._known.pop(transactional_id, None)
        else:
            self._known[transactional_id] = to
        if to is not None and to.state is State.ONGOING:
            self._open[transactional_id] = None
        else:
            self._open.pop(transactional_id, None)

    def _check(self, change: Transaction) -> None:
        transactional_id = change.transactional_id
        if transactional_id in self._changing:
            raise InvariantViolation(f"{transactional_id}: two changes at once")
        present = self._known.get(transactional_id)
        if present is None and change.state is not State.EMPTY:
            raise InvariantViolation(f"{transactional_id}: begins as {change.state.title}")
        if present is not None and present.state not in PREVIOUS[change.state]:
            detail = f"from {present.state.title} to {change.state.title}"
            raise InvariantViolation(f"{transactional_id}: no transition {detail}")
        if not 0 <= change.epoch <= EPOCH_MAX:
            raise InvariantViolation(f"{transactional_id}: epoch {change.epoch}")

    def check_invariants(self) -> None:
        """Raise InvariantViolation if ids share a producer id, or fields contradict a state."""
        self.groups.check_invariants()
        owners: dict[int, str] = {}
        for known in self._known.values():
            name = known.transactional_id
            for producer_id in (known.producer_id, known.next_producer_id):
                if producer_id != NO_PRODUCER_ID and owners.setdefault(producer_id, name) != name:
                    other = owners[producer_id]
                    raise InvariantViolation(f"{name} and {other}: producer id {producer_id}")
            if (name in self._open) is not (known.state is State.ONGOING):
                raise InvariantViolation(f"{name}: {known.state.title}, and counted otherwise")
            if known.partitions and known.state.is_idle:
                raise InvariantViolation(f"{name}: {known.state.title} with partitions")
            if known.next_producer_id != NO_PRODUCER_ID and not known.state.is_prepared:
                raise InvariantViolation(f"{name}: {known.state.title} with another id to come")
            if not 0 <= known.epoch <= EPOCH_MAX:
                raise InvariantViolation(f"{name}: epoch {known.epoch}")
