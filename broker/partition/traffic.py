"""Counts of records, bytes and requests by topic, for the broker's metrics.

Pure. Every count is a plain number, which is raised once for each write or each partition of a
request, never for each record.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from ...protocol.records.batch_header import BatchHeader

COUNTS: Final = (
    "messages_in",
    "bytes_in",
    "bytes_out",
    "bytes_rejected",
    "replication_bytes_in",
    "replication_bytes_out",
    "produce_requests",
    "fetch_requests",
    "failed_produce_requests",
    "failed_fetch_requests",
)


class TopicTraffic:
    """The counts of one topic since the start, or since its first replica here."""

    __slots__ = COUNTS

    def __init__(self) -> None:
        self.messages_in = 0
        """Records that this broker has appended as a leader, markers too."""
        self.bytes_in = 0
        """Bytes of the batches with these records."""
        self.bytes_out = 0
        """Bytes of batches that consumers were sent."""
        self.bytes_rejected = 0
        """Bytes of batches that failed a check."""
        self.replication_bytes_in = 0
        """Bytes of batches that replicas on this broker copied from their leaders."""
        self.replication_bytes_out = 0
        """Bytes of batches that followers were sent."""
        self.produce_requests = 0
        """Batches in Produce requests, one for each partition of a request."""
        self.fetch_requests = 0
        """Reads by Fetch requests, one for each partition of a request."""
        self.failed_produce_requests = 0
        """Batches that were refused, except because another broker leads."""
        self.failed_fetch_requests = 0
        """Partitions for which a fetch got an error, except because another broker leads."""

    def on_more(self, batches: Sequence[tuple[BatchHeader, memoryview]], size: int) -> None:
        """Count the batches of one write except the first, which `Staging` has counted.

        All these batches, the first included, have `size` bytes together. There are no gaps between
        their offsets.
        """
        first, last = batches[0][0], batches[-1][0]
        self.produce_requests += len(batches) - 1
        self.messages_in += last.next_offset - first.next_offset
        self.bytes_in += size - first.size

    def on_refused(self, unfit_bytes: int) -> None:
        """Count a refused batch; `unfit_bytes` is its size if a check of it failed, else 0."""
        self.produce_requests += 1
        self.failed_produce_requests += 1
        self.bytes_rejected += unfit_bytes


class Traffic:
    """The counts of all topics of a broker."""

    def __init__(self) -> None:
        self._topics: dict[str, TopicTraffic] = {}
        self._gone = TopicTraffic()
        """The sums of the topics that have no replica on this broker any more."""

    def of(self, topic: str) -> TopicTraffic:
        """Return the counts of a topic, which begin at 0 if the topic is new on this broker."""
        counts = self._topics.get(topic)
        if counts is None:
            counts = self._topics[topic] = TopicTraffic()
        return counts

    def keep(self, topics: Iterable[str]) -> list[tuple[str, TopicTraffic]]:
        """Keep these topics, and move all others into the totals; return those with traffic.

        An idle topic has no rows of its own, as in Kafka.
        """
        known, self._topics = self._topics, {}
        for topic in topics:
            if topic in known:
                self._topics[topic] = known.pop(topic)
        for gone in known.values():
            for count in COUNTS:
                setattr(self._gone, count, getattr(self._gone, count) + getattr(gone, count))
        return [(topic, each) for topic, each in self._topics.items() if _is_active(each)]

    def total(self, count: str) -> int:
        """Return the sum of one count over all topics, including those that are gone."""
        counts = (self._gone, *self._topics.values())
        return sum(getattr(each, count) for each in counts)


def _is_active(each: TopicTraffic) -> bool:
    return bool(each.produce_requests or each.fetch_requests or each.replication_bytes_in)
