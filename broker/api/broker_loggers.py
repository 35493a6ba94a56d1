"""The levels of this broker's loggers, as settings of resource type BROKER_LOGGER (KIP-412).

Only the broker that the resource names can answer. Changed levels last until the broker restarts.
"""

import logging
from collections.abc import Container

from ...protocol.errors import ApiError, ErrorCode
from ...protocol.messages.describe_configs import (
    ConfigSource,
    ConfigType,
    DescribeConfigsResourceResult,
)
from ...protocol.messages.incremental_alter_configs import AlterConfigsResource, ConfigOperation
from ...runtime.log_levels import LEVELS, ROOT, LogLevels
from ..edge import Edge

log = logging.getLogger(__name__)


def describe(
    edge: Edge, broker: str, wanted: Container[str] | None
) -> list[DescribeConfigsResourceResult]:
    """Return the current levels of the wanted loggers, or of all if `wanted` is None.

    Raises ApiError if `broker` is not the id of this broker.
    """
    check_is_here(edge, broker)
    return [
        DescribeConfigsResourceResult(
            name=name,
            value=level,
            read_only=False,
            config_source=ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG,
            config_type=ConfigType.STRING,
        )
        for name, level in edge.runtime.log_levels.in_force().items()
        if wanted is None or name in wanted
    ]


def alter(edge: Edge, resource: AlterConfigsResource, *, validate_only: bool) -> None:
    """Apply all changes of a resource. If one is not valid, apply none and raise ApiError."""
    check_is_here(edge, resource.resource_name)
    levels = edge.runtime.log_levels
    if len({change.name: None for change in resource.configs}) < len(resource.configs):
        raise ApiError(ErrorCode.INVALID_REQUEST, "a logger is named twice")
    for change in resource.configs:
        _check(levels, change.name, change.config_operation, change.value)
    if validate_only:
        return
    for change in resource.configs:
        if change.value is None or change.config_operation == ConfigOperation.DELETE:
            levels.unset(change.name)
            log.warning("logger %s has no level of its own any more", change.name)
        else:
            levels.set(change.name, change.value)
            log.warning("logger %s has level %s", change.name, change.value)


def check_is_here(edge: Edge, broker: str) -> None:
    """Raise ApiError if `broker` is not the id of this broker."""
    if broker != str(edge.config.node_id):
        why = f"this is broker {edge.config.node_id}: ask broker {broker!r:.99} itself"
        raise ApiError(ErrorCode.INVALID_REQUEST, why)


def _check(levels: LogLevels, name: str, operation: int, level: str | None) -> None:
    if operation not in (ConfigOperation.SET, ConfigOperation.DELETE):
        raise ApiError(
            ErrorCode.INVALID_REQUEST, "the level of a logger can only be set and deleted"
        )
    if name not in levels:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"there is no logger {name!r:.99}")
    if operation == ConfigOperation.DELETE:
        if name == ROOT:
            why = f"the level of {ROOT} can be set, not deleted"
            raise ApiError(ErrorCode.INVALID_REQUEST, why)
    elif level not in LEVELS:
        why = f"{name}={level!r:.99}: levels are {', '.join(LEVELS)}"
        raise ApiError(ErrorCode.INVALID_CONFIG, why)
