"""`minikafka configs`: describe and alter the dynamic settings of topics, brokers and others.

Owns flags, Kafka's texts and exit codes; the admin client does the work.
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...protocol.messages.describe_configs import ConfigSource, ResourceType
from ...protocol.messages.incremental_alter_configs import ConfigOperation
from ...runtime.config import shown
from ...runtime.errors import ConfigError, MinikafkaError
from ..admin.config_types import ConfigChange, ConfigEntry, ConfigResource
from .common import FILE, administer, bootstrap_server, command_config, read_properties_file

if TYPE_CHECKING:
    from ..admin.admin import Admin

COMPLAINT = "Error while executing config command"
BY_TYPE = {
    "topics": ResourceType.TOPIC,
    "brokers": ResourceType.BROKER,
    "broker-loggers": ResourceType.BROKER_LOGGER,
    "client-metrics": ResourceType.CLIENT_METRICS,
}
NAMED = {
    "topic": "topics",
    "broker": "brokers",
    "broker_logger": "broker-loggers",
    "client_metrics": "client-metrics",
    "user": "users",
    "client": "clients",
    "ip": "ips",
}
DEFAULTS = {
    "broker_defaults": "brokers",
    "user_defaults": "users",
    "client_defaults": "clients",
    "ip_defaults": "ips",
}
"""The entity type that each flag for the defaults of a type means."""
WITHOUT_DEFAULT = {
    ResourceType.TOPIC: "topics get their defaults from brokers",
    ResourceType.BROKER_LOGGER: "loggers have no defaults of all brokers",
    ResourceType.CLIENT_METRICS: "subscriptions have no default of all",
}
OF_CLIENTS = ("users", "clients", "ips")
"""The entity types that have quotas (`quota_configs`)."""
ELSEWHERE = ("groups",)
TYPES = (*BY_TYPE, *OF_CLIENTS, *ELSEWHERE)
SOURCES = {
    ConfigSource.TOPIC_CONFIG: "DYNAMIC_TOPIC_CONFIG",
    ConfigSource.CLIENT_METRICS_CONFIG: "DYNAMIC_CLIENT_METRICS_CONFIG",
}
"""Kafka's names of setting sources that differ from the names in ConfigSource."""


class ConfigCommandError(MinikafkaError):
    """Raised for a request that Kafka's ConfigCommand would refuse."""


@dataclass(frozen=True, slots=True)
class Change:
    """The settings that the flags add and delete; both are empty if settings are only described."""

    added: Mapping[str, str]
    deleted: Sequence[str]

    def __bool__(self) -> bool:
        return bool(self.added or self.deleted)


@dataclass(frozen=True, slots=True)
class Request:
    """The flags' request about topics, brokers, loggers or client metrics."""

    kind: ResourceType
    name: str | None
    """The entity's name; None means every entity of the type, "" the default."""
    change: Change
    wants_all: bool

    @property
    def resource(self) -> ConfigResource:
        """The single entity that the request names."""
        return ConfigResource(self.kind, self.name or "")


@click.command()
@bootstrap_server
@command_config()
@click.option("--alter", is_flag=True, help="Change settings.")
@click.option("--describe", is_flag=True, help="Print settings.")
@click.option(
    "--all", "wants_all", is_flag=True, help="Print settings that are at their default, too."
)
@click.option(
    "--entity-type",
    type=click.Choice(TYPES),
    multiple=True,
    help="The kind of entity; users and clients can be given together.",
)
@click.option("--entity-name", multiple=True, help="The name or id of the entity.")
@click.option("--entity-default", count=True, help="Take the default of all entities of the kind.")
@click.option("--topic", help="The same as --entity-type topics --entity-name.")
@click.option("--broker", help="The same as --entity-type brokers --entity-name.")
@click.option("--broker-logger", help="The same as --entity-type broker-loggers --entity-name.")
@click.option("--client-metrics", help="The same as --entity-type client-metrics --entity-name.")
@click.option("--user", help="The same as --entity-type users --entity-name.")
@click.option("--client", help="The same as --entity-type clients --entity-name.")
@click.option("--ip", help="The same as --entity-type ips --entity-name.")
@click.option(
    "--broker-defaults", is_flag=True, help="The same as --entity-type brokers --entity-default."
)
@click.option(
    "--user-defaults", is_flag=True, help="The same as --entity-type users --entity-default."
)
@click.option(
    "--client-defaults", is_flag=True, help="The same as --entity-type clients --entity-default."
)
@click.option("--ip-defaults", is_flag=True, help="The same as --entity-type ips --entity-default.")
@click.option("--add-config", metavar="K=V,K=[V,V]", help="Settings to set, as KEY=VALUE,...")
@click.option(
    "--add-config-file", type=FILE, metavar="FILE", help="A properties file of settings to set."
)
@click.option(
    "--delete-config",
    metavar="K,K",
    help="Settings to remove, so that their default applies again.",
)
@click.option("--force", is_flag=True, expose_value=False, hidden=True)
def configs(bootstrap: str, command_config: Path | None, **flags: Any) -> None:
    """Describe or change the settings of topics and brokers that can change while they run.

    Users, clients and IP addresses have quotas as their settings, users also SCRAM passwords.

    \b
    minikafka configs --bootstrap-server localhost:9092 --describe --topic orders
    minikafka configs --bootstrap-server localhost:9092 --alter --topic orders \\
        --add-config flush.policy=group,retention.ms=3600000
    minikafka configs --bootstrap-server localhost:9092 --alter --broker-defaults \\
        --add-config min.insync.replicas=2
    minikafka configs --bootstrap-server localhost:9092 --alter --broker-logger 1 \\
        --add-config minikafka.broker.replication=DEBUG
    minikafka configs --bootstrap-server localhost:9092 --alter --user alice \\
        --add-config 'SCRAM-SHA-256=[password=alice-secret]'
    minikafka configs --bootstrap-server localhost:9092 --alter --user alice --client-defaults \\
        --add-config producer_byte_rate=1048576
    """
    if flags["alter"] == flags["describe"]:
        raise click.UsageError("Command must include exactly one action: --describe, --alter")
    named = _named(flags)
    change = _change(flags, is_named=all(name is not None for _, name in named))
    if any(kind in OF_CLIENTS for kind, _ in named):
        administer(_of_clients(named, change), COMPLAINT, bootstrap, command_config)
        return
    kind, name = _resource(named)
    do = _alter if flags["alter"] else _describe
    request = Request(kind, name, change, flags["wants_all"])

    async def carry_out(admin: "Admin") -> int:
        return await do(admin, request)

    administer(carry_out, COMPLAINT, bootstrap, command_config)


def _of_clients(
    named: Sequence[tuple[str, str | None]], change: Change
) -> Callable[["Admin"], Coroutine[Any, Any, int]]:
    """Return the call that carries out the request for users, clients or addresses."""
    from .quota_configs import Named

    entity = Named(named)
    return entity.altering(change) if change else entity.describe


def _named(flags: Mapping[str, Any]) -> list[tuple[str, str | None]]:
    """Return each entity type that the flags name, with the name that goes with it.

    The name None means all entities of the type, "" the default. Raise UsageError if there are more
    names than types.
    """
    types, names = list(flags["entity_type"]), list[str]()
    for flag in flags:  # They come in the order in which they were typed.
        if flag == "entity_name":
            names.extend(flags[flag])
        elif flag == "entity_default":
            names.extend([""] * flags[flag])
    if len(names) > len(types):
        why = "exclude each other: each --entity-type has one of them"
        raise click.UsageError(f"--entity-name and --entity-default {why}")
    found: list[tuple[str, str | None]] = list(zip_longest(types, names))
    found += [(kind, flags[flag]) for flag, kind in NAMED.items() if flags[flag] is not None]
    found += [(kind, "") for flag, kind in DEFAULTS.items() if flags[flag]]
    return found


def _change(flags: Mapping[str, Any], *, is_named: bool) -> Change:
    """Return the settings to add and delete; raise UsageError for wrong flags."""
    added = split_settings(flags["add_config"] or "")
    if flags["add_config_file"] is not None:
        if flags["add_config"]:
            raise click.UsageError("--add-config and --add-config-file exclude each other")
        added = read_properties_file(flags["add_config_file"])
    deleted = split_names(flags["delete_config"])
    if flags["alter"]:
        if not is_named:
            raise click.UsageError("--alter needs --entity-name, --entity-default or a short form")
        if not added and not deleted:
            raise click.UsageError("--alter needs --add-config, --add-config-file, --delete-config")
        if flags["wants_all"]:
            raise click.UsageError("--all belongs to --describe")
        twice = [key for key in deleted if key in added]
        if twice:
            raise click.UsageError(f"{twice[0]}: cannot be added and deleted at once")
    elif added or deleted:
        raise click.UsageError("--add-config and --delete-config belong to --alter")
    return Change(added, deleted)


def _resource(named: Sequence[tuple[str, str | None]]) -> tuple[ResourceType, str | None]:
    """Return the type and name of the one resource; the name None means all, "" the default.

    Raise UsageError unless exactly one resource is named.
    """
    if len(named) != 1:
        raise click.UsageError(
            "needs exactly one of --entity-type, --topic, --broker, --broker-logger,"
            " --client-metrics, --broker-defaults, or users, clients, ips"
        )
    ((kind, name),) = named
    if kind in ELSEWHERE:
        known = ", ".join((*BY_TYPE, *OF_CLIENTS))
        raise click.UsageError(f"--entity-type {kind}: only {known}")
    if name == "" and BY_TYPE[kind] in WITHOUT_DEFAULT:
        raise click.UsageError(f"--entity-default: {WITHOUT_DEFAULT[BY_TYPE[kind]]}")
    return BY_TYPE[kind], name


def split_names(text: str | None) -> list[str]:
    """Return the parts of `a,b`, stripped, without empty ones."""
    return [key.strip() for key in (text or "").split(",") if key.strip()]


def split_settings(text: str) -> dict[str, str]:
    """Parse `k=v,k2=[a,b]`, in which brackets enclose a value with commas.

    Raise ConfigError if an item is malformed.
    """
    parts, start, depth = list[str](), 0, 0
    for place, character in enumerate(text):
        depth += (character == "[") - (character == "]")
        if character == "," and depth == 0:
            parts.append(text[start:place])
            start = place + 1
    parts.append(text[start:])
    found: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in parts)):
        key, equals, value = part.partition("=")
        if not equals or not key.strip() or depth:
            raise ConfigError("--add-config", shown(text, text), "must look like k=v,k2=[a,b]")
        value = value.strip()
        found[key.strip()] = value[1:-1] if value[:1] + value[-1:] == "[]" else value
    return found


async def _describe(admin: "Admin", request: Request) -> int:
    resources = [request.resource]
    if request.name is None:
        resources = await _all(admin, request.kind)
    found = await admin.describe_configs(resources)
    for resource in resources:
        print(title(resource, wants_all=request.wants_all))
        for entry in sorted(found[resource].values(), key=lambda one: one.name):
            if request.wants_all or is_own(resource, entry):
                print(entry_line(entry))
    return 0


async def _all(admin: "Admin", kind: ResourceType) -> list[ConfigResource]:
    if kind is ResourceType.TOPIC:
        return [ConfigResource.topic(one.name) for one in await admin.list_topics()]
    if kind is ResourceType.CLIENT_METRICS:
        return await admin.list_config_resources([kind])
    brokers = (await admin.describe_cluster()).brokers
    if kind is ResourceType.BROKER_LOGGER:
        return [ConfigResource.broker_logger(one.node_id) for one in brokers]
    return [*(ConfigResource.broker(one.node_id) for one in brokers), ConfigResource.broker(None)]


async def _alter(admin: "Admin", request: Request) -> int:
    is_logger = request.kind is ResourceType.BROKER_LOGGER
    # Loggers cannot be created, so those to be set are also checked to exist.
    known = [*request.change.deleted, *(request.change.added if is_logger else ())]
    if known:
        found = (await admin.describe_configs([request.resource]))[request.resource]
        unset = [
            key for key in known if key not in found or not is_own(request.resource, found[key])
        ]
        if unset:
            noun = "broker logger(s)" if is_logger else "config(s)"
            raise ConfigCommandError(f"Invalid {noun}: {','.join(unset)}")
    changes = [ConfigChange(key, value) for key, value in request.change.added.items()]
    changes += [ConfigChange(key, None, ConfigOperation.DELETE) for key in request.change.deleted]
    await admin.incremental_alter_configs({request.resource: changes})
    print(f"Completed updating {_whose(request.resource, 'config')}.")
    return 0


def is_own(resource: ConfigResource, entry: ConfigEntry) -> bool:
    """True if the value was set for this resource itself, or is a default of all brokers.

    It is always True for a logger, because its level belongs to one broker.
    """
    if resource.type is ResourceType.BROKER_LOGGER:
        return entry.source is ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG
    if resource.type is ResourceType.CLIENT_METRICS:
        return entry.source is ConfigSource.CLIENT_METRICS_CONFIG
    if resource.type is ResourceType.TOPIC:
        return entry.source is ConfigSource.TOPIC_CONFIG
    if resource.name:
        return entry.source is ConfigSource.DYNAMIC_BROKER_CONFIG
    return entry.source is ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG


def title(resource: ConfigResource, *, wants_all: bool) -> str:
    """Return the line above an entity's settings."""
    if resource.name == "":
        return "Default configs for brokers in the cluster are:"
    return f"{'All' if wants_all else 'Dynamic'} {_whose(resource, 'configs')} are:"


def _whose(resource: ConfigResource, noun: str) -> str:
    if resource.name == "":
        return f"default {noun} for brokers in the cluster"
    kind = resource.type.name.lower().replace("_", "-").removesuffix("s")
    return f"{noun} for {kind} {resource.name}"


def entry_line(entry: ConfigEntry) -> str:
    """Return the line of a setting, as Kafka's tool prints it."""
    synonyms = ", ".join(
        f"{SOURCES.get(source, source.name)}:{name}={value or ''}"
        for name, value, source in entry.synonyms
    )
    value = "null" if entry.value is None else entry.value
    sensitive = str(entry.is_sensitive).lower()
    return f"  {entry.name}={value} sensitive={sensitive} synonyms={{{synonyms}}}"
