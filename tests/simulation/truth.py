"""The truth about each partition: the batches that were committed, and the replicas that have them.

The records are read from the disks; the code under test is not asked.
"""

from collections.abc import Iterator
from typing import NamedTuple

from minikafka.broker.partition.partition import Partition
from minikafka.protocol.types import TopicIdPartition, uuid_to_text

from .cluster import Daemon
from .disk import DirectoryNode, FileNode
from .loop import Process
from .rawlog import LogCursor, RawBatch

Place = tuple[str, TopicIdPartition]
"""A replica: the name of its daemon, and the partition."""


class Seen(NamedTuple):
    """The state of a replica after its process's last step, as `inside.seen` reads it."""

    replica: Partition
    leader: object
    leader_epoch: int
    high_watermark: int
    log_start_offset: int
    log_end_offset: int
    isr: tuple[int, ...]
    """The ISR as the leader counts it; empty for a follower."""

    @property
    def is_leader(self) -> bool:
        return self.leader is not None


class Ledger:
    """Every batch of one log that was ever committed."""

    def __init__(self) -> None:
        self.batches: list[RawBatch] = []
        self.index: dict[int, int] = {}
        self.open: dict[int, int] = {}
        """The first offset of each transaction without a committed marker, by producer id."""

    @property
    def decided(self) -> int:
        """The offset below which all transactions are decided by committed markers."""
        return min(self.open.values(), default=self.end)

    @property
    def end(self) -> int:
        return self.batches[-1].next_offset if self.batches else 0

    def newest_below(self, offset: int) -> int:
        """Return the newest timestamp of committed records below `offset`, in ms; -1 for none."""
        below = (each.max_timestamp for each in self.batches if each.next_offset <= offset)
        return max(below, default=-1)

    def contradiction(self, batch: RawBatch) -> str | None:
        """Enter a committed batch; return what is wrong if another one is there, else None."""
        if batch.base_offset >= self.end:
            if batch.base_offset > self.end:
                return f"a gap before offset {batch.base_offset}, the log ended at {self.end}"
            self.index[batch.base_offset] = len(self.batches)
            self.batches.append(batch)
            self._follow(batch)
            return None
        place = self.index.get(batch.base_offset)
        if place is None or self.batches[place] != batch:
            there = "another batching" if place is None else str(self.batches[place])
            return f"{batch} where {there} was committed"
        return None

    def cut(self, log: LogCursor | None) -> None:
        """Keep only the batches that `log` holds too, because an unclean election lost the others.

        Batches below the log's start are kept, because they were deleted and not lost.
        """
        begins_at = log.begins_at if log is not None else 0
        kept = sum(each.next_offset <= begins_at for each in self.batches)
        for batch in log.up_to(self.end) if log is not None else ():
            if kept == len(self.batches) or self.batches[kept] != batch:
                break
            kept += 1
        for batch in self.batches[kept:]:
            del self.index[batch.base_offset]
        del self.batches[kept:]
        self.open.clear()
        for batch in self.batches:
            self._follow(batch)

    def _follow(self, batch: RawBatch) -> None:
        if batch.ends:
            self.open.pop(batch.producer_id, None)
        elif batch.opens:
            self.open.setdefault(batch.producer_id, batch.base_offset)


class Truth:
    """The truth about one partition."""

    def __init__(self, topic: str, index: int) -> None:
        self.topic = topic
        self.index = index
        self.ledger = Ledger()
        self.leaders: dict[int, str] = {}
        """The leader of each epoch."""
        self.newest_leader_epoch = -1
        self.witnesses: dict[str, Process | None] = {}
        """The brokers' processes when the newest leader epoch began."""
        self.unclean_epoch = -1
        """The leader epoch of the newest unclean election in the metadata."""
        self.is_cut = True
        """True once the leader of that election has shown which records are left."""
        self.excused: dict[str, None] = {}
        """Replicas that an unclean election may cut below their high watermark."""
        self.weakest_min_isr = 0
        """The smallest min ISR since the ISR was last full: at least this many copies exist."""
        self.is_deleted = False
        self.start = 0
        """The greatest start of any replica's log: records below it may be deleted everywhere."""
        self.asked_start = 0
        """The greatest offset of any DeleteRecords request."""

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.index}"

    @property
    def was_unclean(self) -> bool:
        return self.unclean_epoch >= 0


def cursor_of(daemon: Daemon, key: TopicIdPartition, name: str) -> LogCursor | None:
    """Return a cursor at the first batch of a replica's log on disk; None if there is no log."""
    path = path_of(daemon, key, name)
    return LogCursor(daemon.host.disk, path) if path is not None else None


def segments_of(daemon: Daemon, key: TopicIdPartition, name: str) -> Iterator[bytes]:
    """Yield the contents of each segment of a replica's log on disk, in order."""
    path = path_of(daemon, key, name)
    node = daemon.host.disk.find(path) if path is not None else None
    for segment, each in sorted(node.entries.items()) if isinstance(node, DirectoryNode) else ():
        if segment.endswith(".log") and isinstance(each, FileNode):
            yield bytes(each.cache)


def bytes_from(daemon: Daemon, key: TopicIdPartition, name: str, offset: int) -> int:
    """Return the bytes in a replica's segments that begin at `offset` or later."""
    path = path_of(daemon, key, name)
    node = daemon.host.disk.find(path) if path is not None else None
    entries = node.entries if isinstance(node, DirectoryNode) else {}
    return sum(
        len(each.cache)
        for segment, each in entries.items()
        if segment.endswith(".log") and isinstance(each, FileNode) and int(segment[:-4]) >= offset
    )


def path_of(daemon: Daemon, key: TopicIdPartition, name: str) -> str | None:
    """Return the directory of a replica's log, in any log directory; None if there is none.

    If a stop has left two, or has cut a move short between its two changes of names, it is the one
    that a start uses.
    """
    disk = daemon.host.disk
    wanted = uuid_to_text(key.topic_id).encode()
    sizes: dict[str, int] = {}
    unfinished: list[str] = []
    marks: dict[str, None] = {}
    for directory in daemon.properties["log.dirs"].split(","):
        parent = disk.find(directory)
        for entry, node in parent.entries.items() if isinstance(parent, DirectoryNode) else ():
            begins, _, mark = entry.partition(f"{name}.")
            if not begins and mark.endswith("-moved"):
                marks[mark.removesuffix("-moved")] = None
            elif not begins and mark.endswith("-future"):
                unfinished.append(f"{directory}/{entry}")
            elif entry == name and isinstance(node, DirectoryNode):
                identity = node.entries.get("partition.metadata")
                if not isinstance(identity, FileNode) or wanted in identity.cache:
                    sizes[f"{directory}/{name}"] = _log_bytes(node)
    if sizes:
        return max(sizes, key=lambda path: sizes[path])
    swapped = (path for path in unfinished if path.rpartition(".")[2][: -len("-future")] in marks)
    return next(swapped, None)


def _log_bytes(node: DirectoryNode) -> int:
    return sum(
        len(each.cache)
        for file, each in node.entries.items()
        if file.endswith(".log") and isinstance(each, FileNode)
    )
