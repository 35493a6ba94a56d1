"""Changes to eligible leaders (KIP-966), if the feature's level or min.insync.replicas changes.

Eligible leaders hold all committed records, because nothing is committed while the ISR is below
min.insync.replicas. So all brokers must use the same value: with the feature on, the cluster's
value is always written in the metadata, and the one in a broker's file does not count.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ...protocol.control.image import PartitionState
from ...protocol.control.records import (
    BROKER,
    ConfigRecord,
    MetadataRecord,
    PartitionChangeRecord,
)
from ...protocol.types import NO_LEADER
from .decision import MIN_ISR, Cluster
from .partition_change import PartitionChange
from .sweeps import every_partition, records_of


def default_min_isr(cluster: Cluster) -> list[ConfigRecord]:
    """Return the record of the cluster's min.insync.replicas, unless the metadata has one."""
    if MIN_ISR in cluster.image.configs.get((BROKER, ""), {}):
        return []
    return [ConfigRecord(BROKER, "", MIN_ISR, cluster.defaults.topic_settings.get(MIN_ISR, "1"))]


def on_level_changed(cluster: Cluster, level: int) -> Sequence[MetadataRecord]:
    """Return the changes of settings and partitions that the feature's new level causes."""
    if level >= 1:
        return [*default_min_isr(cluster), *records_of(_with_eligible(cluster))]
    return records_of(_without_eligible(cluster))


def _with_eligible(cluster: Cluster) -> Iterator[PartitionChange]:
    """Yield the changes that take absent replicas out of ISRs and make them eligible leaders.

    Without the feature an ISR keeps its last member, though it is absent. A replica whose disk is
    gone does not become eligible.
    """
    for partition, state, rules in every_partition(cluster):
        isr = tuple(
            each
            for each in state.isr
            if cluster.living.may_stay(each) and each not in state.offline
        )
        if isr != state.isr:
            now = replace(rules, has_eligible_leaders=True)
            yield PartitionChange(
                partition, state, now, cluster.living, isr=isr, emptied=state.offline
            )


def _without_eligible(cluster: Cluster) -> Iterator[PartitionChange]:
    """Yield the changes that put one eligible leader into each empty ISR and remove the others."""
    for partition, state, rules in every_partition(cluster):
        if state.elr or not state.isr:
            now = replace(rules, has_eligible_leaders=False)
            isr = state.isr or _settled(state)
            yield PartitionChange(partition, state, now, cluster.living, isr=isr)


def _settled(state: PartitionState) -> tuple[int, ...]:
    led = tuple(each for each in state.elr if each in state.last_known_elr)
    return (led or state.elr)[:1]


def on_min_isr_changed(cluster: Cluster, names: Iterable[str]) -> list[PartitionChangeRecord]:
    """Return the records that remove the eligible leaders of these topics.

    Their min.insync.replicas has changed. In a partition without a leader they stay, because
    nothing is committed until one of them leads.
    """
    return [
        PartitionChangeRecord(topic.topic_id, index, elr=(), last_known_elr=())
        for name in names
        if (topic := cluster.image.topic(name)) is not None
        for index, state in topic.partitions.items()
        if (state.elr or state.last_known_elr) and state.leader != NO_LEADER
    ]
