"""The tables of `topics`, its filters of partitions, and its patterns of topic names.

The lines are those of Kafka's TopicCommand, tabs included.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ...protocol.errors import ApiError
from ...protocol.types import NO_LEADER, TopicPartition
from ...runtime.errors import ConfigError
from ..admin.replica_types import ReplicaRole, ReplicaState
from ..admin.topic_types import PartitionDescription, TopicDescription

COLLISION_WARNING = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') "
    "could collide. To avoid issues it is best to use either, but not both."
)
DEFAULT_MIN_ISR = 1


States = Mapping[int, ReplicaState | ApiError]
"""The state of each replica of a partition, or the error in its place, by broker id."""


@dataclass(frozen=True, slots=True)
class TopicRow:
    """One topic as the cluster describes it; `configs` has the settings that are not defaults."""

    topic: TopicDescription
    configs: Mapping[str, str]
    min_isr: int = DEFAULT_MIN_ISR
    states: Mapping[TopicPartition, States] = field(default_factory=dict)
    """The replicas' states by partition, also of other topics; empty without --replicas."""


@dataclass(frozen=True, slots=True)
class Filter:
    """The flags that select partitions and topics of a description."""

    under_replicated: bool = False
    unavailable: bool = False
    under_min_isr: bool = False
    at_min_isr: bool = False
    with_overrides: bool = False

    @property
    def by_partition(self) -> bool:
        """True if only partitions in a certain state are printed, and no lines of topics."""
        return self.under_replicated or self.unavailable or self.under_min_isr or self.at_min_isr

    def keeps(self, row: TopicRow, partition: PartitionDescription) -> bool:
        """Return whether the partition is in a requested state."""
        in_sync = len(partition.isr)
        return (
            (self.under_replicated and in_sync < len(partition.replicas))
            or (self.unavailable and partition.leader_id == NO_LEADER)
            or (self.under_min_isr and (partition.leader_id == NO_LEADER or in_sync < row.min_isr))
            or (self.at_min_isr and in_sync == row.min_isr)
        )


def description(rows: Iterable[TopicRow], wanted: Filter) -> Iterator[str]:
    """Yield Kafka's lines for these topics."""
    for row in rows:
        if not wanted.by_partition and (row.configs or not wanted.with_overrides):
            yield topic_line(row)
        if wanted.with_overrides and not wanted.by_partition:
            continue
        for partition in row.topic.partitions:
            if not wanted.by_partition or wanted.keeps(row, partition):
                yield partition_line(row, partition)
                at = TopicPartition(row.topic.name, partition.partition)
                yield from replica_lines(row.states.get(at, {}))


def topic_line(row: TopicRow) -> str:
    """Return the line of a topic."""
    topic = row.topic
    configs = ",".join(f"{key}={value}" for key, value in row.configs.items())
    replication_factor = len(topic.partitions[0].replicas) if topic.partitions else 0
    return (
        f"Topic: {topic.name}\tTopicId: {topic.topic_id}"
        f"\tPartitionCount: {len(topic.partitions)}"
        f"\tReplicationFactor: {replication_factor}\tConfigs: {configs}"
    )


def partition_line(row: TopicRow, partition: PartitionDescription) -> str:
    """Return the line of a partition."""
    leader = "none" if partition.leader_id == NO_LEADER else partition.leader_id
    return (
        f"\tTopic: {row.topic.name}\tPartition: {partition.partition}\tLeader: {leader}"
        f"\tReplicas: {_ids(partition.replicas)}\tIsr: {_ids(partition.isr)}"
        f"\tElr: {_ids(partition.eligible_leader_replicas)}"
        f"\tLastKnownElr: {_ids(partition.last_known_elr)}"
    )


def replica_lines(states: States) -> Iterator[str]:
    """Yield a line for each replica, with its lag behind the leader's log end."""
    leader = next((each for each in states.values() if _leads(each)), None)
    behind: dict[int, int] = {}
    end: int | None = None
    if isinstance(leader, ReplicaState):
        end = leader.log_end_offset
        behind = {each.broker_id: each.behind_ms for each in leader.followers}
        behind[leader.broker_id] = 0
    for broker_id, state in states.items():
        if isinstance(state, ApiError):
            yield f"\t\tReplica: {broker_id}\tError: {state}"
            continue
        lag = "N/A" if end is None else max(end - state.log_end_offset, 0)
        yield (
            f"\t\tReplica: {broker_id}\tRole: {state.role.name.lower()}"
            f"\tLeaderEpoch: {state.leader_epoch}\tLogStartOffset: {state.log_start_offset}"
            f"\tLogEndOffset: {state.log_end_offset}\tHighWatermark: {state.high_watermark}"
            f"\tLag: {lag}\tBehindMs: {behind.get(broker_id, 'N/A')}\tSize: {state.size_bytes}"
        )


def _leads(state: ReplicaState | ApiError) -> bool:
    return isinstance(state, ReplicaState) and state.role is ReplicaRole.LEADER


def _ids(brokers: Sequence[int] | None) -> str:
    return "N/A" if brokers is None else ",".join(map(str, brokers))


def matching(names: Iterable[str], pattern: str | None) -> list[str]:
    """Return the sorted names that match a list of regular expressions; all names for None.

    As in Kafka's include lists, commas separate the expressions, and each must match a whole name.
    """
    if pattern is None:
        return sorted(names)
    expression = included(pattern, "--topic")
    return sorted(name for name in names if expression.fullmatch(name))


def included(pattern: str, option: str) -> re.Pattern[str]:
    """Compile a list of expressions into one; raise ConfigError if the text is not valid."""
    text = pattern.strip().strip("\"'").replace(",", "|").replace(" ", "")
    try:
        return re.compile(text)
    except re.error as error:
        raise ConfigError(option, pattern, f"is no regular expression: {error}") from error


def parse_assignment(text: str) -> list[list[int]]:
    """Parse `0:1,1:2`: the replicas of each partition, preferred leader first.

    Raise ConfigError if the text is malformed, or the partitions have different numbers of
    replicas.
    """
    option = "--replica-assignment"
    try:
        partitions = [[int(broker) for broker in part.split(":")] for part in text.split(",")]
    except ValueError:
        raise ConfigError(option, text, "must look like 1:2,2:3") from None
    for replicas in partitions:
        if len(set(replicas)) < len(replicas):
            raise ConfigError(option, text, "a partition has the same broker twice")
        if len(replicas) != len(partitions[0]):
            raise ConfigError(option, text, "partitions have different numbers of replicas")
    return partitions
