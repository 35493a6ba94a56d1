"""The partitions that a broker leads, one by one and counted; topics and brokers of the cluster.

A partition's numbers come from its leader and a topic's from the leader of its partition 0, so that
sums over all brokers count nothing twice.
"""

from collections.abc import Callable, Iterator
from typing import Final

from ...runtime.metrics import Family, Sample, gauge, labels
from ..edge import Edge
from ..partition.partition import Partition
from ..replica.leader import LeaderReplica
from .census import Census, is_under_replicated
from .labelled import Labelled, of_topic

_OF_PARTITION = "kafka_topic_partition_"
_OF_CLUSTER = "kafka_cluster_partition_"
_OF_LEADERS: Final[tuple[tuple[str, str, Callable[[LeaderReplica], int]], ...]] = (
    (_OF_PARTITION + "leader", "Id of the leader.", lambda leader: leader.broker_id),
    (
        _OF_PARTITION + "leader_is_preferred",
        "1 if the first of the replicas leads.",
        lambda leader: leader.metadata.replicas[0] == leader.broker_id,
    ),
    (
        _OF_PARTITION + "replicas",
        "Replicas that the partition is assigned to.",
        lambda leader: len(leader.metadata.replicas),
    ),
    (
        _OF_PARTITION + "in_sync_replica",
        "Members of the ISR.",
        lambda leader: len(leader.metadata.isr),
    ),
    (
        _OF_PARTITION + "under_replicated_partition",
        "1 if the ISR lacks a replica.",
        is_under_replicated,
    ),
    (
        _OF_CLUSTER + "underminisr",
        "1 if the ISR is smaller than min.insync.replicas.",
        lambda leader: len(leader.metadata.isr) < leader.min_isr,
    ),
    (
        _OF_CLUSTER + "atminisr",
        "1 if the ISR is as small as min.insync.replicas permits.",
        lambda leader: len(leader.metadata.isr) == leader.min_isr,
    ),
)


class PartitionMetrics:
    """The collector of what a broker leads."""

    def __init__(self, edge: Edge, labelled: Labelled) -> None:
        self._edge = edge
        self._labelled = labelled

    def __call__(self) -> Iterator[Family]:
        """Give the families of one scrape."""
        led: list[tuple[str, Partition, LeaderReplica]] = []
        census = Census(self._edge.runtime.monotonic_ms())
        yield gauge(
            _OF_PARTITION + "current_offset",
            "High watermark of a partition led here.",
            self._walk(census, led),
        )
        yield gauge(
            _OF_PARTITION + "oldest_offset",
            "First offset that can be read.",
            ((tail, partition.log.log_start_offset) for tail, partition, _ in led),
        )
        for name, help_text, value in _OF_LEADERS:
            samples = ((tail, int(value(leader))) for tail, _, leader in led)
            yield gauge(name, help_text, samples)
        yield gauge(
            _OF_CLUSTER + "laststableoffsetlag",
            "Committed offsets that open transactions hide from readers of committed ones.",
            ((tail, _hidden(partition)) for tail, partition, _ in led),
        )
        yield from census.families()
        yield from self._of_the_cluster([p for _, p, _ in led if not p.index])

    def _walk(
        self, census: Census, led: list[tuple[str, Partition, LeaderReplica]]
    ) -> Iterator[Sample]:
        """Count every partition, keep those that are led here, and give their high watermarks."""
        for tail, partition in self._labelled:
            census.count(partition)
            leader = partition.leader
            if leader is not None:
                led.append((tail, partition, leader))
                yield tail, leader.high_watermark

    def _of_the_cluster(self, first_partitions: list[Partition]) -> Iterator[Family]:
        image = self._edge.image
        topics = ((each, image.topics.get(each.topic_id)) for each in first_partitions)
        yield gauge(
            "kafka_topic_partitions",
            "Partitions of a topic whose partition 0 is led here.",
            ((of_topic(p.topic), len(topic.partitions)) for p, topic in topics if topic),
        )
        live = self._edge.whereabouts.live_brokers()
        yield gauge("kafka_brokers", "Brokers that clients may be sent to.", len(live))
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
    if not partition.log.producers.has_undecided:
        return 0
    return partition.high_watermark - partition.last_stable_offset
