"""Describes and changes the settings of topics, brokers, loggers and clients' metrics.

Requests for a broker's own settings or its loggers are sent to that broker.
"""

from collections.abc import Iterable, Mapping, Sequence

from ...protocol.errors import ApiError
from ...protocol.messages import alter_configs as ac
from ...protocol.messages import incremental_alter_configs as iac
from ...protocol.messages.describe_configs import (
    ConfigSource,
    ConfigType,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    ResourceType,
)
from ...protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from ..net.connection import KafkaConnection
from ..outcomes import Outcomes, done_of, error_of, raise_for
from .asking import Asking
from .config_types import ConfigChange, ConfigEntry, ConfigResource


async def describe_configs(
    asking: Asking, resources: Iterable[ConfigResource], *, keys: Sequence[str] | None = None
) -> dict[ConfigResource, dict[str, ConfigEntry]]:
    """Return the settings of each resource, or of these only the ones named in `keys`.

    Raise AdminError with the resources that are refused.
    """
    described: dict[ConfigResource, dict[str, ConfigEntry] | ApiError] = {}
    local = (ResourceType.BROKER, ResourceType.BROKER_LOGGER)
    for node_id, part in _by_broker(resources, *local).items():
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=resource.type,
                    resource_name=resource.name,
                    configuration_keys=None if keys is None else list(keys),
                )
                for resource in part
            ],
            include_synonyms=True,
            include_documentation=True,
        )
        response: DescribeConfigsResponse = await asking.one_broker(
            lambda connection, request=request: connection.request(request),  # type: ignore[misc]
            node_id,
        )
        for result in response.results:
            resource = ConfigResource(ResourceType(result.resource_type), result.resource_name)
            described[resource] = error_of(result.error_code, result.error_message) or {
                entry.name: _entry(entry) for entry in result.configs
            }
    return done_of(described)


async def incremental_alter_configs(
    asking: Asking,
    changes: Mapping[ConfigResource, Sequence[ConfigChange]],
    *,
    validate_only: bool = False,
) -> None:
    """Change single settings of each resource, leaving others as they are.

    Changed levels of loggers apply until the broker stops. Raise AdminError with the resources that
    are refused; the others are changed.
    """
    by_name = {str(resource): resource for resource in changes}

    async def ask(connection: KafkaConnection, names: list[str]) -> Outcomes[str]:
        request = iac.IncrementalAlterConfigsRequest(
            resources=[
                iac.AlterConfigsResource(
                    resource_type=by_name[name].type,
                    resource_name=by_name[name].name,
                    configs=[
                        iac.AlterableConfig(
                            name=change.name, config_operation=change.operation, value=change.value
                        )
                        for change in changes[by_name[name]]
                    ],
                )
                for name in names
            ],
            validate_only=validate_only,
        )
        return _altered(await connection.request(request))

    outcomes: Outcomes[str] = {}
    for node_id, part in _by_broker(changes, ResourceType.BROKER_LOGGER).items():
        outcomes.update(await asking.outcomes([str(one) for one in part], ask, node_id))
    done_of(outcomes)


async def alter_configs(
    asking: Asking,
    configs: Mapping[ConfigResource, Mapping[str, str]],
    *,
    validate_only: bool = False,
) -> None:
    """Replace whole configurations: settings that are not named return to their defaults.

    This call exists for older tools; `incremental_alter_configs` changes single settings. Raise
    AdminError with the resources that are refused; the others are changed.
    """
    by_name = {str(resource): resource for resource in configs}

    async def ask(connection: KafkaConnection, names: list[str]) -> Outcomes[str]:
        request = ac.AlterConfigsRequest(
            resources=[
                ac.AlterConfigsResource(
                    resource_type=by_name[name].type,
                    resource_name=by_name[name].name,
                    configs=[
                        ac.AlterableConfig(name=key, value=value)
                        for key, value in configs[by_name[name]].items()
                    ],
                )
                for name in names
            ],
            validate_only=validate_only,
        )
        return _altered(await asking.request(connection, request))

    await asking.each(list(by_name), ask)


async def list_config_resources(
    asking: Asking, types: Sequence[ResourceType] = ()
) -> list[ConfigResource]:
    """List the resources that have settings of their own; of all types if `types` is empty.

    Raise ApiError if the broker refuses.
    """

    async def ask(connection: KafkaConnection) -> list[ConfigResource]:
        request = ListConfigResourcesRequest(resource_types=[int(one) for one in types])
        response: ListConfigResourcesResponse = await asking.request(connection, request)
        raise_for(response.error_code)
        return sorted(
            ConfigResource(ResourceType(one.resource_type), one.resource_name)
            for one in response.config_resources
        )

    return await asking.one_broker(ask)


def _by_broker(
    resources: Iterable[ConfigResource], *local: ResourceType
) -> dict[int | None, list[ConfigResource]]:
    """Group resources by the id of the broker that must be asked, or None if any broker may be.

    A resource of a `local` type must be asked of the broker that it names.
    """
    parts: dict[int | None, list[ConfigResource]] = {}
    for kind, name in resources:
        is_one_broker = kind in local and name.isdecimal()
        parts.setdefault(int(name) if is_one_broker else None, []).append(
            ConfigResource(kind, name)
        )
    return parts


def _entry(entry: DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        entry.name,
        entry.value,
        _source(entry.config_source),
        entry.read_only,
        entry.is_sensitive,
        ConfigType(entry.config_type)
        if entry.config_type in ConfigType.__members__.values()
        else ConfigType.UNKNOWN,
        entry.documentation,
        tuple((one.name, one.value, _source(one.source)) for one in entry.synonyms),
    )


def _source(number: int) -> ConfigSource:
    # A newer broker may return sources that this client does not know.
    known = number in ConfigSource.__members__.values()
    return ConfigSource(number) if known else ConfigSource.UNKNOWN


def _altered(
    response: ac.AlterConfigsResponse | iac.IncrementalAlterConfigsResponse,
) -> Outcomes[str]:
    return {
        (name := str(ConfigResource(ResourceType(one.resource_type), one.resource_name))): error_of(
            one.error_code, one.error_message
        )
        or name
        for one in response.responses
    }
