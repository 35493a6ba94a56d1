"""The operations of the proxy as a table: path, handler, and what the OpenAPI document says of it.

Whatever is not in the table is answered with 404 or 405.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, NamedTuple

from . import v2, v2_consumers, v3, v3_groups, v3_records, v3_topics
from .call import Call
from .schemas import ENUMS, TEXTS

Handler = Callable[[Call], Awaitable[Any]]


class Operation(NamedTuple):
    """One operation; its summary is the docstring of its handler."""

    method: str
    path: str
    handler: Handler
    answer: str
    """The schema of the answer; empty: it has no body."""
    body: str
    """The schema of the request's body; with a question mark it may be missing."""
    status: int
    query: tuple[str, ...]


Row = tuple[str, Handler] | tuple[str, Handler, str] | tuple[str, Handler, str, str]
"""Method and path, handler, answer, body."""
_TOPIC: Final = "/topics/{topic_name}"
_PARTITIONS: Final = _TOPIC + "/partitions"
_PARTITION: Final = _PARTITIONS + "/{partition_id:int}"
_USE: Final = "/consumers/{group_name}/instances/{instance}"
_V2: Final[tuple[Row, ...]] = (
    ("GET /", v2.root, "Anything"),
    ("GET /brokers", v2.brokers, "Brokers"),
    ("GET /topics", v2.topics, "Names"),
    (f"GET {_TOPIC}", v2.topic, "Topic"),
    (f"POST {_TOPIC}", v2.produce, "Offsets", "Records"),
    (f"GET {_PARTITIONS}", v2.partitions, "Partitions"),
    (f"GET {_PARTITION}", v2.partition, "Partition"),
    (f"POST {_PARTITION}", v2.produce, "Offsets", "Records"),
    (f"GET {_PARTITION}/offsets", v2.offsets, "Bounds"),
    ("POST /consumers/{group_name}", v2_consumers.create, "Created", "Instance?"),
    (f"DELETE {_USE}", v2_consumers.delete),
    (f"POST {_USE}/subscription", v2_consumers.subscribe, "", "Subscription"),
    (f"GET {_USE}/subscription", v2_consumers.subscription, "Topics"),
    (f"DELETE {_USE}/subscription", v2_consumers.unsubscribe),
    (f"POST {_USE}/assignments", v2_consumers.assign, "", "Places"),
    (f"GET {_USE}/assignments", v2_consumers.assignments, "Assigned"),
    (f"GET {_USE}/records", v2_consumers.records, "Read"),
    (f"POST {_USE}/offsets", v2_consumers.commit, "Anything", "Commits?"),
    (f"GET {_USE}/offsets", v2_consumers.committed, "Committed", "Places"),
    (f"POST {_USE}/positions", v2_consumers.seek, "", "Commits"),
    (f"POST {_USE}/positions/beginning", v2_consumers.seek_begin, "", "Places"),
    (f"POST {_USE}/positions/end", v2_consumers.seek_end, "", "Places"),
)
_GROUP: Final = "/consumer-groups/{consumer_group_id}"
_ASSIGNED: Final = _GROUP + "/consumers/{consumer_id}/assignments"
_PLACE: Final = "/{topic_name}/partitions/{partition_id:int}"
_BROKER: Final = "/brokers/{broker_id:int}"


def _configs(path: str, whose: v3.Configs) -> Iterable[Row]:
    yield f"GET {path}", whose.all, f"{whose.kind}List"
    yield f"POST {path}:alter", whose.alter, "", "Changes"
    yield f"GET {path}/{{name}}", whose.get, whose.kind
    yield f"PUT {path}/{{name}}", whose.put, "", "Value"
    yield f"DELETE {path}/{{name}}", whose.delete


_V3: Final[tuple[Row, ...]] = (
    ("GET ", v3.cluster, "KafkaCluster"),
    ("GET /acls", v3.acls, "KafkaAclList"),
    ("POST /acls", v3.create_acl, "", "Acl"),
    ("DELETE /acls", v3.delete_acls, "Deleted"),
    ("POST /acls:batch", v3.create_acls, "", "Acls"),
    *_configs("/broker-configs", v3.ALL_BROKERS),
    ("GET /brokers", v3.brokers, "KafkaBrokerList"),
    ("GET /brokers/-/configs", v3.OF_BROKER.every, "KafkaBrokerConfigList"),
    (f"GET {_BROKER}", v3.broker, "KafkaBroker"),
    *_configs(f"{_BROKER}/configs", v3.OF_BROKER),
    (f"GET {_BROKER}/partition-replicas", v3.broker_replicas, "KafkaReplicaList"),
    ("GET /consumer-groups", v3_groups.groups, "KafkaConsumerGroupList"),
    (f"GET {_GROUP}", v3_groups.group, "KafkaConsumerGroup"),
    (f"GET {_GROUP}/consumers", v3_groups.members, "KafkaConsumerList"),
    (f"GET {_GROUP}/consumers/{{consumer_id}}", v3_groups.member, "KafkaConsumer"),
    (f"GET {_ASSIGNED}", v3_groups.assignments, "KafkaConsumerAssignmentList"),
    (f"GET {_ASSIGNED}{_PLACE}", v3_groups.assignment, "KafkaConsumerAssignment"),
    (f"GET {_GROUP}/lags", v3_groups.lags, "KafkaConsumerLagList"),
    (f"GET {_GROUP}/lags{_PLACE}", v3_groups.lag, "KafkaConsumerLag"),
    (f"GET {_GROUP}/lag-summary", v3_groups.lag_summary, "KafkaConsumerGroupLagSummary"),
    ("GET /topics", v3_topics.topics, "KafkaTopicList"),
    ("POST /topics", v3_topics.create_topic, "KafkaTopic", "NewTopic"),
    ("GET /topics/-/configs", v3.OF_TOPIC.every, "KafkaTopicConfigList"),
    (
        "GET /topics/-/partitions/-/reassignment",
        v3_topics.reassignments,
        "KafkaReassignmentList",
    ),
    (f"GET {_TOPIC}", v3_topics.topic, "KafkaTopic"),
    (f"PATCH {_TOPIC}", v3_topics.patch_topic, "KafkaTopic", "Count"),
    (f"DELETE {_TOPIC}", v3_topics.delete_topic),
    *_configs(f"{_TOPIC}/configs", v3.OF_TOPIC),
    (f"GET {_PARTITIONS}", v3_topics.partitions, "KafkaPartitionList"),
    (f"GET {_PARTITIONS}/-/reassignment", v3_topics.reassignments, "KafkaReassignmentList"),
    (f"GET {_PARTITION}", v3_topics.partition, "KafkaPartition"),
    (f"GET {_PARTITION}/offset", v3_topics.offset, "KafkaPartitionOffset"),
    (f"GET {_PARTITION}/reassignment", v3_topics.reassignment, "KafkaReassignment"),
    (f"GET {_PARTITION}/records", v3_records.read_stream, "Stream"),
    (f"GET {_PARTITION}/replicas", v3_topics.replicas, "KafkaReplicaList"),
    (f"GET {_PARTITION}/replicas/{{broker_id:int}}", v3_topics.replica, "KafkaReplica"),
    (f"POST {_TOPIC}/records", v3_records.write_stream, "Written", "Record"),
    (f"POST {_TOPIC}/records:batch", v3_records.write_batch, "Batch", "Entries"),
)
_STATUS: Final[dict[Handler, int]] = {
    v3.create_acl: 201,
    v3.create_acls: 201,
    v3_topics.create_topic: 201,
    v3_records.write_batch: 207,
}
"""The statuses that are not 200, or 204 for an answer without a body."""
_QUERY: Final[dict[Handler, tuple[str, ...]]] = {
    v2_consumers.records: ("timeout", "max_bytes"),
    v3.acls: (*ENUMS, *TEXTS),
    v3.delete_acls: (*ENUMS, *TEXTS),
    v3_topics.offset: ("offset_type",),
    v3_records.read_stream: ("offset", "timestamp", "follow", "limit", "format"),
}
"""The parameters of the query."""
CLUSTER: Final = "/v3/clusters/{cluster_id}"


def _operation(row: Row, base: str = "") -> Operation:
    method, _, path = row[0].partition(" ")
    handler, answer = row[1], row[2] if len(row) > 2 else ""
    status = _STATUS.get(handler, 200 if answer else 204)
    body = row[3] if len(row) > 3 else ""
    return Operation(method, base + path, handler, answer, body, status, _QUERY.get(handler, ()))


OPERATIONS: Final = (
    *(_operation(row) for row in _V2),
    _operation(("GET /v3/clusters", v3.clusters, "KafkaClusterList")),
    *(_operation(row, CLUSTER) for row in _V3),
)
