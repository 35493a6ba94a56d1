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
from .labelled import Labelled, Row, of_topic
from .standing import FACTS

_OF_PARTITION = "kafka_topic_partition_"
_OF_CLUSTER = "kafka_cluster_partition_"


class PartitionMetrics:
    """The collector of the partitions that a broker leads, and of its counts over them."""

    def __init__(self, edge: Edge, labelled: Labelled) -> None:
        self._edge = edge
        self._labelled = labelled

    def __call__(self) -> Iterator[Family]:
        """Yield the metrics of one scrape."""
        led: list[Row] = []
        standings: list[tuple[str, ...]] = []
        census = Census(self._edge.runtime.monotonic_ms())
        yield ready(
            _OF_PARTITION + "current_offset",
            "High watermark of a partition that this broker leads.",
            self._walk(census, led, standings),
        )
        yield ready(
            _OF_PARTITION + "oldest_offset",
            "First offset of the partition that can be read.",
            (row.line(row.partition.log.log_start_offset) for row in led),
        )
        for place, (name, help_text) in enumerate(FACTS):
            yield ready(name, help_text, map(itemgetter(place), standings))
        yield ready(
            _OF_CLUSTER + "laststableoffsetlag",
            "Offsets from the last stable offset (end of read_committed) to high watermark.",
            (
                row.line(_hidden(row.partition))
                if row.partition.log.producers.has_undecided
                else row.zero
                for row in led
            ),
        )
        yield from census.families()
        first_partitions = [row.partition for row in led if not row.partition.index]
        yield from self._of_the_cluster(first_partitions)

    def _walk(
        self, census: Census, led: list[Row], standings: list[tuple[str, ...]]
    ) -> Iterator[str]:
        """Count every partition, keep those led here, and yield the lines of high watermarks."""
        for row in self._labelled:
            partition = row.partition
            census.count(partition)
            leader = partition.leader
            if leader is not None:
                standing = row.standing(leader)
                census.count_led(leader, standing, partition.log.log_start_offset)
                led.append(row)
                standings.append(standing.lines)
                yield f"{row.tail} {leader.high_watermark}\n"

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


def _hidden(partition: Partition) -> int:
    return partition.high_watermark - partition.last_stable_offset
