"""Checkpoints of groups: which are new, and which offsets may be committed at the target.

A checkpoint goes back only if the group itself went back at the source, or if it lies beyond all
that is mirrored, because the topic at the target was deleted and made anew. What is committed at
the target never goes back, and is never beyond the end of the partition there.
"""

from collections.abc import Callable, Mapping

from ...client.group_types import OffsetAndMetadata
from ...protocol.types import TopicPartition
from .codec import Checkpoint
from .translation import OffsetSyncStore

Offsets = Mapping[TopicPartition, OffsetAndMetadata]


class CheckpointStore:
    """The newest checkpoint of each group and partition, as read from the topic and written."""

    def __init__(self) -> None:
        self._known: dict[str, dict[TopicPartition, Checkpoint]] = {}

    def add(self, checkpoint: Checkpoint) -> None:
        """Take a checkpoint that is in the topic."""
        self._known.setdefault(checkpoint.group, {})[checkpoint.partition] = checkpoint

    def read(self, key: bytes, value: bytes) -> None:
        """Take a record of the topic; raise BadMirrorRecord if it is none."""
        self.add(Checkpoint.decode(key, value))

    def of(self, group: str) -> Mapping[TopicPartition, Checkpoint]:
        """Return the checkpoints of a group, by partition of the target."""
        return self._known.get(group, {})

    def advance(
        self, group: str, committed: Offsets, syncs: OffsetSyncStore, remote: Callable[[str], str]
    ) -> list[Checkpoint]:
        """Translate what a group has committed; take and return the checkpoints that are new.

        `remote` names the topic at the target. A partition without a sync at or before the
        committed offset has no checkpoint.
        """
        fresh = []
        for partition, at in committed.items():
            downstream = syncs.translate(partition, at.offset)
            if downstream is None:
                continue
            where = TopicPartition(remote(partition.topic), partition.partition)
            found = Checkpoint(group, where, at.offset, downstream, at.metadata)
            if _is_newer(found, self.of(group).get(where), syncs.newest(partition)):
                self.add(found)
                fresh.append(found)
        return fresh


def _is_newer(found: Checkpoint, known: Checkpoint | None, newest: tuple[int, int] | None) -> bool:
    return (
        known is None
        or found.upstream < known.upstream
        or found.downstream > known.downstream
        or (newest is not None and known.downstream > newest[1] + 1)
    )


def offsets_to_commit(
    checkpoints: Mapping[TopicPartition, Checkpoint],
    committed: Offsets,
    ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return what an idle group's offsets at the target become: forward only, and up to the ends.

    A partition that is not in `ends` does not exist, and gets no offset.
    """
    return {
        where: OffsetAndMetadata(each.downstream, each.metadata)
        for where, each in checkpoints.items()
        if each.downstream <= ends.get(where, -1)
        and (where not in committed or committed[where].offset < each.downstream)
    }
