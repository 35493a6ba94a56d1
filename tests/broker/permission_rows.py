"""What each API asks of a client: the table of the tests, written from Kafka's documentation.

A row has a request in plain values, all that it needs, and what is enough instead. The names are
those in the requests: the topic `flights`, the group `g`, the transactional id `x`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from minikafka.protocol.acls import CLUSTER_NAME, Acl, Operation, Pattern, Permission, Resource
from minikafka.protocol.api import ApiKey
from minikafka.protocol.codec import request_class
from minikafka.protocol.messages.describe_configs import ResourceType
from minikafka.protocol.schema import UNSET, Element, shape_of

from .edge_support import TOPIC, TOPIC_ID

Op = Operation
T, G, C, X = Resource.TOPIC, Resource.GROUP, Resource.CLUSTER, Resource.TRANSACTIONAL_ID
U = Resource.USER
NAMES = {T: TOPIC, G: "g", C: CLUSTER_NAME, X: "x", U: "User:other"}
IMPLIED = {
    Op.DESCRIBE: (Op.READ, Op.WRITE, Op.DELETE, Op.ALTER),
    Op.DESCRIBE_CONFIGS: (Op.ALTER_CONFIGS,),
}
"""By operation those that include it."""
Right = tuple[Operation, Resource]
Plain = Mapping[str, Any]


@dataclass(frozen=True)
class Row:
    """What the API needs of a client for this request, and what is enough as well."""

    plain: Plain | Callable[[int], Plain]
    needs: Sequence[Right] = ()
    instead: Sequence[Sequence[Right]] = ()
    """Each is a list of rights that are enough."""

    @property
    def stand_ins(self) -> Sequence[Right]:
        """Every right that can take the place of a needed one."""
        return [each for enough in self.instead for each in enough if each not in self.needs]

    def request(self, api_key: ApiKey, version: int) -> Any:
        plain = self.plain(version) if callable(self.plain) else self.plain
        return filled(request_class(api_key), plain)


def filled(cls: type, plain: Plain) -> Any:
    """Make a message of plain values; what is missing and has no default is zero."""
    values: dict[str, object] = {}
    for field in shape_of(cls).fields:
        if field.name in plain:
            values[field.name] = _value(field.element, plain[field.name])
        elif field.default is UNSET:
            values[field.name] = _value(field.element, None)
    return cls(**values)


def _value(element: Element, plain: Any) -> object:
    if element.items is not None:
        return [_value(element.items, each) for each in plain or ()]
    if element.struct is not None:
        return filled(element.struct, plain or {})
    assert element.wire is not None
    zeros = {"string": "", "bytes": b"", "uuid": bytes(16), "records": b"", "bool": False}
    return zeros.get(element.wire.name, 0) if plain is None else plain


def spoken(api_key: ApiKey) -> range:
    """Return the versions in which a broker serves the API."""
    versions = shape_of(request_class(api_key)).versions
    return range(versions.first, versions.last + 1)


def right(operation: Operation, resource: Resource, who: str = "User:ANONYMOUS") -> Acl:
    """Return the entry that gives exactly this right."""
    name = NAMES[resource]
    return Acl(resource, name, Pattern.LITERAL, who, "*", operation, Permission.ALLOW)


def all_but(*missing: Right) -> Sequence[Acl]:
    """Return an entry for each right there is, except these and those that include them."""
    taken = {
        (operation, resource)
        for needed, resource in missing
        for operation in (needed, *IMPLIED.get(needed, ()))
    }
    every = ((operation, resource) for resource in NAMES for operation in Op if operation > Op.ALL)
    return [right(*each) for each in every if each not in taken]


ONE_TOPIC = {"topics": [{"name": TOPIC, "partitions": [{"partition_index": 0}]}]}
INDEXES = {"topics": [{"name": TOPIC, "partition_indexes": [0]}]}
NAMED_TOPIC = {"topics": [{"name": TOPIC}]}
CLUSTER = {"resources": [{"resource_type": int(ResourceType.BROKER), "resource_name": "1"}]}
FORWARDS = {"configs": [{"name": "minikafka.delay.target", "value": TOPIC}]}
ROUTED = f'[{{"else": true, "to": ["{TOPIC}"]}}]'
ROUTES = {"configs": [{"name": "minikafka.route.rules", "value": ROUTED}]}
OF_TOPIC = {"resources": [{"resource_type": int(ResourceType.TOPIC), "resource_name": TOPIC}]}
LOGGER = {"resources": [{"resource_type": int(ResourceType.BROKER_LOGGER), "resource_name": "1"}]}


def altered(settings: Plain) -> Plain:
    """Return a request that alters settings of the topic."""
    kind = int(ResourceType.TOPIC)
    return {"resources": [{"resource_type": kind, "resource_name": TOPIC, **settings}]}


def _committed(version: int) -> Plain:
    named = {"topic_id": TOPIC_ID} if version >= 10 else {"name": TOPIC}
    return {"group_id": "g", "topics": [{**named, "partitions": [{"partition_index": 0}]}]}


def _fetched(version: int) -> Plain:
    named = {"topic_id": TOPIC_ID} if version >= 10 else {"name": TOPIC}
    group = {"group_id": "g", "topics": [{**named, "partition_indexes": [0]}]}
    return group if version < 8 else {"groups": [group]}


def _deleted(version: int) -> Plain:
    return {"topics": [{"topic_id": TOPIC_ID}]} if version >= 6 else {"topic_names": [TOPIC]}


def _coordinator(kind: int, key: str) -> Callable[[int], Plain]:
    def plain(version: int) -> Plain:
        keys = {"coordinator_keys": [key]} if version >= 4 else {"key": key}
        return keys | ({"key_type": kind} if version >= 1 else {})

    return plain


def _added(version: int) -> Plain:
    topics = [{"name": TOPIC, "partitions": [0]}]
    if version >= 4:
        return {"transactions": [{"transactional_id": "x", "topics": topics}]}
    return {"v3_and_below_transactional_id": "x", "v3_and_below_topics": topics}


GROUP = {"group_id": "g"}
ROWS: Sequence[tuple[ApiKey, Row]] = (
    (ApiKey.LIST_OFFSETS, Row(ONE_TOPIC, [(Op.DESCRIBE, T)], [[(Op.READ, T)]])),
    (
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        Row(
            {"topics": [{"topic": TOPIC, "partitions": [{"partition": 0}]}]},
            [(Op.DESCRIBE, T)],
            [[(Op.CLUSTER_ACTION, C)]],
        ),
    ),
    (
        ApiKey.CREATE_TOPICS,
        Row(
            NAMED_TOPIC,
            [(Op.CREATE, T), (Op.DESCRIBE_CONFIGS, T)],
            [[(Op.CREATE, C), (Op.DESCRIBE_CONFIGS, T)]],
        ),
    ),
    (ApiKey.DELETE_TOPICS, Row(_deleted, [(Op.DELETE, T)], [[(Op.DELETE, C)]])),
    (ApiKey.DELETE_RECORDS, Row(ONE_TOPIC, [(Op.DELETE, T)])),
    (ApiKey.CREATE_PARTITIONS, Row(NAMED_TOPIC, [(Op.ALTER, T)])),
    (ApiKey.DESCRIBE_PRODUCERS, Row(INDEXES, [(Op.READ, T)])),
    (ApiKey.DESCRIBE_REPLICAS, Row(INDEXES, [(Op.DESCRIBE, T)])),
    (ApiKey.DESCRIBE_LAG, Row(ONE_TOPIC, [(Op.DESCRIBE, T)])),
    (ApiKey.LIST_DELAYED, Row(ONE_TOPIC, [(Op.READ, T)])),
    (ApiKey.ALTER_DELAYED, Row(ONE_TOPIC, [(Op.DELETE, T)])),
    (ApiKey.DESCRIBE_FORWARDING, Row(INDEXES, [(Op.DESCRIBE, T)])),
    (ApiKey.REFIRE_FORWARDED, Row({"topic": TOPIC}, [(Op.DELETE, T)])),
    (ApiKey.FIND_COORDINATOR, Row(_coordinator(0, "g"), [(Op.DESCRIBE, G)], [[(Op.READ, G)]])),
    (ApiKey.JOIN_GROUP, Row(GROUP, [(Op.READ, G)])),
    (ApiKey.SYNC_GROUP, Row(GROUP, [(Op.READ, G)])),
    (ApiKey.HEARTBEAT, Row(GROUP, [(Op.READ, G)])),
    (ApiKey.LEAVE_GROUP, Row(GROUP, [(Op.READ, G)])),
    (ApiKey.OFFSET_COMMIT, Row(_committed, [(Op.READ, G), (Op.READ, T)])),
    (ApiKey.OFFSET_FETCH, Row(_fetched, [(Op.DESCRIBE, G), (Op.DESCRIBE, T)])),
    (ApiKey.OFFSET_DELETE, Row({**GROUP, **ONE_TOPIC}, [(Op.DELETE, G), (Op.READ, T)])),
    (ApiKey.DESCRIBE_GROUPS, Row({"groups": ["g"]}, [(Op.DESCRIBE, G)])),
    (ApiKey.DELETE_GROUPS, Row({"groups_names": ["g"]}, [(Op.DELETE, G)])),
    (
        ApiKey.INIT_PRODUCER_ID,
        Row({}, [(Op.IDEMPOTENT_WRITE, C)], [[(Op.WRITE, T)]]),
    ),
    (ApiKey.INIT_PRODUCER_ID, Row({"transactional_id": "x"}, [(Op.WRITE, X)])),
    (
        ApiKey.ADD_OFFSETS_TO_TXN,
        Row({"transactional_id": "x", **GROUP}, [(Op.WRITE, X), (Op.READ, G)]),
    ),
    (
        ApiKey.TXN_OFFSET_COMMIT,
        Row(
            {"transactional_id": "x", **GROUP, **ONE_TOPIC},
            [(Op.WRITE, X), (Op.READ, G), (Op.READ, T)],
        ),
    ),
    (ApiKey.END_TXN, Row({"transactional_id": "x"}, [(Op.WRITE, X)])),
    (
        ApiKey.WRITE_TXN_MARKERS,
        Row({"markers": [INDEXES]}, [(Op.CLUSTER_ACTION, C)], [[(Op.ALTER, C)]]),
    ),
    (ApiKey.AUDIT_EVENTS, Row({"events": []}, [(Op.CLUSTER_ACTION, C)])),
    (
        ApiKey.WRITE_TRACE,
        Row(
            {"batches": [{"partition_index": 0, "records": b""}]},
            [(Op.CLUSTER_ACTION, C)],
        ),
    ),
    (
        ApiKey.FORWARD_RECORDS,
        Row(
            {
                "batches": [
                    {
                        "topic_id": bytes(16),
                        "partition_index": 0,
                        "producer_id": 1,
                        "base_sequence": 0,
                    }
                ]
            },
            [(Op.CLUSTER_ACTION, C)],
        ),
    ),
    (ApiKey.DESCRIBE_TRANSACTIONS, Row({"transactional_ids": ["x"]}, [(Op.DESCRIBE, X)])),
    (ApiKey.INIT_COMMIT_GROUP, Row({"group": "x"}, [(Op.WRITE, X)])),
    (
        ApiKey.COMMIT_GROUP,
        Row({"group": "x", "transactions": [{"transactional_id": "x"}]}, [(Op.WRITE, X)]),
    ),
    (ApiKey.COMMIT_GROUP, Row({"group": "x"}, [(Op.WRITE, X)])),
    (ApiKey.DESCRIBE_CONFIGS, Row(OF_TOPIC, [(Op.DESCRIBE_CONFIGS, T)])),
    (ApiKey.DESCRIBE_CONFIGS, Row(CLUSTER, [(Op.DESCRIBE_CONFIGS, C)])),
    (ApiKey.ALTER_CONFIGS, Row(OF_TOPIC, [(Op.ALTER_CONFIGS, T)])),
    (ApiKey.ALTER_CONFIGS, Row(altered(FORWARDS), [(Op.ALTER_CONFIGS, T), (Op.WRITE, T)])),
    (ApiKey.ALTER_CONFIGS, Row(altered(ROUTES), [(Op.ALTER_CONFIGS, T), (Op.WRITE, T)])),
    (
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        Row(altered(FORWARDS), [(Op.ALTER_CONFIGS, T), (Op.WRITE, T)]),
    ),
    (ApiKey.ALTER_CONFIGS, Row(CLUSTER, [(Op.ALTER_CONFIGS, C)])),
    (ApiKey.INCREMENTAL_ALTER_CONFIGS, Row(OF_TOPIC, [(Op.ALTER_CONFIGS, T)])),
    (ApiKey.INCREMENTAL_ALTER_CONFIGS, Row(CLUSTER, [(Op.ALTER_CONFIGS, C)])),
    (ApiKey.INCREMENTAL_ALTER_CONFIGS, Row(LOGGER, [(Op.CLUSTER_ACTION, C)])),
    (ApiKey.LIST_CONFIG_RESOURCES, Row({}, [(Op.DESCRIBE_CONFIGS, C)])),
    (ApiKey.DESCRIBE_LOG_DIRS, Row({}, [(Op.DESCRIBE, C)])),
    (
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        Row(
            {"dirs": [{"path": "/d", "topics": [{"name": TOPIC, "partitions": [0]}]}]},
            [(Op.ALTER, C)],
        ),
    ),
    (
        ApiKey.ELECT_LEADERS,
        Row({"topic_partitions": [{"topic": TOPIC, "partitions": [0]}]}, [(Op.ALTER, C)]),
    ),
    (ApiKey.ALTER_PARTITION_REASSIGNMENTS, Row(ONE_TOPIC, [(Op.ALTER, C)])),
    (ApiKey.LIST_PARTITION_REASSIGNMENTS, Row({}, [(Op.DESCRIBE, C)])),
    (ApiKey.DESCRIBE_QUORUM, Row({}, [(Op.DESCRIBE, C)])),
    (ApiKey.UPDATE_FEATURES, Row({"feature_updates": [{"feature": "f"}]}, [(Op.ALTER, C)])),
    (ApiKey.UNREGISTER_BROKER, Row({}, [(Op.ALTER, C)])),
    (ApiKey.DESCRIBE_ACLS, Row({}, [(Op.DESCRIBE, C)])),
    (ApiKey.CREATE_ACLS, Row({"creations": [{}]}, [(Op.ALTER, C)])),
    (ApiKey.DELETE_ACLS, Row({"filters": [{}]}, [(Op.ALTER, C)])),
    (ApiKey.DESCRIBE_CLIENT_QUOTAS, Row({}, [(Op.DESCRIBE_CONFIGS, C)])),
    (
        ApiKey.ALTER_CLIENT_QUOTAS,
        Row(
            {"entries": [{"entity": [{"entity_type": "user", "entity_name": "a"}]}]},
            [(Op.ALTER_CONFIGS, C)],
        ),
    ),
    (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, Row({}, [(Op.DESCRIBE, C)])),
    (
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        Row({"deletions": [{"name": "a"}], "upsertions": [{"name": "b"}]}, [(Op.ALTER, C)]),
    ),
)
BY_VERSION: Sequence[tuple[ApiKey, range, Row]] = (
    (
        ApiKey.FIND_COORDINATOR,
        range(1, 7),
        Row(_coordinator(1, "x"), [(Op.DESCRIBE, X)], [[(Op.WRITE, X)]]),
    ),
    (ApiKey.ADD_PARTITIONS_TO_TXN, range(4), Row(_added, [(Op.WRITE, X), (Op.WRITE, T)])),
    (ApiKey.ADD_PARTITIONS_TO_TXN, range(4, 6), Row(_added, [(Op.CLUSTER_ACTION, C)])),
    (
        ApiKey.CREATE_DELEGATION_TOKEN,
        range(3, 4),
        Row(
            {"owner_principal_type": "User", "owner_principal_name": "other"},
            [(Op.CREATE_TOKENS, U)],
        ),
    ),
)
"""Rows that do not hold for all versions."""
FILTERED = (
    ApiKey.LIST_GROUPS,
    ApiKey.LIST_TRANSACTIONS,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
)
"""The APIs that leave out what a client may not see, and never refuse."""
INSIDE = (
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.METADATA,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
)
"""The APIs whose handlers check the requests themselves."""
OPEN = (
    ApiKey.API_VERSIONS,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
    ApiKey.PUSH_TELEMETRY,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
)
"""The APIs that need nothing."""
OPEN_BY_VERSION = {ApiKey.CREATE_DELEGATION_TOKEN: range(1, 3)}
"""Before version 3 a token can be for its requester only."""
