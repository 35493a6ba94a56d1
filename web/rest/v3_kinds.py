"""The kinds of v3's objects as a table: who one is, what it says, what it relates to. Pure.

Objects and the schemas of the OpenAPI document are made of the same rows.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from urllib.parse import quote

Object = dict[str, Any]
Rows = Mapping[str, str]
TYPES: Final[Mapping[str, Object]] = {
    "text": {"type": "string"},
    "whole": {"type": "integer"},
    "flag": {"type": "boolean"},
    "brokers": {"type": "array", "items": {"type": "integer"}},
    "synonyms": {"type": "array", "items": {"type": "object", "required": ["name", "source"]}},
}
"""The types of fields; one with a question mark may be null, or is left out if it is unknown."""


class Kind(NamedTuple):
    """One kind of object; path and name hold fields of the object in braces."""

    path: str
    """The path below the cluster."""
    name: str
    """The resource name behind that of the cluster."""
    fields: Rows
    related: Rows = MappingProxyType({})
    """By field, a path below the object's own, or below the cluster if it begins with a slash."""


_PARTITION: Final = "topics/{topic_name}/partitions/{partition_id}"
_PARTITION_NAME: Final = "/topic={topic_name}/partition={partition_id}"
_PLACE: Final = {"topic_name": "text", "partition_id": "whole"}
_GROUP: Final = "consumer-groups/{consumer_group_id}"
_GROUP_NAME: Final = "/consumer-group={consumer_group_id}"
_MEMBER: Final = {
    "consumer_group_id": "text",
    "consumer_id": "text",
    "instance_id": "text?",
    "client_id": "text",
}
_CONFIG: Final = {
    "name": "text",
    "value": "text?",
    "is_default": "flag",
    "is_read_only": "flag",
    "is_sensitive": "flag",
    "source": "text",
    "synonyms": "synonyms",
}
_ASSIGNMENT: Final = "{topic_name}/partitions/{partition_id}"
_ENTRY: Final = (
    "resource_type",
    "resource_name",
    "pattern_type",
    "principal",
    "host",
    "operation",
    "permission",
)

KINDS: Final[Mapping[str, Kind]] = {
    "KafkaCluster": Kind(
        "",
        "",
        {},
        {
            "acls": "/acls",
            "brokers": "/brokers",
            "broker_configs": "/broker-configs",
            "consumer_groups": "/consumer-groups",
            "topics": "/topics",
            "partition_reassignments": "/topics/-/partitions/-/reassignment",
            "controller?": "/brokers/{controller_id}",
        },
    ),
    "KafkaBroker": Kind(
        "brokers/{broker_id}",
        "/broker={broker_id}",
        {"broker_id": "whole", "host": "text", "port": "whole", "rack": "text?"},
        {"configs": "configs", "partition_replicas": "partition-replicas"},
    ),
    "KafkaClusterConfig": Kind(
        "broker-configs/{name}", "/broker-config={name}", {"config_type": "text", **_CONFIG}
    ),
    "KafkaBrokerConfig": Kind(
        "brokers/{broker_id}/configs/{name}",
        "/broker={broker_id}/config={name}",
        {"broker_id": "whole", **_CONFIG},
    ),
    "KafkaTopicConfig": Kind(
        "topics/{topic_name}/configs/{name}",
        "/topic={topic_name}/config={name}",
        {"topic_name": "text", **_CONFIG},
    ),
    "KafkaAcl": Kind(
        "acls?" + "&".join(f"{name}={{{name}}}" for name in _ENTRY),
        "",
        dict.fromkeys(_ENTRY, "text"),
    ),
    "KafkaTopic": Kind(
        "topics/{topic_name}",
        "/topic={topic_name}",
        {
            "topic_name": "text",
            "is_internal": "flag",
            "replication_factor": "whole",
            "partitions_count": "whole",
        },
        {
            "partitions": "partitions",
            "configs": "configs",
            "partition_reassignments": "partitions/-/reassignment",
        },
    ),
    "KafkaPartition": Kind(
        _PARTITION,
        _PARTITION_NAME,
        _PLACE,
        {"leader?": "replicas/{leader_id}", "replicas": "replicas", "reassignment": "reassignment"},
    ),
    "KafkaPartitionOffset": Kind(
        _PARTITION + "/offset",
        _PARTITION_NAME + "/offset_type={offset_type}",
        {**_PLACE, "earliest_offset": "whole?", "latest_offset": "whole?"},
    ),
    "KafkaReplica": Kind(
        _PARTITION + "/replicas/{broker_id}",
        _PARTITION_NAME + "/replica={broker_id}",
        {**_PLACE, "broker_id": "whole", "is_leader": "flag", "is_in_sync": "flag"},
        {"broker": "/brokers/{broker_id}"},
    ),
    "KafkaReassignment": Kind(
        _PARTITION + "/reassignment",
        _PARTITION_NAME + "/reassignment",
        {**_PLACE, "adding_replicas": "brokers", "removing_replicas": "brokers"},
        {"replicas": f"/{_PARTITION}/replicas"},
    ),
    "KafkaConsumerGroup": Kind(
        _GROUP,
        _GROUP_NAME,
        {
            "consumer_group_id": "text",
            "is_simple": "flag",
            "partition_assignor": "text",
            "state": "text",
        },
        {
            "coordinator": "/brokers/{coordinator_id}",
            "consumers": "consumers",
            "lag_summary": "lag-summary",
        },
    ),
    "KafkaConsumer": Kind(
        _GROUP + "/consumers/{consumer_id}",
        _GROUP_NAME + "/consumer={consumer_id}",
        _MEMBER,
        {"assignments": "assignments"},
    ),
    "KafkaConsumerAssignment": Kind(
        _GROUP + "/consumers/{consumer_id}/assignments/" + _ASSIGNMENT,
        _GROUP_NAME + "/consumer={consumer_id}/assignment={topic_name}/partition={partition_id}",
        {"consumer_group_id": "text", "consumer_id": "text", **_PLACE},
        {"partition": f"/{_PARTITION}", "lag": f"/{_GROUP}/lags/{_ASSIGNMENT}"},
    ),
    "KafkaConsumerLag": Kind(
        _GROUP + "/lags/" + _ASSIGNMENT,
        _GROUP_NAME + "/lag={topic_name}/partition={partition_id}",
        {**_MEMBER, **_PLACE, "current_offset": "whole", "log_end_offset": "whole", "lag": "whole"},
    ),
    "KafkaConsumerGroupLagSummary": Kind(
        _GROUP + "/lag-summary",
        _GROUP_NAME + "/lag-summary",
        {
            "consumer_group_id": "text",
            "max_lag_consumer_id": "text",
            "max_lag_instance_id": "text?",
            "max_lag_client_id": "text",
            "max_lag_topic_name": "text",
            "max_lag_partition_id": "whole",
            "max_lag": "whole",
            "total_lag": "whole",
        },
        {
            "max_lag_consumer": f"/{_GROUP}/consumers/{{max_lag_consumer_id}}",
            "max_lag_partition": "/topics/{max_lag_topic_name}/partitions/{max_lag_partition_id}",
        },
    ),
}
ALONE: Final = ("KafkaPartitionOffset", "KafkaConsumerGroupLagSummary")
"""The kinds that are in no list."""


@dataclass(frozen=True, slots=True)
class Site:
    """The URL of the proxy, and a cluster; it makes the objects that are there."""

    base: str
    cluster_id: str
    root: str = field(init=False)

    def __post_init__(self) -> None:
        root = f"{self.base}/v3/clusters/{quote(self.cluster_id, safe='')}"
        object.__setattr__(self, "root", root)

    def make(self, kind: str, **given: Any) -> Object:
        """Make an object; `given` holds its fields, and what its path and relations name.

        A relation or a field with a question mark is left out if what it needs is not given.
        """
        row = KINDS[kind]
        quoted = {name: quote(str(value), safe="") for name, value in given.items()}
        own = "/".join(part for part in (self.root, row.path.format_map(quoted)) if part)
        name = f"crn:///kafka={self.cluster_id}{row.name.format_map(given)}" if row.name else None
        found: Object = {
            "kind": "KafkaPartition" if kind == "KafkaPartitionOffset" else kind,
            "metadata": {"self": own, "resource_name": name},
            "cluster_id": self.cluster_id,
        }
        if kind == "KafkaCluster":
            found["metadata"]["resource_name"] = f"crn:///kafka={self.cluster_id}"
        for each, kind_of_field in row.fields.items():
            if each in given or not kind_of_field.endswith("?"):
                found[each] = given[each]
        for each, path in row.related.items():
            try:
                target = path.format_map(quoted)
            except KeyError:
                continue
            base = self.root + target if target.startswith("/") else f"{own}/{target}"
            found[each.rstrip("?")] = {"related": base}
        return found

    def listed(self, kind: str, path: str, data: Iterable[Object]) -> Object:
        """Return a list of objects of one kind, at a path below the cluster."""
        own = f"{self.root}/{path}" if path else f"{self.base}/v3/clusters"
        return {
            "kind": f"{kind}List",
            "metadata": {"self": own, "next": None},
            "data": list(data),
        }


def schemas() -> Object:
    """Return the OpenAPI schemas of all kinds, and of their lists."""
    found: Object = {}
    head = {"kind": TYPES["text"], "metadata": {"type": "object", "required": ["self"]}}
    relation = {
        "type": "object",
        "required": ["related"],
        "properties": {"related": TYPES["text"]},
    }
    for kind, row in KINDS.items():
        fields = {name: _schema(kind_of_field) for name, kind_of_field in row.fields.items()}
        related = {name.rstrip("?"): relation for name in row.related}
        needed = [name for name, kind_of_field in row.fields.items() if kind_of_field[-1] != "?"]
        needed += [name for name in row.related if name[-1] != "?"]
        found[kind] = {
            "type": "object",
            "required": [*head, "cluster_id", *needed],
            "properties": {**head, "cluster_id": TYPES["text"], **fields, **related},
        }
        if kind in ALONE:
            continue
        items = {"$ref": f"#/components/schemas/{kind}"}
        found[f"{kind}List"] = {
            "type": "object",
            "required": [*head, "data"],
            "properties": {**head, "data": {"type": "array", "items": items}},
        }
    return found


def _schema(kind_of_field: str) -> Object:
    one = TYPES[kind_of_field.rstrip("?")]
    return {**one, "type": [one["type"], "null"]} if kind_of_field[-1] == "?" else one
