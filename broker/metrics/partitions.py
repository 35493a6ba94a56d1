"""The metrics of partitions that a broker leads, and of the cluster's topics and brokers.

A partition's numbers come from its leader and a topic's from the leader of its partition 0, so that
sums over all brokers count nothing twice.
"""

from collections.abc import Iterator
from operator import itemgetter

from ...runtime.metrics import Family, gauge, labels, ready
from ..edge import Edge
from ..partition.partition import Partition
from .census import Census
from .labelled import Labelled, of_topic
from .standing import FACTS

_OF_PARTITION = "kafka_topic_partition_"
_OF_CLUSTER = "kafka_cluster_partition_"


class PartitionMetrics:
    """Collects the metrics of the partitions that a broker leads, and counts over them."""

    def __init__(self, edge: Edge, labelled: Labelled) -> None:
        self._edge = edge
        self._labelled = labelled

    def __call__(self) -> Iterator[Family]:
        """Yield the metrics of one scrape."""
        led = _Led(Census(self._edge.runtime.monotonic_ms()))
        yield ready(
            _OF_PARTITION + "current_offset",
            "High watermark of a partition that this broker leads.",
            led.walk(self._labelled),
        )
        yield ready(
            _OF_PARTITION + "oldest_offset",
            "First offset of the partition that can be read.",
            led.starts,
        )
        for place, (name, help_text) in enumerate(FACTS):
            yield ready(name, help_text, map(itemgetter(place), led.standings))
        yield ready(
            _OF_CLUSTER + "laststableoffsetlag",
            "Offsets from the last stable offset (end of read_committed) to high watermark.",
            led.hidden,
        )
        yield from led.census.families()
        yield from self._of_the_cluster(led.first_partitions)

    def _of_the_cluster(self, first_partitions: list[Partition]) -> Iterator[Family]:
        image = self._edge.image
        topics = ((each, image.topics.get(each.topic_id)) for each in first_partitions)
        yield gauge(
            "kafka_topic_partitions",
            "Number of partitions of a topic whose partition 0 this broker leads.",
            ((of_topic(p.topic), len(topic.partitions)) for p, topic in topics if topic),
        )
        live = self._edge.whereabouts.live_brokers()
        yield gauge("kafka_brokers", "Live brokers that clients may connect to.", len(live))
        yield gauge(
            "kafka_broker_info",
            "This broker's id and the address of its first listener.",
            [
                (labels(id=each.broker_id, address=f"{first.host}:{first.port}"), 1)
                for each in live
                if each.broker_id == self._edge.config.node_id
                for first in each.endpoints[:1]
            ],
        )


class _Led:
    """The lines of the partitions that this broker leads, from one walk over all partitions."""

    def __init__(self, census: Census) -> None:
        self.census = census
        self.starts: list[str] = []
        """The lines of the logs' first offsets."""
        self.standings: list[tuple[str, ...]] = []
        self.hidden: list[str] = []
        """The lines of the distances from last stable offset to high watermark."""
        self.first_partitions: list[Partition] = []
        """Partition 0 of each topic whose partition 0 this broker leads."""

    def walk(self, labelled: Labelled) -> Iterator[str]:
        """Count every partition, and yield the lines of high watermarks of those led here."""
        census, starts, standings, hidden = self.census, self.starts, self.standings, self.hidden
        for row in labelled:
            partition = row.partition
            census.count(partition)
            leader = partition.leader
            if leader is None:
                continue
            log = partition.log
            standing = row.standing(leader)
            census.count_led(leader, standing, log.log_start_offset)
            starts.append(row.line(log.log_start_offset))
            standings.append(standing.lines)
            is_stable = not log.producers.has_undecided
            hidden.append(row.zero if is_stable else row.line(_hidden(partition)))
            if not partition.index:
                self.first_partitions.append(partition)
            yield row.line(leader.high_watermark)


def _hidden(partition: Partition) -> int:
    return partition.high_watermark - partition.last_stable_offset
