"""The commit groups of one partition of `__transaction_state`, and their pending changes.

It works as `Ledger` does for transactional ids: a change is applied at commit, and until then no
other request about its group is decided. The coordinator writes the log; `commit_group` decides the
changes.
"""

from collections.abc import Iterator
from dataclasses import replace

from ....protocol.coordinator_records import (
    CommitGroupKey,
    CommitGroupRecord,
    CommitGroupValue,
    encode_record,
)
from ....runtime.errors import InvariantViolation
from .commit_group import RUNS_MAX, CommitGroup


class GroupLedger:
    """One shard's commit groups."""

    def __init__(self) -> None:
        self._known: dict[str, CommitGroup] = {}
        self._changing: dict[str, CommitGroup | None] = {}
        """The pending changes by group, not yet known to be committed; None stands for a
        tombstone."""

    def __iter__(self) -> Iterator[CommitGroup]:
        """Iterate over the groups as committed."""
        return iter(self._known.values())

    def __len__(self) -> int:
        return len(self._known)

    def get(self, name: str) -> CommitGroup | None:
        """Return the committed state of a group; None if the group is not known."""
        return self._known.get(name)

    def is_changing(self, name: str) -> bool:
        """True if a change of the group is pending, so that no request about it may be decided."""
        return name in self._changing

    # Loading.

    def replay(self, record: CommitGroupRecord) -> None:
        """Apply a record of the log."""
        name, value = record.key.group, record.value
        if value is None:
            self._apply(name, None)
            return
        group = CommitGroup(
            name=name,
            generation=value.generation,
            batch_id=value.batch_id,
            runs=tuple(value.runs),
            updated_ms=value.last_used_timestamp_ms,
        )
        self._apply(name, group)

    def on_loaded(self, wall_ms: int) -> None:
        """Replace wall times in the future by `wall_ms`, after loading."""
        for name, known in self._known.items():
            if known.updated_ms > wall_ms:
                self._known[name] = replace(known, updated_ms=wall_ms)

    # Changes.

    def begin(self, change: CommitGroup) -> tuple[bytes, bytes | None]:
        """Return the key and value of a change's record; the change is pending until `settle`."""
        name, present = change.name, self._known.get(change.name)
        if name in self._changing:
            raise InvariantViolation(f"commit group {name}: two changes at once")
        if present is not None and (change.generation, change.batch_id) <= (
            present.generation,
            present.batch_id,
        ):
            raise InvariantViolation(f"commit group {name}: from {present} back to {change}")
        self._changing[name] = change
        value = CommitGroupValue(
            generation=change.generation,
            batch_id=change.batch_id,
            runs=list(change.runs),
            last_used_timestamp_ms=change.updated_ms,
        )
        return encode_record(CommitGroupRecord(CommitGroupKey(group=name), value))

    def begin_to_forget(self, name: str) -> tuple[bytes, bytes | None]:
        """Return the key and value (None) of an unused group's tombstone.

        The tombstone is pending until `settle`.
        """
        assert name not in self._changing
        self._changing[name] = None
        return encode_record(CommitGroupRecord(CommitGroupKey(group=name), None))

    def settle(self, name: str, *, is_committed: bool) -> None:
        """End a pending change: apply it if it is committed, else keep the old state."""
        change = self._changing.pop(name)
        if is_committed:
            self._apply(name, change)

    def _apply(self, name: str, to: CommitGroup | None) -> None:
        if to is None:
            self._known.pop(name, None)
        else:
            self._known[name] = to

    def check_invariants(self) -> None:
        """Raise InvariantViolation if a group has values that no sequence of changes gives."""
        for name, known in self._known.items():
            if known.name != name or known.generation < 0 or known.batch_id < -1:
                raise InvariantViolation(f"commit group {name}: {known}")
            if not 1 <= len(dict.fromkeys(known.runs)) == len(known.runs) <= RUNS_MAX:
                raise InvariantViolation(f"commit group {name}: runs {known.runs}")
