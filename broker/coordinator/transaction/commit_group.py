"""Commit groups: one decision, with a batch number, commits transactions of several producers.

A run is one start of the application that uses the group. The checks are made in this order:

    request          condition                               answer
    InitCommitGroup  a run not seen before                   it is the present one, next generation
                     the present run                         its generation, again
                     a run that another one has followed     PRODUCER_FENCED
    CommitGroup      a group that no run took over           GROUP_ID_NOT_FOUND
                     another generation than the present     PRODUCER_FENCED
                     a batch that is recorded, or an older   a replay: nothing is committed
                     an id of no such group, or named twice  INVALID_REQUEST
                     a change of a named id is on its way    CONCURRENT_TRANSACTIONS
                     one that is not open as it is named     INVALID_TXN_STATE
                     else                                    all are committed, the batch recorded

A refused request changes nothing. Each transaction is committed as by EndTxn, and its producer
continues as if it had sent EndTxn. A whole decision is one batch of the log, so that all of it is
committed or nothing. Pure; the rules of a single transaction are in `decisions`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from ....protocol.commit_groups import NAME_RULE, NO_BATCH, RUN_MAX, group_of, is_group_name
from ....protocol.errors import ErrorCode
from ....protocol.types import NO_TIMESTAMP
from . import decisions
from .decisions import Decision, EndTransaction, NeedsProducerId, Now
from .transaction import BUMPING_VERSION, State, Transaction

if TYPE_CHECKING:
    from .ledger import Ledger

RUNS_MAX: Final = 16
"""The most runs of a group that are remembered; an older run that returns counts as new."""
TOMBSTONES_MAX: Final = 1_000
"""The most tombstones in one batch; the next check writes the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitGroup:
    """The state of one commit group: an immutable value, replaced with every change."""

    name: str
    generation: int = -1
    batch_id: int = NO_BATCH
    runs: tuple[str, ...] = ()
    """The names of the newest runs, at most RUNS_MAX, with the present run last."""
    updated_ms: int = NO_TIMESTAMP
    """Wall time of the newest change, in ms."""


class Named(NamedTuple):
    """A transaction to be committed: its id, and the producer id and epoch it was begun with."""

    transactional_id: str
    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InitGroup:
    """InitCommitGroup: a run (one start of an application) takes over a group."""

    group: str
    run: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """CommitGroup: a run (one start of an application) commits its transactions."""

    group: str
    generation: int
    batch_id: int
    transactions: tuple[Named, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDecision:
    """The answer to a request; if it makes changes, it is sent after they are committed."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    """The reason for an error, in words."""
    group: CommitGroup | None = None
    """The group after the decision."""
    changes: tuple[Transaction, ...] = ()
    changes_group: bool = False
    waits_for: str | None = None
    """The group or transactional id whose pending change must end first; None if none must."""
    is_replay: bool = False
    """True if the batch was recorded before, perhaps by this request, whose answer was lost."""


@dataclass(frozen=True, slots=True)
class NeedsProducerIds:
    """Asks to decide again with `count` more unused producer ids, because epochs have run out."""

    count: int


def init_group(ledger: "Ledger", asked: InitGroup, now: Now) -> GroupDecision:
    """Make the requesting run the group's present one; refuse a run that another has followed."""
    where = f"commit group {asked.group}"
    if not is_group_name(asked.group):
        return _invalid(f"{where!r}: a group is called by {NAME_RULE}")
    if not 1 <= len(asked.run) <= RUN_MAX:
        return _invalid(f"{where}: a run is called by 1 to {RUN_MAX} characters")
    if ledger.groups.is_changing(asked.group):
        return _wait_for(asked.group)
    present = ledger.groups.get(asked.group) or CommitGroup(name=asked.group)
    if asked.run in present.runs:
        if asked.run == present.runs[-1]:
            return GroupDecision(group=present)
        return _fenced(f"{where}: run {asked.run!r} was followed by {present.runs[-1]!r}")
    change = replace(
        present,
        generation=present.generation + 1,
        runs=(*present.runs, asked.run)[-RUNS_MAX:],
        updated_ms=now.wall_ms,
    )
    return GroupDecision(group=change, changes_group=True)


def commit(
    ledger: "Ledger", asked: Commit, now: Now, fresh_ids: Sequence[int] = ()
) -> GroupDecision | NeedsProducerIds:
    """Commit all named transactions, or none; `fresh_ids` are unused producer ids."""
    refusal = _refuse_group(ledger, asked)
    if refusal is not None:
        return refusal
    group = ledger.groups.get(asked.group)
    assert group is not None
    if asked.batch_id <= group.batch_id:
        return GroupDecision(group=group, is_replay=True)
    refusal = _refuse_members(ledger, asked)
    if refusal is not None:
        return refusal
    changes: list[Transaction] = []
    fresh, missing = iter(fresh_ids), 0
    for named in asked.transactions:
        decision = _commit_one(ledger, named, now)
        if isinstance(decision, NeedsProducerId):
            fresh_id = next(fresh, None)
            if fresh_id is None:
                missing += 1
                continue
            decision = _commit_one(ledger, named, replace(now, fresh_id=fresh_id))
        assert isinstance(decision, Decision)
        assert decision.change is not None
        changes.append(decision.change)
    if missing:
        return NeedsProducerIds(missing)
    recorded = replace(group, batch_id=asked.batch_id, updated_ms=now.wall_ms)
    return GroupDecision(group=recorded, changes=tuple(changes), changes_group=True)


def _wait_for(group: str) -> GroupDecision:
    return GroupDecision(
        error=ErrorCode.CONCURRENT_TRANSACTIONS,
        message=f"commit group {group}: another change of it is on its way",
        waits_for=group,
    )


def _refuse_group(ledger: "Ledger", asked: Commit) -> GroupDecision | None:
    where = f"commit group {asked.group}"
    if asked.batch_id < 0:
        return _invalid(f"{where}: batches are numbered from 0 on, not {asked.batch_id}")
    if ledger.groups.is_changing(asked.group):
        return _wait_for(asked.group)
    group = ledger.groups.get(asked.group)
    if group is None:
        return GroupDecision(
            error=ErrorCode.GROUP_ID_NOT_FOUND,
            message=f"{where}: nobody has taken it over, or it was not used for so long that it "
            "was forgotten (transactional.id.expiration.ms): begin a run of it",
        )
    if asked.generation != group.generation:
        present = f"run {group.runs[-1]!r} has generation {group.generation}"
        return _fenced(f"{where}: generation {asked.generation} is not the present one: {present}")
    return None


def _refuse_members(ledger: "Ledger", asked: Commit) -> GroupDecision | None:
    seen: dict[str, None] = {}
    for transactional_id, _, _ in asked.transactions:
        if group_of(transactional_id) != asked.group:
            form = f"{asked.group}/<partition>/<generation>.<attempt>"
            return _invalid(f"{transactional_id}: not an id of commit group {asked.group}: {form}")
        if transactional_id in seen:
            return _invalid(f"{transactional_id}: named twice")
        seen[transactional_id] = None
    for transactional_id in seen:
        if ledger.is_changing(transactional_id):
            return GroupDecision(
                error=ErrorCode.CONCURRENT_TRANSACTIONS,
                message=f"{transactional_id}: a change of it is on its way",
                waits_for=transactional_id,
            )
    for named in asked.transactions:
        present = ledger.get(named.transactional_id)
        if not is_open_as(present, named):
            return GroupDecision(
                error=ErrorCode.INVALID_TXN_STATE, message=_why_not_open(present, named)
            )
    return None


def is_open_as(present: Transaction | None, named: Named) -> bool:
    """True if the transaction is open under the producer id and epoch of `named`."""
    return (
        present is not None
        and present.state is State.ONGOING
        and (present.producer_id, present.epoch) == (named.producer_id, named.epoch)
    )


def _why_not_open(present: Transaction | None, named: Named) -> str:
    wanted = f"producer {named.producer_id} in epoch {named.epoch}"
    if present is None:
        return f"{named.transactional_id}: no transaction of {wanted} is open: it is not known"
    found = f"producer {present.producer_id} in epoch {present.epoch} is {present.state.title}"
    return f"{named.transactional_id}: no transaction of {wanted} is open: {found}"


def _commit_one(ledger: "Ledger", named: Named, now: Now) -> Decision | NeedsProducerId:
    asked = EndTransaction(
        transactional_id=named.transactional_id,
        producer_id=named.producer_id,
        epoch=named.epoch,
        is_commit=True,
        client_version=BUMPING_VERSION if now.level >= BUMPING_VERSION else 0,
    )
    return decisions.end(ledger.get(named.transactional_id), asked, now)


def left_over(ledger: "Ledger", asked: Commit, decision: GroupDecision) -> list[Named]:
    """Return the transactions to abort after a CommitGroup request.

    After a new commit these are the group's other open transactions. After a replay these are the
    transactions named in the request: one that is still open is not part of the recorded batch.
    """
    if not decision.is_replay:
        return losers(ledger, asked.group)
    # The transactions of the next batch are not aborted, because the replay may be late. Ids of
    # other groups are not, because a commit would have refused them.
    return [each for each in asked.transactions if group_of(each.transactional_id) == asked.group]


def losers(ledger: "Ledger", group: str) -> list[Named]:
    """Return a group's transactions that are open, or will be by a pending change.

    No producer will end them.
    """
    found = [each for each in ledger.open if group_of(each.transactional_id) == group]
    coming = [
        each
        for each in ledger.changing.values()
        if each is not None
        and each.state is State.ONGOING
        and group_of(each.transactional_id) == group
    ]
    every = {each.transactional_id: each for each in (*found, *coming)}
    return [Named(each.transactional_id, each.producer_id, each.epoch) for each in every.values()]


def abort_loser(present: Transaction | None, loser: Named, now: Now) -> Decision:
    """Abort a transaction and fence its producer, unless the transaction has already ended."""
    if present is None or not is_open_as(present, loser):
        return Decision()
    return Decision(change=decisions.fence(present, now))


def unused_groups(ledger: "Ledger", wall_ms: int, unused_ms: int) -> list[str]:
    """Return groups to forget: unused for `unused_ms`, and without transactional ids."""
    idle = [
        each.name
        for each in ledger.groups
        if each.updated_ms + unused_ms <= wall_ms and not ledger.groups.is_changing(each.name)
    ]
    if not idle:
        return []
    ids = (*ledger, *(each for each in ledger.changing.values() if each is not None))
    used = dict.fromkeys(group_of(each.transactional_id) for each in ids)
    return [name for name in idle if name not in used][:TOMBSTONES_MAX]


def _invalid(message: str) -> GroupDecision:
    return GroupDecision(error=ErrorCode.INVALID_REQUEST, message=message)


def _fenced(message: str) -> GroupDecision:
    return GroupDecision(error=ErrorCode.PRODUCER_FENCED, message=message)
