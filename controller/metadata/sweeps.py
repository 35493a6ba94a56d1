"""Changes of partitions when a broker dies, leaves, returns, restarts or loses a disk.

Each sweep returns records for the partitions it changes, and nothing for the others. All changes
pass through `PartitionChange`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from ...protocol.control.image import PartitionState
from ...protocol.control.messages import Noted, OfflinePartitions
from ...protocol.control.records import PartitionChangeRecord
from ...protocol.errors import ApiError, ErrorCode
from ...protocol.types import NO_LEADER, TopicIdPartition
from .decision import Cluster, Decision, Living
from .partition_change import PartitionChange, Rules, without


class Found(NamedTuple):
    """A partition with its present state and the rules of its topic."""

    partition: TopicIdPartition
    state: PartitionState
    rules: Rules


def rules_of(cluster: Cluster, topic: str) -> Rules:
    """Return the rules for every partition of the topic."""
    return Rules(
        cluster.min_isr(topic),
        cluster.has_eligible_leaders,
        cluster.unclean_election(topic),
        cluster.leases,
    )


def every_partition(cluster: Cluster) -> Iterator[Found]:
    """Yield every partition, with topics in order of creation."""
    for topic in cluster.image.topics.values():
        rules = rules_of(cluster, topic.name)
        for index, state in topic.partitions.items():
            yield Found(TopicIdPartition(topic.topic_id, index), state, rules)


def change_of(cluster: Cluster, partition: TopicIdPartition) -> PartitionChange:
    """Make a change that only elects a leader; the caller may add to it."""
    topic = cluster.image.topics[partition.topic_id]
    state = topic.partitions[partition.partition]
    return PartitionChange(
        partition,
        state,
        rules_of(cluster, topic.name),
        cluster.living,
        copy_is_away=copy_is_away(cluster, state),
    )


def records_of(changes: Iterator[PartitionChange]) -> list[PartitionChangeRecord]:
    """Build the records of the changes; a change without effect has none."""
    return [record for change in changes if (record := change.build()) is not None]


def without_broker(
    cluster: Cluster, broker_id: int, *, unless_alone: bool = False
) -> list[PartitionChangeRecord]:
    """Return the records that take a broker out of every ISR and lead.

    The broker is fenced or in controlled shutdown. With `unless_alone`, it keeps leading a
    partition if no other active replica is in sync, but one may soon be.
    """
    living = Living(cluster.image, leaving=broker_id)

    def changes() -> Iterator[PartitionChange]:
        for partition, state, rules in every_partition(cluster):
            if broker_id not in state.isr and broker_id != state.leader:
                continue
            isr = without(state.isr, (broker_id,))
            if unless_alone and state.leader == broker_id and not any(map(living.may_lead, isr)):
                others = without(state.replicas, (broker_id, *state.offline))
                if any(map(living.may_lead, others)):
                    continue
            yield PartitionChange(partition, state, rules, living, isr=isr)

    return records_of(changes())


def restarted_uncleanly(
    cluster: Cluster, broker_id: int, lost_directories: tuple[bytes, ...]
) -> list[PartitionChangeRecord]:
    """Return the changes of partitions for a broker that starts anew and may have lost records.

    The broker leaves every ISR and set of eligible leaders. `lost_directories` are the directories
    that it had before, if not all of them are back; else empty.
    """
    living = Living(cluster.image, leaving=broker_id)

    def changes() -> Iterator[PartitionChange]:
        for partition, state, rules in every_partition(cluster):
            held = (*state.isr, *state.elr, *state.last_known_elr, state.leader)
            if broker_id in held:
                yield PartitionChange(
                    partition,
                    state,
                    rules,
                    living,
                    isr=without(state.isr, (broker_id,)),
                    emptied=(broker_id,),
                    lost_directories=lost_directories,
                    offline=without(state.offline, (broker_id,)),
                    copy_is_away=copy_is_away(cluster, state),
                )
            elif broker_id in state.offline:
                offline = without(state.offline, (broker_id,))
                yield PartitionChange(partition, state, rules, living, offline=offline)

    return records_of(changes())


def returned_cleanly(cluster: Cluster, broker_id: int) -> list[PartitionChangeRecord]:
    """Return the changes of partitions for a broker that starts anew with all its records.

    The broker may still be in ISRs, if its absence was never noticed.
    """
    living = Living(cluster.image, leaving=broker_id)

    def changes() -> Iterator[PartitionChange]:
        for partition, state, rules in every_partition(cluster):
            if broker_id in state.isr or broker_id == state.leader or broker_id in state.offline:
                yield PartitionChange(
                    partition,
                    state,
                    rules,
                    living,
                    isr=without(state.isr, (broker_id,)),
                    offline=without(state.offline, (broker_id,)),
                )

    return records_of(changes())


def with_broker(cluster: Cluster, broker_id: int) -> list[PartitionChangeRecord]:
    """Return the records that elect leaders for a returning broker's leaderless partitions."""
    living = Living(cluster.image, returning=broker_id)
    return records_of(
        PartitionChange(partition, state, rules, living, copy_is_away=copy_is_away(cluster, state))
        for partition, state, rules in every_partition(cluster)
        if state.leader == NO_LEADER and broker_id in state.replicas
    )


def released(cluster: Cluster, partitions: Iterable[TopicIdPartition]) -> Decision[None]:
    """Elect leaders for leaderless partitions whose old leader no longer acts as one."""
    changes = (
        change_of(cluster, partition)
        for partition in partitions
        if (state := cluster.image.partition(*partition)) is not None and state.leader == NO_LEADER
    )
    return Decision(None, records_of(changes))


def lost_replicas(cluster: Cluster, request: OfflinePartitions) -> Decision[Noted]:
    """Take the replicas of a failed directory out of ISR and lead; their broker stays active."""
    try:
        broker = cluster.check_broker_epoch(request.broker_id, request.broker_epoch)
    except ApiError as error:
        return Decision(Noted(error.code, error.detail))
    broker_id = broker.broker_id
    named = dict.fromkeys(
        TopicIdPartition(each.topic_id, each.partition) for each in request.replicas
    )

    def changes() -> Iterator[PartitionChange]:
        for partition in named:
            state = cluster.image.partition(*partition)
            if state is None or broker_id not in state.replicas or broker_id in state.offline:
                continue
            yield replace(
                change_of(cluster, partition),
                isr=without(state.isr, (broker_id,)),
                emptied=(broker_id,),
                offline=(*state.offline, broker_id),
            )

    return Decision(Noted(ErrorCode.NONE), records_of(changes()))


def copy_is_away(cluster: Cluster, state: PartitionState) -> bool:
    """True if the broker of the last good copy came back without the directories that hold it."""
    if not state.directories:
        return False
    registered = [
        directory
        for holder in state.isr or state.last_known_elr
        if (broker := cluster.image.brokers.get(holder)) is not None
        for directory in broker.directory_ids
    ]
    return any(directory not in registered for directory in state.directories)


def led_count(cluster: Cluster, broker_id: int) -> int:
    """Return how many partitions the broker leads."""
    return sum(state.leader == broker_id for _, state in cluster.image.partitions())
