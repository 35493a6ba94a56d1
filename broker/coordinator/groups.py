"""The group coordinator of this broker: it carries out what the groups decide about requests.

It appends records and replays them, answers when they are committed, and keeps one deadline on the
timer wheel for each group. The rules of a group are in `group/`.

    decided -> appended to __consumer_offsets -> replayed at once -> committed -> answered
                      | refused                                         | not in time
                      +-> answered with the error, state untouched      +-> answered with the error

An answer that shows a group's offsets or assignment waits until they are committed, so that no
failover can take them back.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import assert_never

from ...protocol.coordinator_records import (
    GroupMetadataKey,
    GroupMetadataRecord,
    encode_record,
)
from ...protocol.errors import ErrorCode, LocalProtocolError
from ...runtime.runtime import Runtime
from ...storage.markers import TransactionMarker
from ..deadlines import Deadline, Deadlines
from ..partition.own_batches import append_marker
from ..partition.verification import Verification
from ..partitions import Partitions
from . import traced_commits
from .group import commits, deletion
from .group.classic import ClassicGroup
from .group.commits import Commit
from .group.config import GroupConfig
from .group.member import NEVER
from .group.offsets import Place
from .group.phases import Now
from .group.state import GroupsState
from .group.values import (
    NO_MEMBER,
    Began,
    Effects,
    Join,
    Joined,
    Joins,
    Reply,
    Store,
    Sync,
    Synced,
    Ticket,
    Who,
)
from .keys import GROUPS_TOPIC
from .offset_upkeep import AppendRecord, GroupShard, OffsetUpkeep
from .shard import Done, KeyValue, ShardSettings
from .shards import ShardCare, Shards

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Write:
    """The options of an append: a callback for the result, and the transaction of the records."""

    done: Done
    producer: tuple[int, int] | None = None
    guard: Verification | None = None


class Groups:
    """The coordinator of all groups whose shard this broker leads."""

    def __init__(
        self,
        runtime: Runtime,
        partitions: Partitions,
        deadlines: Deadlines,
        config: GroupConfig,
    ) -> None:
        self._runtime = runtime
        self._deadlines = deadlines
        self.config = config
        settings = ShardSettings(
            GROUPS_TOPIC,
            append_timeout_ms=config.offsets_commit_timeout_ms,
            too_large=ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
            invalid_key=ErrorCode.INVALID_GROUP_ID,
        )
        care = ShardCare(lambda: GroupsState(config), self._on_loaded, self._on_unloaded)
        self.shards = Shards(runtime, partitions, settings, care)
        self._armed: dict[ClassicGroup, tuple[int, Deadline]] = {}
        """The time (monotonic ms) and the handle of each group's next deadline."""
        self.upkeep = OffsetUpkeep(runtime, deadlines, config, self.shards, self.append)

    async def close(self) -> None:
        """Stop the upkeep and unload all shards, because the broker stops."""
        self.upkeep.close()
        await self.shards.close()

    @property
    def now(self) -> Now:
        """The present time, for a decision."""
        return Now(self._runtime.monotonic_ms(), self._runtime.wall_ms())

    # Membership.

    def join(self, group_id: str, join: Join, ticket: Ticket) -> None:
        """Carry out JoinGroup; the ticket gets a `Joined`."""
        member_id = join.who.member_id
        shard = self.shards.of(group_id) if group_id else ErrorCode.INVALID_GROUP_ID
        if isinstance(shard, ErrorCode):
            ticket(Joined(error=shard, member_id=member_id))
            return
        config = self.config
        least, most = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
        if not least <= join.session_timeout_ms <= most:
            ticket(Joined(error=ErrorCode.INVALID_SESSION_TIMEOUT, member_id=member_id))
            return
        state = shard.state
        if member_id != NO_MEMBER and group_id not in state.groups:
            ticket(Joined(error=ErrorCode.UNKNOWN_MEMBER_ID, member_id=member_id))
            return
        group = state.group(group_id)
        self._carry_out(shard, group, group.join(join, ticket, self.now))
        if state.is_blank(group):
            del state.groups[group_id]  # The join was refused, and the group was new.

    def sync(self, group_id: str, sync: Sync, ticket: Ticket) -> None:
        """Carry out SyncGroup; the ticket gets a `Synced`."""
        found = self._find(group_id)
        if isinstance(found, ErrorCode):
            if found is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                # The assignment is not known yet, so the member must join again, as in Kafka.
                found = ErrorCode.REBALANCE_IN_PROGRESS
            ticket(Synced(error=found))
            return
        shard, group = found
        self._carry_out(shard, group, group.sync(sync, ticket, self.now))

    def heartbeat(self, group_id: str, who: Who, generation: int) -> ErrorCode:
        """Carry out Heartbeat and return its result."""
        found = self._find(group_id)
        if isinstance(found, ErrorCode):
            # While the shard is loading, the group's state is unknown, so the member may go on.
            is_loading = found is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return ErrorCode.NONE if is_loading else found
        error = found[1].heartbeat(who, generation, self.now)
        self._arm(*found)
        return error

    def leave(self, group_id: str, leaving: Sequence[Who]) -> list[ErrorCode] | ErrorCode:
        """Carry out LeaveGroup; return one result for each member, or an error for them all."""
        found = self._find(group_id)
        if isinstance(found, ErrorCode):
            return found
        shard, group = found
        errors, effects = group.leave(leaving, self.now)
        self._carry_out(shard, group, effects)
        return errors

    # Offsets.

    def commit(
        self,
        request: Commit,
        done: Callable[[ErrorCode, list[ErrorCode]], None],
        guard: Verification | None = None,
    ) -> None:
        """Commit offsets.

        `done` gets an error for the whole request and, if that is NONE, one error for each offset.
        `guard` is the verification of the offsets' transaction; it is given if the transaction
        has not written to the group's partition before.
        """
        shard = self.shards.of(request.group_id)
        if isinstance(shard, ErrorCode):
            done(shard, [])
            return
        if shard.partition.host.tracer is not None:
            done = traced_commits.of_commit(shard, request, done)
        decided = commits.commit(
            shard.state, request, self.now, self.config.offset_metadata_max_bytes
        )
        if isinstance(decided, ErrorCode):
            done(decided, [])
            return
        records, errors = decided
        if not records:
            done(ErrorCode.NONE, errors)
            return
        write = Write(lambda error: done(error, errors), request.producer, guard)
        self._write(shard, records, write)
        self._arm(shard, shard.state.group(request.group_id))

    def read(self, group_id: str, ready: Callable[[ErrorCode, GroupsState | None], None]) -> None:
        """Call `ready` with the shard's state once the group's newest record is committed.

        If that fails, `ready` gets the error and None.
        """
        shard = self.shards.of(group_id)
        if isinstance(shard, ErrorCode):
            ready(shard, None)
            return
        state = shard.state

        def settled(error: ErrorCode) -> None:
            ready(error, None if error else state)

        shard.when_settled(state.written_at.get(group_id, -1), settled)

    def delete_offsets(
        self,
        group_id: str,
        places: Sequence[Place],
        done: Callable[[ErrorCode, list[ErrorCode]], None],
    ) -> None:
        """Delete offsets; `done` gets the same arguments as in `commit`."""
        found = self._find(group_id, if_unknown=ErrorCode.GROUP_ID_NOT_FOUND)
        if isinstance(found, ErrorCode):
            done(found, [])
            return
        shard, _ = found
        decided = deletion.delete_offsets(shard.state, group_id, places)
        if isinstance(decided, ErrorCode):
            done(decided, [])
            return
        records, errors = decided
        if records:
            self.append(shard, records, lambda error: done(error, errors))
        else:
            done(ErrorCode.NONE, errors)

    def delete(self, group_id: str, done: Done) -> None:
        """Carry out DeleteGroups for one group."""
        shard = self.shards.of(group_id)
        if isinstance(shard, ErrorCode):
            done(shard)
            return
        records = deletion.delete_group(shard.state, group_id)
        if isinstance(records, ErrorCode):
            done(records)
            return
        self._disarm(shard.state.groups[group_id])
        self.upkeep.forget(shard, records, done)

    def complete_transaction(self, index: int, marker: TransactionMarker, done: Done) -> None:
        """Write a transaction's marker to partition `index`; apply or drop its pending offsets.

        `done` gets the error to answer WriteTxnMarkers with, or NONE.
        """
        shard = self.shards.at(index)
        if isinstance(shard, ErrorCode):
            done(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        appended = append_marker(shard.partition, marker, self._runtime.wall_ms())
        if appended.error:
            done(appended.error)
            return
        if shard.partition.host.tracer is not None and marker.is_commit:
            done = traced_commits.of_marker(shard, marker.producer_id, done)
        shard.state.complete(marker.producer_id, appended.base_offset, is_commit=marker.is_commit)
        shard.wait_for(
            appended, lambda error: done(ErrorCode.NOT_LEADER_OR_FOLLOWER if error else error)
        )

    # Carrying out.

    def append(self, shard: GroupShard, records: Sequence[AppendRecord], done: Done) -> bool:
        """Append and replay records; return False if refused, after `done` got the error."""
        return self._write(shard, records, Write(done))

    def _write(self, shard: GroupShard, records: Sequence[AppendRecord], write: Write) -> bool:
        encoded = _encoded(records)
        if encoded is None:
            write.done(ErrorCode.UNKNOWN_SERVER_ERROR)
            return False
        producer, guard = write.producer, write.guard
        if not shard.append(encoded, write.done, producer=producer, guard=guard):
            return False
        first = shard.last_offset - len(records) + 1
        producer_id = None if producer is None else producer[0]
        for position, record in enumerate(records, first):
            shard.state.apply(record, position, producer_id)
        return True

    def _find(
        self, group_id: str, *, if_unknown: ErrorCode = ErrorCode.UNKNOWN_MEMBER_ID
    ) -> tuple[GroupShard, ClassicGroup] | ErrorCode:
        if not group_id:
            return ErrorCode.INVALID_GROUP_ID
        shard = self.shards.of(group_id)
        if isinstance(shard, ErrorCode):
            return shard
        group = shard.state.groups.get(group_id)
        return if_unknown if group is None else (shard, group)

    def _carry_out(self, shard: GroupShard, group: ClassicGroup, effects: Effects) -> None:
        for effect in effects:
            match effect:
                case Reply(to, answer):
                    if isinstance(answer, Synced) and not answer.error:
                        self._reply_settled(shard, group, effect)
                    else:
                        to(answer)
                case Store():
                    self._store(shard, group, effect)
                case Joins() | Began():
                    _log(group, effect)
                case _:
                    assert_never(effect)
        self._arm(shard, group)

    def _reply_settled(self, shard: GroupShard, group: ClassicGroup, reply: Reply) -> None:
        written_at = shard.state.written_at.get(group.group_id, -1)
        shard.when_settled(written_at, lambda error: _answer(reply, error))

    def _store(self, shard: GroupShard, group: ClassicGroup, store: Store) -> None:
        record = GroupMetadataRecord(GroupMetadataKey(group=group.group_id), store.value)

        def done(error: ErrorCode) -> None:
            if error:
                log.warning("%r: %r is not stored: %s", shard, group, error.name)
            if error is ErrorCode.INVALID_COMMIT_OFFSET_SIZE:
                error = ErrorCode.UNKNOWN_SERVER_ERROR  # As in Kafka, if members are too large.
            for reply in store.then:
                _answer(reply, error)

        if not self.append(shard, [record], done):
            self._carry_out(shard, group, group.on_store_refused(self.now))

    # Time.

    def _arm(self, shard: GroupShard, group: ClassicGroup) -> None:
        """Set the group's next deadline on the timer wheel, unless an earlier one is set."""
        armed = self._armed.get(group)
        wake_ms = group.phases.wake_ms
        if armed is not None:
            if armed[0] <= wake_ms:
                return
            armed[1].cancel()
        if wake_ms >= NEVER:
            self._armed.pop(group, None)
            return

        def expire() -> None:
            del self._armed[group]
            if shard.is_open:
                self._carry_out(shard, group, group.phases.on_time(self.now))

        self._armed[group] = wake_ms, self._deadlines.at(wake_ms, expire)

    def _disarm(self, group: ClassicGroup) -> None:
        armed = self._armed.pop(group, None)
        if armed is not None:
            armed[1].cancel()

    def _on_loaded(self, shard: GroupShard) -> None:
        shard.state.complete_loading()
        now = self.now
        for group in list(shard.state.groups.values()):
            self._carry_out(shard, group, group.phases.on_loaded(now))
        self.upkeep.begin()

    def _on_unloaded(self, shard: GroupShard) -> None:
        for group in shard.state.groups.values():
            self._disarm(group)
            for member in group.roster.members.values():
                for reply in group.roster.dismiss(member, ErrorCode.NOT_COORDINATOR):
                    reply.to(reply.answer)


def _log(group: ClassicGroup, effect: Joins | Began) -> None:
    match effect:
        case Joins(member_id, reason, is_known):
            level, again = (logging.DEBUG, " again") if is_known else (logging.INFO, "")
            log.log(level, "%r: %s joins%s: %s", group, member_id, again, reason)
        case Began(_, 0):
            log.info("%r: nobody is left", group)
        case Began(protocol, member_count):
            log.info("%r: %s, %d members", group, protocol, member_count)
        case _:
            assert_never(effect)


def _encoded(records: Sequence[AppendRecord]) -> list[KeyValue] | None:
    """Encode records; return None if a string from a request is too long for a record."""
    try:
        return [encode_record(record) for record in records]
    except LocalProtocolError as error:
        log.warning("group %.99s: not stored: %s", records[0].key.group, error)
        return None


def _answer(reply: Reply, error: ErrorCode) -> None:
    reply.to(reply.answer.failed(error) if error else reply.answer)
