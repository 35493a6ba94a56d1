"""CreateTopics, CreatePartitions and DeleteTopics.

Each topic of a request is decided independently, after those before it. The caller provides the ids
of new topics. A repeated request gets the same id again, and so recognises the topic that it
created.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

from ...protocol.control import records as r
from ...protocol.control.image import PartitionState, Topic
from ...protocol.errors import ApiError, ErrorCode
from ...protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from ...protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ...protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from ...protocol.messages.describe_configs import ConfigSource
from ...protocol.types import (
    INTERNAL_TOPICS,
    NO_LEADER,
    TRACE_TOPIC,
    WRITTEN_BY_BROKERS,
    ZERO_UUID,
    uuid_to_text,
)
from ...runtime.config import settings_of
from ...storage.topic_config import TopicConfig
from .configuration import check_length, check_topic_config
from .decision import DECISION_RECORDS_MAX, Cluster, Decision
from .forwarding import check_internal, check_targets
from .mutations import UNLIMITED, Allowance
from .placement import Load, Spread
from .topic_names import check_topic_name, metric_name


@dataclass(slots=True)
class _Draft:
    """The records decided so far and the load with them, for the later topics of a request."""

    cluster: Cluster
    load: Load
    allowance: Allowance
    records: list[r.MetadataRecord] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    """The names of existing and new topics, by their metric names."""

    def check_room(self, count: int) -> None:
        if len(self.records) + count > DECISION_RECORDS_MAX:
            detail = f"more than {DECISION_RECORDS_MAX} partitions at once: ask for fewer"
            raise ApiError(ErrorCode.POLICY_VIOLATION, detail)


def _draft(cluster: Cluster, allowance: Allowance) -> _Draft:
    states = (state for _, state in cluster.image.partitions())
    names = {metric_name(name): name for name in cluster.image.topic_ids}
    return _Draft(cluster, Load.of(cluster.active_brokers(), states), allowance, names=names)


def create_topics(
    cluster: Cluster,
    request: CreateTopicsRequest,
    id_of: Callable[[str], bytes],
    allowance: Allowance = UNLIMITED,
    *,
    by_broker: bool = False,
) -> Decision[CreateTopicsResponse]:
    """Create each topic that can be created; with `validate_only`, write and charge nothing.

    `id_of` returns the id for a name: the same for a repeated request, else always a new one. Only
    a broker in its own name, `by_broker`, creates the topics that brokers alone write.
    """
    draft = _draft(cluster, UNLIMITED if request.validate_only else allowance)
    results: list[CreatableTopicResult] = []
    mentions = Counter(topic.name for topic in request.topics)
    for topic in request.topics:
        try:
            if mentions[topic.name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, f"topic {topic.name!r} is named twice")
            if topic.name in WRITTEN_BY_BROKERS and not by_broker:
                detail = f"topic {topic.name!r} is internal: brokers create it once they need it"
                raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, detail)
            results.append(_create(draft, topic, id_of(topic.name)))
        except ApiError as error:
            results.append(
                CreatableTopicResult(
                    name=topic.name, error_code=error.code, error_message=error.detail
                )
            )
    changes = [] if request.validate_only else draft.records
    throttle_ms = draft.allowance.throttle_ms
    return Decision(CreateTopicsResponse(throttle_time_ms=throttle_ms, topics=results), changes)


def _create(draft: _Draft, topic: CreatableTopic, topic_id: bytes) -> CreatableTopicResult:
    existing = draft.cluster.image.topic_ids
    if existing.get(topic.name) == topic_id:
        return _created(draft.cluster, draft.cluster.image.topics[topic_id])
    if topic.name in existing:
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {topic.name!r} exists")
    check_topic_name(topic.name, draft.names)
    config = _config_of(topic)
    check_topic_config(config)
    check_internal(topic.name, config, {})
    check_targets(topic.name, config, {}, draft.names.values(), draft.cluster.image.configs)
    placed = _placement(draft, topic)
    draft.allowance.spend(len(placed))
    draft.names[metric_name(topic.name)] = topic.name
    draft.records.append(r.TopicRecord(topic.name, topic_id))
    draft.records.extend(
        r.ConfigRecord(r.TOPIC, topic.name, key, value) for key, value in config.items()
    )
    draft.records.extend(_partitions(draft.cluster, topic_id, placed))
    return _result(draft.cluster, topic.name, topic_id, placed, config)


def _created(cluster: Cluster, topic: Topic) -> CreatableTopicResult:
    """Repeat the answer that was given when this topic was created."""
    placed = [state.replicas for state in topic.partitions.values()]
    config = cluster.image.configs.get((r.TOPIC, topic.name), {})
    return _result(cluster, topic.name, topic.topic_id, placed, config)


def _result(
    cluster: Cluster,
    name: str,
    topic_id: bytes,
    placed: Sequence[tuple[int, ...]],
    config: dict[str, str],
) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=name,
        topic_id=topic_id,
        num_partitions=len(placed),
        replication_factor=len(placed[0]),
        configs=list(_described(cluster, name, config)),
    )


def _config_of(topic: CreatableTopic) -> dict[str, str]:
    config: dict[str, str] = {}
    for entry in topic.configs:
        if entry.value is None:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"{entry.name}: needs a value")
        check_length(entry.name, entry.value)
        config[entry.name] = entry.value
    return config


def _placement(draft: _Draft, topic: CreatableTopic) -> list[tuple[int, ...]]:
    """Return the replicas of each partition, chosen here or as the request assigns them.

    Raise ApiError if the numbers or the replicas are not possible.
    """
    count, factor = topic.num_partitions, topic.replication_factor
    if topic.assignments:
        if count != -1 or factor != -1:
            detail = "with replicas assigned by hand, partitions and replication factor are -1"
            raise ApiError(ErrorCode.INVALID_REQUEST, detail)
        by_index = {each.partition_index: each.broker_ids for each in topic.assignments}
        if sorted(by_index) != list(range(len(topic.assignments))):
            detail = "partitions assigned by hand are numbered from 0 without gap, each once"
            raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, detail)
        return _assigned(draft, [by_index[index] for index in range(len(by_index))], None)
    count = draft.cluster.defaults.partition_count if count == -1 else count
    factor = draft.cluster.defaults.replication_factor if factor == -1 else factor
    if count < 1:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, f"{count} partitions: at least 1 is needed")
    return _chosen(draft, (), count, factor)


def _chosen(
    draft: _Draft, existing: Collection[PartitionState], count: int, factor: int
) -> list[tuple[int, ...]]:
    """Choose the replicas of `count` more partitions of a topic.

    Raise ApiError if there are not enough live brokers, or if the request makes too many records.
    """
    alive = [broker.broker_id for broker in draft.load.brokers]
    if factor < 1:
        detail = f"replication factor {factor}: at least 1 is needed"
        raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, detail)
    if factor > len(alive):
        detail = f"replication factor {factor} is larger than the {len(alive)} brokers alive"
        detail = f"{detail} ({alive}): start more brokers or ask for fewer replicas"
        raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, detail)
    draft.check_room(count)
    spread = Spread(draft.load, existing)
    return [spread.place(factor) for _ in range(count)]


def _assigned(
    draft: _Draft, wanted: Sequence[Sequence[int]], factor: int | None
) -> list[tuple[int, ...]]:
    """Return the replicas that the request assigns, and count them as load.

    Raise ApiError INVALID_REPLICA_ASSIGNMENT unless the replicas of each partition are `factor`
    different registered brokers, one of them alive. `factor` is None for a new topic.
    """
    draft.check_room(len(wanted))
    cluster = draft.cluster
    factor = len(wanted[0]) if factor is None and wanted else factor
    for replicas in wanted:
        unknown = [each for each in replicas if each not in cluster.image.brokers]
        wrong = None
        if not replicas or len(dict.fromkeys(replicas)) != len(replicas):
            wrong = "a partition has replicas, on different brokers"
        elif unknown:
            wrong = f"brokers {unknown} are not registered"
        elif len(replicas) != factor:
            wrong = f"every partition of the topic has {factor} replicas"
        elif not any(cluster.is_active(each) for each in replicas):
            wrong = "none of these brokers is alive"
        if wrong is not None:
            detail = f"replicas {list(replicas)}: {wrong}"
            raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, detail)
    placed = [tuple(int(each) for each in replicas) for replicas in wanted]
    for replicas in placed:
        draft.load.count.add(replicas)
    return placed


def _partitions(
    cluster: Cluster, topic_id: bytes, placed: Sequence[tuple[int, ...]], first: int = 0
) -> Iterator[r.PartitionRecord]:
    """Yield the records of new partitions; their live replicas are in sync, as logs are empty."""
    for index, replicas in enumerate(placed, first):
        isr = tuple(each for each in replicas if cluster.is_active(each))
        leader = isr[0] if isr else NO_LEADER
        yield r.PartitionRecord(topic_id, index, replicas, isr, leader)


def _described(
    cluster: Cluster, name: str, config: dict[str, str]
) -> Iterator[CreatableTopicConfigs]:
    for row in settings_of(TopicConfig):
        value, source = config.get(row.key), ConfigSource.TOPIC_CONFIG
        if value is None:
            source = ConfigSource.DEFAULT_CONFIG
            value = cluster.topic_setting(name, row.key) or row.format(row.default)
        yield CreatableTopicConfigs(
            name=row.key, value=value, read_only=False, config_source=source, is_sensitive=False
        )


def create_partitions(
    cluster: Cluster, request: CreatePartitionsRequest, allowance: Allowance = UNLIMITED
) -> Decision[CreatePartitionsResponse]:
    """Add partitions to each topic up to its new count."""
    draft = _draft(cluster, UNLIMITED if request.validate_only else allowance)
    results: list[CreatePartitionsTopicResult] = []
    mentions = Counter(topic.name for topic in request.topics)
    for topic in request.topics:
        result = CreatePartitionsTopicResult(name=topic.name)
        try:
            if mentions[topic.name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, f"topic {topic.name!r} is named twice")
            _grow(draft, topic)
        except ApiError as error:
            result.error_code, result.error_message = error.code, error.detail
        results.append(result)
    changes = [] if request.validate_only else draft.records
    throttle_ms = draft.allowance.throttle_ms
    answer = CreatePartitionsResponse(throttle_time_ms=throttle_ms, results=results)
    return Decision(answer, changes)


def _grow(draft: _Draft, wanted: CreatePartitionsTopic) -> None:
    topic = draft.cluster.image.topic(wanted.name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {wanted.name!r}")
    now = len(topic.partitions)
    if wanted.count <= now:
        detail = f"topic {topic.name!r} has {now} partitions, asked for {wanted.count}: it can"
        raise ApiError(ErrorCode.INVALID_PARTITIONS, f"{detail} only grow")
    factor = len(topic.partitions[0].replicas)
    if wanted.assignments is None:
        placed = _chosen(draft, topic.partitions.values(), wanted.count - now, factor)
    elif len(wanted.assignments) != wanted.count - now:
        detail = f"{wanted.count - now} new partitions, {len(wanted.assignments)} assignments"
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, detail)
    else:
        placed = _assigned(draft, [each.broker_ids for each in wanted.assignments], factor)
    draft.allowance.spend(len(placed))
    draft.records.extend(_partitions(draft.cluster, topic.topic_id, placed, now))


def delete_topics(
    cluster: Cluster, request: DeleteTopicsRequest, allowance: Allowance = UNLIMITED
) -> Decision[DeleteTopicsResponse]:
    """Delete each topic by name or id."""
    asked: list[tuple[str | None, bytes]] = [(name, ZERO_UUID) for name in request.topic_names]
    asked.extend((each.name, each.topic_id) for each in request.topics)
    gone: dict[bytes, None] = {}
    results: list[DeletableTopicResult] = []
    for name, topic_id in asked:
        result = DeletableTopicResult(name=name, topic_id=topic_id)
        try:
            topic = _to_delete(cluster, name, topic_id)
            if topic.name in INTERNAL_TOPICS and topic.name != TRACE_TOPIC:
                detail = f"topic {topic.name!r} is internal and cannot be deleted: brokers"
                detail = f"{detail} keep groups, transactions or the audit there"
                raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, detail)
            if topic.topic_id in gone:
                raise ApiError(ErrorCode.INVALID_REQUEST, f"topic {topic.name!r} is named twice")
            allowance.spend(len(topic.partitions))
            gone[topic.topic_id] = None
            result.name, result.topic_id = topic.name, topic.topic_id
        except ApiError as error:
            result.error_code, result.error_message = error.code, error.detail
        results.append(result)
    changes = [r.RemoveTopicRecord(topic_id) for topic_id in gone]
    throttle_ms = allowance.throttle_ms
    return Decision(DeleteTopicsResponse(throttle_time_ms=throttle_ms, responses=results), changes)


def _to_delete(cluster: Cluster, name: str | None, topic_id: bytes) -> Topic:
    if not cluster.defaults.topic_deletion:
        raise ApiError(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false")
    if (name is None) == (topic_id == ZERO_UUID):
        raise ApiError(ErrorCode.INVALID_REQUEST, "name a topic by its name or its id, not both")
    if name is not None:
        if (topic := cluster.image.topic(name)) is None:
            detail = f"there is no topic {name!r}"
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, detail)
        return topic
    if (topic := cluster.image.topics.get(topic_id)) is None:
        detail = f"there is no topic with id {uuid_to_text(topic_id)}"
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, detail)
    return topic
