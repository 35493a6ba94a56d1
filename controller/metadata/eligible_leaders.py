"""Changes to eligible leaders (KIP-966): switched on or off, or another min ISR.

They hold all that is committed because below min.insync.replicas nothing more is committed. So
everybody must mean the same number: with the feature on, the cluster's own setting is always
written in the metadata, and no broker's file counts.
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
    """The cluster's min.insync.replicas, written down unless it is."""
    if MIN_ISR in cluster.image.configs.get((BROKER, ""), {}):
        return []
    return [ConfigRecord(BROKER, "", MIN_ISR, cluster.defaults.topic_settings.get(MIN_ISR, "1"))]


def on_level_changed(cluster: Cluster, level: int) -> Sequence[MetadataRecord]:
    """What the new level of the feature means for settings and partitions."""
    if level >= 1:
        return [*default_min_isr(cluster), *records_of(_with_eligible(cluster))]
    return records_of(_without_eligible(cluster))


def _with_eligible(cluster: Cluster) -> Iterator[PartitionChange]:
    """The last in sync stayed in the ISR though they were gone: eligible is what they are.

    Unless their disk is gone, too.
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
    """Where the ISR is empty, one eligible leader is in sync again; the others are forgotten."""
    for partition, state, rules in every_partition(cluster):
        if state.elr or not state.isr:
            now = replace(rules, has_eligible_leaders=False)
            isr = state.isr or _settled(state)
            yield PartitionChange(partition, state, now, cluster.living, isr=isr)


def _settled(state: PartitionState) -> tuple[int, ...]:
    led = tuple(each for each in state.elr if each in state.last_known_elr)
    return (led or state.elr)[:1]


def on_min_isr_changed(cluster: Cluster, names: Iterable[str]) -> list[PartitionChangeRecord]:
    """Eligible leaders of these topics are counted anew from here on.

    Where nobody leads they stay: nothing is committed until one of them does.
    """
    return [
        PartitionChangeRecord(topic.topic_id, index, elr=(), last_known_elr=())
        for name in names
        if (topic := cluster.image.topic(name)) is not None
        for index, state in topic.partitions.items()
        if (state.elr or state.last_known_elr) and state.leader != NO_LEADER
    ]
