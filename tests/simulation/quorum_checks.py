"""Checks the controllers' quorum: one leader per epoch, and committed records are never lost.

The metadata logs are read from the disks; only data on stable storage counts.
"""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .cluster import Daemon
from .disk import DirectoryNode, FileNode
from .inside import Granted, QuorumSeen, granted_votes, grants_of, quorum_key, quorum_of
from .loop import Process
from .rawlog import LogCursor, RawBatch

if TYPE_CHECKING:
    from .invariants import Invariants

METADATA_DIRECTORY = "__cluster_metadata-0"
STATE_FILES = ("quorum-state", "quorum-state.copy")
SNAPSHOT_SUFFIX = ".checkpoint"


class QuorumChecks:
    """Follows every controller."""

    def __init__(self, invariants: "Invariants") -> None:
        self._all = invariants
        self._daemons = dict(invariants.cluster.controllers)
        self._keys: dict[str, object] = {}
        self._leaders: dict[int, str] = {}
        self._epochs: dict[str, int] = {}
        self._committed: dict[int, RawBatch] = {}
        """Every batch that was below a high watermark, by its first offset."""
        self._high_watermarks: dict[str, int] = {}
        self._cursors: dict[tuple[str, bool], LogCursor] = {}
        self._log_ends: dict[str, int] = {}
        self._cut_counts: dict[str, int] = {}
        self._snapshot_ends: dict[str, int] = {}
        self.committed_end = 0

    def forget(self, daemon: Daemon) -> None:
        """Forget a controller, because its process is a new one or its disk has lost data."""
        # An epoch that was entered and not saved was never spoken of.
        self._keys.pop(daemon.name, None)
        self._epochs.pop(daemon.name, None)
        self._high_watermarks.pop(daemon.name, None)
        self._log_ends.pop(daemon.name, None)
        self._cut_counts.pop(daemon.name, None)
        self._snapshot_ends.pop(daemon.name, None)
        self._forget_cursors(daemon)

    def _forget_cursors(self, daemon: Daemon) -> None:
        for stable in (False, True):
            self._cursors.pop((daemon.name, stable), None)

    def has_news(self, daemon: Daemon, process: Process) -> bool:
        """Return whether the step has changed anything that `check` reads."""
        if process.grants or process.votes:
            return True
        return quorum_key(process) != self._keys.get(daemon.name)

    def check(self, daemon: Daemon, process: Process) -> Iterator[str]:
        """Check a controller after a step."""
        for grant in grants_of(process):
            if grant.claimed < grant.held:
                yield (
                    f"invariant 16: {daemon.name}, whose log ends with {grant.held}, votes in epoch"
                    f" {grant.epoch} for {grant.candidate_id}, whose log ends with {grant.claimed}"
                )
        key = quorum_key(process)
        if key == self._keys.get(daemon.name) and not process.votes:
            return
        self._keys[daemon.name] = key
        quorum = quorum_of(process)
        if quorum is None:
            return
        for vote in granted_votes(process):
            yield from self._check_vote(daemon, vote)
        name = daemon.name
        if quorum.epoch < self._epochs.get(name, 0):
            yield f"invariant 16: {name}: epoch went from {self._epochs[name]} to {quorum.epoch}"
        # Where it ends says nothing: a log may be cut and grow again within one step.
        if quorum.cut_count != self._cut_counts.get(name, 0):
            self._forget_cursors(daemon)
            self._cut_counts[name] = quorum.cut_count
            self._all.coverage.note("transition", "metadata-truncated")
        self._follow_snapshots(name, quorum)
        self._log_ends[name] = quorum.log_end
        was_leading = self._leaders.get(self._epochs.get(name, -1)) == name
        self._epochs[name] = quorum.epoch
        if quorum.is_leading:
            yield from self._check_leader(daemon, quorum.epoch)
        elif was_leading and self._leaders.get(quorum.epoch) != name:
            self._all.coverage.note("transition", "controller-resigned")
        before = self._high_watermarks.get(name, 0)
        if quorum.high_watermark < before:
            yield (
                f"invariant 16: {name}: high watermark went from {before} to"
                f" {quorum.high_watermark}"
            )
        if quorum.high_watermark > before:
            self._high_watermarks[name] = quorum.high_watermark
            yield from self._check_committed(daemon, quorum.high_watermark)
            if quorum.is_leading:
                yield from self._check_majority(quorum.high_watermark)
                if quorum.high_watermark > quorum.snapshot_end:
                    yield from self._check_own_epoch(name, quorum)

    def _check_own_epoch(self, name: str, quorum: QuorumSeen) -> Iterator[str]:
        """Check that a leader's high watermark reaches into its own epoch (Raft, 5.4.2)."""
        newest = next(reversed(self._committed.values()))
        if newest.next_offset == quorum.high_watermark and newest.leader_epoch != quorum.epoch:
            yield (
                f"invariant 16: {name}: leads epoch {quorum.epoch} and commits up to"
                f" {quorum.high_watermark}, where the last record is of epoch {newest.leader_epoch}"
            )

    def _follow_snapshots(self, name: str, quorum: QuorumSeen) -> None:
        before = self._snapshot_ends.setdefault(name, quorum.snapshot_end)
        if quorum.snapshot_end > before:
            self._snapshot_ends[name] = quorum.snapshot_end
            loaded = quorum.snapshot_end > self._log_ends.get(name, 0)
            cell = "controller-snapshot-loaded" if loaded else "controller-snapshot-written"
            self._all.coverage.note("transition", cell)

    def _check_leader(self, daemon: Daemon, epoch: int) -> Iterator[str]:
        other = self._leaders.get(epoch)
        if other is None:
            self._leaders[epoch] = daemon.name
            self._all.coverage.note("transition", "controller-elected")
            # Leader completeness: it has all that was ever committed.
            yield from self._check_committed(daemon, self.committed_end, "invariant 17")
        elif other != daemon.name:
            yield f"invariant 16: {other} and {daemon.name} both lead epoch {epoch}"

    def _check_committed(
        self, daemon: Daemon, end: int, number: str = "invariant 16"
    ) -> Iterator[str]:
        cursor = self._cursor(daemon, stable=False)
        for batch in cursor.up_to(end):
            known = self._committed.setdefault(batch.base_offset, batch)
            if known != batch:
                yield f"{number}: {daemon.name}: {batch} where {known} was committed"
            self.committed_end = max(self.committed_end, min(batch.next_offset, end))
        held = self._held(daemon, stable=False)
        if held < end:
            yield f"{number}: {daemon.name}: holds metadata up to {held}, {end} are committed"

    def _check_majority(self, end: int) -> Iterator[str]:
        """Check that committed records are on stable storage of a majority."""
        held = {daemon.name: self._stable(daemon, end) for daemon in self._daemons.values()}
        if not _is_majority(held, end):
            # A cut becomes stable with a later sync: until then its cursor may have followed what
            # was cut off. Once more, from the beginning.
            for daemon in self._daemons.values():
                self._cursors.pop((daemon.name, True), None)
            held = {daemon.name: self._stable(daemon, end) for daemon in self._daemons.values()}
        if not _is_majority(held, end):
            yield f"invariant 16: {end} are committed, but stable are {held}"

    def _stable(self, daemon: Daemon, end: int) -> int:
        """Return the offset, at most `end`, below which the controller's metadata log is stable."""
        for _ in self._cursor(daemon, stable=True).up_to(end):
            pass
        return self._held(daemon, stable=True)

    def _check_vote(self, voter: Daemon, vote: Granted) -> Iterator[str]:
        """Check that a vote is on stable storage before the candidate receives it."""
        granter = self._daemons.get(vote.voter_id)
        if granter is None:
            return
        for name in STATE_FILES:
            node = self._directory(granter, stable=True).get(name)
            if not isinstance(node, FileNode):
                continue
            try:
                state = json.loads(bytes(node.stable))
            except ValueError:
                continue
            epoch, voted = state["leaderEpoch"], state["votedId"]
            if epoch > vote.epoch or (epoch == vote.epoch and voted == vote.candidate_id):
                return
        yield (
            f"invariant 16: {voter.name} has the vote of {granter.name} in epoch {vote.epoch},"
            f" which {granter.name} may forget"
        )

    # -- disks ------------------------------------------------------------------------------

    def _path(self, daemon: Daemon) -> str:
        return f"{daemon.properties['log.dirs']}/{METADATA_DIRECTORY}"

    def _directory(self, daemon: Daemon, *, stable: bool) -> dict[str, DirectoryNode | FileNode]:
        node: DirectoryNode | FileNode | None = daemon.host.disk.root
        for part in self._path(daemon).split("/"):
            if part and isinstance(node, DirectoryNode):
                node = (node.stable if stable else node.entries).get(part)
        if not isinstance(node, DirectoryNode):
            return {}
        return node.stable if stable else node.entries

    def _cursor(self, daemon: Daemon, *, stable: bool) -> LogCursor:
        cursor = self._cursors.get((daemon.name, stable))
        if cursor is None:
            cursor = LogCursor(daemon.host.disk, self._path(daemon), stable=stable)
            self._cursors[daemon.name, stable] = cursor
        return cursor

    def _held(self, daemon: Daemon, *, stable: bool) -> int:
        """Return the end offset of a controller's log and snapshots."""
        cursor = self._cursors[daemon.name, stable]
        snapshots = [
            int(name.partition("-")[0])
            for name in self._directory(daemon, stable=stable)
            if name.endswith(SNAPSHOT_SUFFIX) and name[:1].isdecimal()
        ]
        return max(cursor.offset, 0, *snapshots)


def _is_majority(held: dict[str, int], end: int) -> bool:
    return 2 * sum(up_to >= end for up_to in held.values()) > len(held)
