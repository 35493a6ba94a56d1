"""The groups and offsets of one partition of `__consumer_offsets`, built from its log.

Only this code changes committed offsets and stored groups, both while loading and afterwards.
Decisions are in `commits`, `deletion` and the groups themselves.
"""

from ....protocol.coordinator_records import (
    GroupMetadataRecord,
    OffsetCommitRecord,
    UnknownRecord,
    Unread,
    decode_group_record,
)
from ....protocol.errors import RemoteProtocolError
from ....protocol.records.batch_header import BatchHeader
from .classic import ClassicGroup
from .config import GroupConfig
from .offsets import Offsets
from .phases import Phase


class GroupsState:
    """Groups by id, and their offsets."""

    def __init__(self, config: GroupConfig) -> None:
        self._config = config
        self.groups: dict[str, ClassicGroup] = {}
        self.offsets = Offsets()
        self.written_at: dict[str, int] = {}
        """The log offset of each group's newest record. Answers that depend on the group wait until
        that record is committed."""

    # Replaying: coordinator.shard.State.

    def replay(
        self, key: bytes, value: bytes | None, offset: int, header: BatchHeader
    ) -> Unread | None:
        """Apply a record of the log. Return the reason if the record cannot be read, else None."""
        try:
            record = decode_group_record(key, value)
        except RemoteProtocolError as error:
            return error
        if isinstance(record, UnknownRecord):
            return record
        self.apply(record, offset, header.producer_id if header.is_transactional else None)
        return None

    def replay_marker(self, header: BatchHeader, *, is_commit: bool) -> None:
        """Apply a marker of the log, which ends a producer's transaction."""
        self.complete(header.producer_id, header.base_offset, is_commit=is_commit)

    def complete(self, producer_id: int, position: int, *, is_commit: bool) -> None:
        """End a producer's transaction; its marker is in the log at `position`."""
        for group_id in self.offsets.complete(producer_id, is_commit=is_commit):
            self.written_at[group_id] = position

    def apply(
        self,
        record: OffsetCommitRecord | GroupMetadataRecord,
        position: int,
        producer_id: int | None = None,
    ) -> None:
        """Apply a record that is in the log at `position`."""
        group_id = record.key.group
        self.written_at[group_id] = position
        if isinstance(record, OffsetCommitRecord):
            self.offsets.replay(record, position, producer_id)
        else:
            self._apply_group(group_id, record)

    def _apply_group(self, group_id: str, record: GroupMetadataRecord) -> None:
        if record.value is not None:
            self.group(group_id).phases.replay(record.value)
            return
        gone = self.groups.pop(group_id, None)
        if gone is not None:
            gone.phases.phase = Phase.DEAD

    # Groups.

    def group(self, group_id: str) -> ClassicGroup:
        """Return the group of that id; create it if it is new."""
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = ClassicGroup(group_id, self._config)
        return group

    def complete_loading(self) -> None:
        """Create the groups that only have offsets (simple consumers); forget blank groups."""
        for group_id in list(self.offsets.groups()):
            self.group(group_id)
        self.forget_blank()

    def forget_blank(self) -> None:
        """Forget the groups that `is_blank` describes."""
        for group_id, group in list(self.groups.items()):
            if self.is_blank(group):
                del self.groups[group_id]
                self.written_at.pop(group_id, None)

    def forget_written(self, high_watermark: int) -> None:
        """Forget `written_at` of each deleted group whose tombstone is committed."""
        for group_id, position in list(self.written_at.items()):
            if group_id not in self.groups and position < high_watermark:
                del self.written_at[group_id]

    def is_blank(self, group: ClassicGroup) -> bool:
        """True if the group never had a generation, and has no offsets or reserved member ids."""
        return (
            group.phase is Phase.EMPTY
            and group.phases.generation == 0
            and not group.roster.pending
            and not self.offsets.of(group.group_id)
            and not self.offsets.has_pending(group.group_id)
        )
