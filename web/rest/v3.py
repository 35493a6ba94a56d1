"""The v3 API of a cluster, its brokers, settings and access control entries.

A handler returns an object, or None where the answer has no body.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ...client.admin.acl_types import Acl, AclFilter
from ...client.admin.cluster_types import BrokerDescription, ClusterDescription
from ...client.admin.config_types import ConfigChange, ConfigEntry, ConfigResource
from ...protocol.acls import ANY
from ...protocol.messages.describe_configs import ConfigSource, ResourceType
from ...protocol.messages.incremental_alter_configs import ConfigOperation
from .call import Call
from .errors import BAD_REQUEST, NOT_FOUND, RestError
from .schemas import ENUMS, TEXTS
from .v3_kinds import Object

# -- clusters and brokers


async def clusters(call: Call) -> Object:
    """List the clusters: the one that the proxy serves."""
    return call.site.listed("KafkaCluster", "", [await cluster(call)])


async def cluster(call: Call) -> Object:
    """Describe the cluster."""
    controller = (await _seen(call)).controller_id
    return call.site.make(
        "KafkaCluster", **({"controller_id": controller} if controller >= 0 else {})
    )


async def brokers(call: Call) -> Object:
    """List the brokers."""
    data = [_broker(call, one) for one in (await _seen(call)).brokers]
    return call.site.listed("KafkaBroker", "brokers", data)


async def broker(call: Call) -> Object:
    """Describe a broker."""
    return _broker(call, await _one_broker(call))


async def broker_replicas(call: Call) -> Object:
    """List the replicas of a broker."""
    node_id = (await _one_broker(call)).node_id
    data = [
        call.site.make(
            "KafkaReplica",
            topic_name=topic.name,
            partition_id=one.partition,
            broker_id=node_id,
            is_leader=one.leader_id == node_id,
            is_in_sync=node_id in one.isr,
        )
        for topic in (await (await call.admin()).describe_topics()).values()
        for one in topic.partitions
        if node_id in one.replicas
    ]
    return call.site.listed("KafkaReplica", f"brokers/{node_id}/partition-replicas", data)


async def _seen(call: Call) -> ClusterDescription:
    seen = await (await call.admin()).describe_cluster()
    return seen._replace(brokers=tuple(one for one in seen.brokers if not one.is_fenced))


async def _one_broker(call: Call) -> BrokerDescription:
    for one in (await _seen(call)).brokers:
        if one.node_id == call.path["broker_id"]:
            return one
    raise RestError(NOT_FOUND, f"Broker {call.path['broker_id']} cannot be found.")


def _broker(call: Call, one: BrokerDescription) -> Object:
    return call.site.make(
        "KafkaBroker", broker_id=one.node_id, host=one.host, port=one.port, rack=one.rack
    )


# -- settings: of all brokers, a broker, a topic


@dataclass(frozen=True, slots=True)
class Configs:
    """The settings of the path's topic, of its broker, or of all brokers."""

    kind: str
    path: str
    """The path of the list below the cluster."""
    type: ResourceType
    owner: str = ""
    """The name in the path that says whose they are; empty for all brokers."""

    def _resource(self, call: Call) -> ConfigResource:
        return ConfigResource(self.type, str(call.path.get(self.owner, "")))

    async def _entries(self, call: Call) -> Mapping[str, ConfigEntry]:
        if self.owner == "broker_id":
            await _one_broker(call)
        resource = self._resource(call)
        return (await (await call.admin()).describe_configs([resource]))[resource]

    async def all(self, call: Call) -> Object:
        """List settings."""
        whose = self._resource(call).name
        data = [self._object(call, whose, one) for one in (await self._entries(call)).values()]
        return call.site.listed(self.kind, self.path.format_map(call.path), data)

    async def get(self, call: Call) -> Object:
        """Tell one setting."""
        found = (await self._entries(call)).get(call.path["name"])
        if found is None:
            raise RestError(NOT_FOUND, f"Config {call.path['name'][:100]} cannot be found.")
        return self._object(call, self._resource(call).name, found)

    async def put(self, call: Call) -> None:
        """Change one setting."""
        value = (await call.json("Value")).get("value")
        operation = ConfigOperation.DELETE if value is None else ConfigOperation.SET
        await self._alter(call, [ConfigChange(call.path["name"], value, operation)])

    async def delete(self, call: Call) -> None:
        """Return one setting to its default."""
        await self._alter(call, [ConfigChange(call.path["name"], None, ConfigOperation.DELETE)])

    async def alter(self, call: Call) -> None:
        """Change several settings at once, or only check the changes."""
        body = await call.json("Changes")
        changes = [_change(one) for one in body["data"]]
        await self._alter(call, changes, checks=body.get("validate_only", False))

    async def every(self, call: Call) -> Object:
        """List settings of all topics, or those of all brokers that were changed at run time."""
        admin, is_topic = await call.admin(), self.type is ResourceType.TOPIC
        if is_topic:
            names = [one.name for one in await admin.list_topics(include_internal=True)]
        else:
            names = [str(one.node_id) for one in (await _seen(call)).brokers]
        described = await admin.describe_configs([ConfigResource(self.type, one) for one in names])
        data = [
            self._object(call, resource.name, one)
            for resource, entries in described.items()
            for one in entries.values()
            if is_topic or one.source.name.startswith("DYNAMIC")
        ]
        return call.site.listed(self.kind, self.path.format_map({self.owner: "-"}), data)

    async def _alter(
        self, call: Call, changes: list[ConfigChange], *, checks: bool = False
    ) -> None:
        if self.owner == "broker_id":
            await _one_broker(call)
        admin = await call.admin()
        await admin.incremental_alter_configs({self._resource(call): changes}, validate_only=checks)

    def _object(self, call: Call, whose: str, one: ConfigEntry) -> Object:
        owner: Object = {self.owner: int(whose) if self.owner == "broker_id" else whose}
        return call.site.make(
            self.kind,
            **(owner if self.owner else {"config_type": "BROKER"}),
            name=one.name,
            value=one.value,
            is_default=one.is_default,
            is_read_only=one.is_read_only,
            is_sensitive=one.is_sensitive,
            source=_source(one.source),
            synonyms=[
                {"name": name, "value": value, "source": _source(source)}
                for name, value, source in one.synonyms
            ],
        )


ALL_BROKERS: Final = Configs("KafkaClusterConfig", "broker-configs", ResourceType.BROKER)
OF_BROKER: Final = Configs(
    "KafkaBrokerConfig", "brokers/{broker_id}/configs", ResourceType.BROKER, "broker_id"
)
OF_TOPIC: Final = Configs(
    "KafkaTopicConfig", "topics/{topic_name}/configs", ResourceType.TOPIC, "topic_name"
)


def _source(source: ConfigSource) -> str:
    return "DYNAMIC_TOPIC_CONFIG" if source is ConfigSource.TOPIC_CONFIG else source.name


def _change(given: Object) -> ConfigChange:
    value, operation = given.get("value"), given.get("operation") or "SET"
    if (operation == "SET") != (value is not None):
        must = "must" if value is None else "must not"
        raise RestError(BAD_REQUEST, f"{given['name'][:100]}: value {must} be there: {operation}")
    return ConfigChange(given["name"], value, ConfigOperation[operation])


# -- access control entries


def _filter(call: Call, *, needed: bool) -> AclFilter:
    query = call.request.query_params
    codes: Any = {}
    for name, names in ENUMS.items():
        if needed and name not in query:
            raise RestError(BAD_REQUEST, f"{name} must be given: which entries are to go?")
        text = call.choice(name, ["ANY", *names.__members__], "ANY")
        codes[name] = ANY if text == "ANY" else int(names[text])
    texts: Any = {name: query.get(name) for name in TEXTS}
    return AclFilter(**codes, **texts)


def _acl(call: Call, one: Acl) -> Object:
    texts = {name: getattr(one, name) for name in TEXTS}
    return call.site.make(
        "KafkaAcl",
        **{name: names(getattr(one, name)).name for name, names in ENUMS.items()},
        **texts,
    )


async def acls(call: Call) -> Object:
    """Search access control entries."""
    found = await (await call.admin()).describe_acls(_filter(call, needed=False))
    return call.site.listed("KafkaAcl", "acls", [_acl(call, one) for one in found])


async def delete_acls(call: Call) -> Object:
    """Delete the access control entries that a search finds."""
    deleted = await (await call.admin()).delete_acls([_filter(call, needed=True)])
    return {"data": [_acl(call, one) for one in deleted]}


async def create_acl(call: Call) -> None:
    """Create an access control entry."""
    entry = _entry(await call.json("Acl"))
    await (await call.admin()).create_acls([entry])


async def create_acls(call: Call) -> None:
    """Create several access control entries."""
    entries = [_entry(one) for one in (await call.json("Acls"))["data"]]
    await (await call.admin()).create_acls(entries)


def _entry(given: Object) -> Acl:
    codes = {name: int(names[given[name]]) for name, names in ENUMS.items()}
    return Acl(**{**given, **codes})
