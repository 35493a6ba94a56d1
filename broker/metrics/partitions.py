"""The metrics of partitions that a broker leads, and of the cluster's topics and brokers.

A partition's numbers come from its leader and a topic's from the leader of its partition 0, so that
sums over all brokers count nothing twice.
"""

from collections.abc import Iterator
from operator import itemgetter
from typing import Final

from ...runtime.metrics import Family, Sample, gauge, labels
from ..edge import Edge
from ..partition.partition import Partition
from ..replica.leader import LeaderReplica
from .census import Census, is_under_replicated
from .labelled import Labelled, of_topic

_OF_PARTITION = "kafka_topic_partition_"
_OF_CLUSTER = "kafka_cluster_partition_"
Led = tuple[str, Partition, int, int, int, int, int, int, int]
"""A partition that this broker leads: its labels, itself, and the values of `_FACTS` in order."""
_FACTS: Final = (
    (_OF_PARTITION + "leader", "Id of the leader."),
    (_OF_PARTITION + "leader_is_preferred", "1 if the preferred replica leads."),
    (_OF_PARTITION + "replicas", "Number of replicas of the partition."),
    (_OF_PARTITION + "in_sync_replica", "Number of replicas in sync."),
    (_OF_PARTITION + "under_replicated_partition", "1 if a replica is not in sync."),
    (_OF_CLUSTER + "underminisr", "1 if the ISR is smaller than min.insync.replicas."),
    (_OF_CLUSTER + "atminisr", "1 if the ISR has exactly min.insync.replicas members."),
)


class PartitionMetrics:
    """The collector of the partitions that a broker leads, and of its counts over them."""

    def __init__(self, edge: Edge, labelled: Labelled) -> None:
        self._edge = edge
        self._labelled = labelled

    def __call__(self) -> Iterator[Family]:
        """Yield the metrics of one scrape."""
        led: list[Led] = []
        census = Census(self._edge.runtime.monotonic_ms())
        yield gauge(
            _OF_PARTITION + "current_offset",
            "High watermark of a partition that this broker leads.",
            self._walk(census, led),
        )
        yield gauge(
            _OF_PARTITION + "oldest_offset",
            "First offset of the partition that can be read.",
            ((row[0], row[1].log.log_start_offset) for row in led),
        )
        for place, (name, help_text) in enumerate(_FACTS, start=2):
            yield gauge(name, help_text, map(itemgetter(0, place), led))
        yield gauge(
            _OF_CLUSTER + "laststableoffsetlag",
            "Offsets from the last stable offset (end of read_committed) to high watermark.",
            ((row[0], _hidden(row[1])) for row in led),
        )
        yield from census.families()
        yield from self._of_the_cluster([row[1] for row in led if not row[1].index])

    def _walk(self, census: Census, led: list[Led]) -> Iterator[Sample]:
        """Count every partition, add those led here to `led`, and yield their high watermarks."""
        for tail, partition in self._labelled:
            census.count(partition)
            leader = partition.leader
            if leader is not None:
                led.append(_facts(tail, partition, leader))
                yield tail, leader.high_watermark

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


def _facts(tail: str, partition: Partition, leader: LeaderReplica) -> Led:
    metadata, least = leader.metadata, leader.min_isr
    in_sync = len(metadata.isr)
    return (
        tail,
        partition,
        leader.broker_id,
        +(metadata.replicas[0] == leader.broker_id),
        len(metadata.replicas),
        in_sync,
        +is_under_replicated(leader),
        +(in_sync < least),
        +(in_sync == least),
    )


def _hidden(partition: Partition) -> int:
    if not partition.log.producers.has_undecided:
        return 0
    return partition.high_watermark - partition.last_stable_offset
