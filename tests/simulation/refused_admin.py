"""Bad requests to the controller: topics, settings, moves, elections, features, brokers."""

from minikafka.protocol.control.records import (
    BROKER,
    ELIGIBLE_LEADERS,
    METADATA_TOPIC,
    TOPIC,
    TRANSACTION_VERSION,
)
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import alter_configs as whole
from minikafka.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from minikafka.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from minikafka.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from minikafka.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from minikafka.protocol.messages.elect_leaders import (
    ElectionType,
    ElectLeadersRequest,
    TopicPartitions,
)
from minikafka.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    ConfigOperation,
    IncrementalAlterConfigsRequest,
)
from minikafka.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from minikafka.protocol.messages.unregister_broker import UnregisterBrokerRequest
from minikafka.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpgradeType,
)

from .refusals import TOPIC as MINE
from .refusals import Due, Refused, Story

NOBODY = 77
"""An id that no broker has."""
NONE = ErrorCode.NONE
INVALID = ErrorCode.INVALID_REQUEST
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
ASSIGNMENT = ErrorCode.INVALID_REPLICA_ASSIGNMENT
FACTOR = ErrorCode.INVALID_REPLICATION_FACTOR
NAME = ErrorCode.INVALID_TOPIC_EXCEPTION
CONFIG = ErrorCode.INVALID_CONFIG
VERSION = ErrorCode.INVALID_UPDATE_VERSION


async def topics(refused: Refused) -> None:
    """Send bad requests about topics, and check the errors.

    CreateTopics only validates; there are DeleteTopics and CreatePartitions too.
    """
    asked: list[tuple[CreatableTopic, Due]] = [
        (_topic(MINE), ErrorCode.TOPIC_ALREADY_EXISTS),
        (_topic(MINE.replace(".", "_")), NAME),
        (_topic("fine", count=-1, factor=-1), (NONE, FACTOR)),
        (_topic("many", factor=NOBODY), FACTOR),
        (_topic("none", factor=0), FACTOR),
        (_topic("none", count=0), ErrorCode.INVALID_PARTITIONS),
        (_topic("huge", count=1_000_000), (ErrorCode.POLICY_VIOLATION, FACTOR)),
        (_topic("key", config=("no.such.key", "1")), CONFIG),
        (_topic("value", config=("segment.bytes", "many")), CONFIG),
        (_topic("value", config=("segment.bytes", None)), CONFIG),
        (_topic("long", config=("cleanup.policy", "x" * 40_000)), CONFIG),
        (_placed({0: [1]}), (NONE, ASSIGNMENT)),
        (_placed({0: [1]}, count=1), INVALID),
        (_placed({0: [1, 1]}), ASSIGNMENT),
        (_placed({0: [NOBODY]}), ASSIGNMENT),
        (_placed({0: [1, 2], 1: [1]}), ASSIGNMENT),
        (_placed({1: [1]}), ASSIGNMENT),
        (_placed({0: []}), ASSIGNMENT),
        *((_topic(name), NAME) for name in ("", ".", "..", "a b", "x" * 300, METADATA_TOPIC)),
    ]
    pairs: list[tuple[object, Due]] = [
        (CreateTopicsRequest(topics=[topic], validate_only=True), due) for topic, due in asked
    ]
    pairs += [
        (CreateTopicsRequest(topics=[_topic("twice"), _topic("twice")]), INVALID),
        (_grown(MINE, 1), ErrorCode.INVALID_PARTITIONS),
        (_grown("no-such-topic", 2), UNKNOWN),
        (_grown(MINE, 3, [[1]]), ASSIGNMENT),
        (_grown(MINE, 2, [[NOBODY, 1, 2]]), ASSIGNMENT),
        (_grown(MINE, 2, [[1]]), ASSIGNMENT),
        (_grown(MINE, 2, [[1, 2, 3]]), (NONE, ASSIGNMENT)),
        (_deleted(DeleteTopicState(name="no-such-topic")), UNKNOWN),
        (_deleted(DeleteTopicState(topic_id=b"no-such-topic-id")), ErrorCode.UNKNOWN_TOPIC_ID),
        (_deleted(DeleteTopicState()), INVALID),
        (_deleted(DeleteTopicState(name="__consumer_offsets")), (NAME, UNKNOWN)),
    ]
    again = CreatePartitionsTopic(name=MINE, count=2)
    pairs.append((CreatePartitionsRequest(topics=[again, again], timeout_ms=2000), INVALID))
    await refused.each_due(pairs)


def _topic(
    name: str, count: int = 1, factor: int = 1, config: tuple[str, str | None] | None = None
) -> CreatableTopic:
    configs = [CreatableTopicConfig(name=config[0], value=config[1])] if config else []
    return CreatableTopic(
        name=name, num_partitions=count, replication_factor=factor, configs=configs
    )


def _placed(replicas: dict[int, list[int]], count: int = -1) -> CreatableTopic:
    assignments = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
        for index, brokers in replicas.items()
    ]
    return CreatableTopic(
        name="placed", num_partitions=count, replication_factor=-1, assignments=assignments
    )


def _grown(name: str, count: int, placed: list[list[int]] | None = None) -> object:
    wanted = [CreatePartitionsAssignment(broker_ids=each) for each in placed or ()]
    topic = CreatePartitionsTopic(name=name, count=count, assignments=wanted or None)
    return CreatePartitionsRequest(topics=[topic], timeout_ms=2000, validate_only=True)


def _deleted(topic: DeleteTopicState) -> object:
    return DeleteTopicsRequest(topics=[topic], timeout_ms=2000)


async def settings(refused: Refused) -> None:
    """Send bad IncrementalAlterConfigs and AlterConfigs.

    The latter resets keys that it does not name.
    """
    change, op = AlterableConfig, ConfigOperation
    size, policy = "segment.bytes", "cleanup.policy"
    min_isr = "min.insync.replicas"
    mine = (TOPIC, MINE)
    pairs: list[tuple[object, Due]] = [
        (_changed((TOPIC, "no-such-topic"), change(name=size, value="2000")), UNKNOWN),
        (_changed((TOPIC, ""), change(name=size, value="2000")), (UNKNOWN, INVALID)),
        (_changed((BROKER, "01"), change(name=min_isr, value="2")), (INVALID, CONFIG)),
        (_changed((99, "x"), change(name=size, value="2000")), INVALID),
        (_changed(mine, change(name="no.such.key", value="1")), CONFIG),
        (_changed(mine, change(name=size, value="many")), CONFIG),
        (_changed(mine, change(name=size, value=None)), CONFIG),
        (_changed(mine, change(name=policy, value="x" * 40_000)), CONFIG),
        (_changed(mine, change(name=size, value="1"), change(name=size, value="2")), INVALID),
        (_changed(mine, change(name=size, config_operation=op.APPEND, value="1")), CONFIG),
        (_changed(mine, change(name=size, config_operation=9, value="1")), INVALID),
        (_changed((BROKER, "1"), change(name=min_isr, value="2")), CONFIG),
        (_changed((BROKER, ""), change(name=min_isr, value="none")), CONFIG),
        (
            _changed((BROKER, ""), change(name=min_isr, config_operation=op.DELETE, value=None)),
            (NONE, CONFIG),  # Without eligible leaders it may go.
        ),
        (_changed(mine, change(name=size, config_operation=op.DELETE, value=None)), NONE),
    ]
    for operation in (op.APPEND, op.SUBTRACT):
        listed = change(name=policy, config_operation=operation, value="compact,delete")
        wanted = NONE if operation == op.APPEND else (NONE, CONFIG)
        pairs.append((_changed(mine, listed), wanted))
    entry = whole.AlterableConfig(name="index.interval.bytes", value="4096")
    resource = whole.AlterConfigsResource(resource_type=TOPIC, resource_name=MINE, configs=[entry])
    pairs.append((whole.AlterConfigsRequest(resources=[resource], validate_only=True), NONE))
    pairs.append((whole.AlterConfigsRequest(resources=[resource, resource]), INVALID))
    await refused.each_due(pairs)


def _changed(resource: tuple[int, str], *changes: AlterableConfig) -> object:
    named = AlterConfigsResource(
        resource_type=resource[0], resource_name=resource[1], configs=list(changes)
    )
    return IncrementalAlterConfigsRequest(resources=[named], validate_only=True)


async def moves(refused: Refused) -> None:
    """Send AlterPartitionReassignments, ListPartitionReassignments and ElectLeaders.

    Most of these requests are bad.
    """
    needless = ErrorCode.ELECTION_NOT_NEEDED
    preferred = (NONE, needless, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
    unclean = (NONE, needless, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)
    pairs: list[tuple[object, Due]] = [
        (_moved(0, None), ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        (_moved(0, None, twice=True), ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        (_moved(9, None), UNKNOWN),
        (_moved(9, [1, 2, 3]), UNKNOWN),
        (_moved(0, []), ASSIGNMENT),
        (_moved(0, [1, 1, 2]), ASSIGNMENT),
        (_moved(0, [1, 2, NOBODY]), ASSIGNMENT),
        (_moved(0, [1], keeps_count=True), (FACTOR, ASSIGNMENT)),
        (_listed(None), NONE),
        (_listed("no-such-topic"), NONE),
        (_listed(MINE), NONE),
        (_elected(ElectionType.PREFERRED, [0]), preferred),
        (_elected(ElectionType.UNCLEAN, [0]), unclean),
        (_elected(ElectionType.PREFERRED, [9]), UNKNOWN),
        (_elected(ElectionType.PREFERRED, [9, 9]), UNKNOWN),
        (_elected(9, [0]), INVALID),
    ]
    await refused.each_due(pairs)


def _moved(
    index: int, replicas: list[int] | None, *, keeps_count: bool = False, twice: bool = False
) -> object:
    partition = ReassignablePartition(partition_index=index, replicas=replicas)
    topic = ReassignableTopic(name=MINE, partitions=[partition] * (2 if twice else 1))
    return AlterPartitionReassignmentsRequest(
        timeout_ms=2000, allow_replication_factor_change=not keeps_count, topics=[topic]
    )


def _listed(name: str | None) -> object:
    named = [ListPartitionReassignmentsTopics(name=name, partition_indexes=[0])] if name else None
    return ListPartitionReassignmentsRequest(timeout_ms=2000, topics=named)


def _elected(kind: int, indexes: list[int]) -> object:
    named = [TopicPartitions(topic=MINE, partitions=indexes)]
    return ElectLeadersRequest(election_type=kind, topic_partitions=named, timeout_ms=2000)


async def features(refused: Refused) -> None:
    """Send UpdateFeatures that change nothing, and ask for the removal of an unknown broker."""
    up, down = UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE
    version = refused.transaction_version
    same = FeatureUpdateKey(feature=TRANSACTION_VERSION, max_version_level=version)
    pairs: list[tuple[object, Due]] = [
        (_updated("no.such.feature", 1, up), VERSION),
        (_updated(TRANSACTION_VERSION, 99, up), VERSION),
        (_updated(TRANSACTION_VERSION, -1, down), VERSION),
        (_updated(TRANSACTION_VERSION, version, up), NONE),
        (_updated(TRANSACTION_VERSION, version - 1, up), VERSION),
        (_updated(TRANSACTION_VERSION, version - 1, 9), INVALID),
        (_updated(TRANSACTION_VERSION, version - 1, down), NONE),
        (_updated(ELIGIBLE_LEADERS, 1, up), NONE),
        (_updated(ELIGIBLE_LEADERS, 0, down), NONE),
        (UpdateFeaturesRequest(feature_updates=[same, same], timeout_ms=2000), INVALID),
        (UnregisterBrokerRequest(broker_id=NOBODY), ErrorCode.BROKER_ID_NOT_REGISTERED),
    ]
    if version == 1:
        pairs.append((_updated(TRANSACTION_VERSION, 2, down), VERSION))
    await refused.each_due(pairs)


def _updated(feature: str, level: int, kind: int) -> object:
    update = FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=kind)
    return UpdateFeaturesRequest(feature_updates=[update], timeout_ms=2000, validate_only=True)


STORIES: dict[str, Story] = {
    "topics": topics,
    "settings": settings,
    "moves-and-elections": moves,
    "features": features,
}
