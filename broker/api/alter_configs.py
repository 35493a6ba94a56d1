"""AlterConfigs and IncrementalAlterConfigs: each resource is changed or refused by itself.

Only a broker knows the valid keys of brokers and its own loggers. The broker itself changes loggers
and refuses invalid resources, and forwards all other resources to the controller. The response has
the results of both, in the order of the request.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from ...protocol.api import ApiKey
from ...protocol.control.records import BROKER, TOPIC
from ...protocol.errors import ApiError, ErrorCode
from ...protocol.messages import alter_configs as whole
from ...protocol.messages import incremental_alter_configs as incremental
from ...protocol.messages.describe_configs import ResourceType
from ...protocol.messages.incremental_alter_configs import ConfigOperation
from ...runtime.errors import ConfigError
from ...runtime.kafka_keys import KNOWN_UNUSED
from ...storage.topic_config import WITHOUT_EFFECT
from ..config import BrokerConfig, names_of_listeners
from ..net.answer import Call
from ..topic_defaults import check_dynamic
from . import broker_loggers
from .forwarded import Forwarded, warn_of_unused


class _Kind(NamedTuple):
    """One of the two APIs: its key, its response class and its check."""

    api_key: ApiKey
    response: Callable[..., object]
    check: Callable[[Any, BrokerConfig], None]
    """Raises ApiError if a resource cannot be changed as requested."""


def incremental_alter_configs(
    call: Call, request: incremental.IncrementalAlterConfigsRequest
) -> object:
    """Change single settings of topics, brokers and client metrics, and levels of loggers."""
    return _alter(call, request, INCREMENTAL)


def alter_configs(call: Call, request: whole.AlterConfigsRequest) -> object:
    """Replace all settings of each resource."""
    return _alter(call, request, WHOLE)


def _check_changes(resource: incremental.AlterConfigsResource, config: BrokerConfig) -> None:
    if resource.resource_type == BROKER:
        for change in resource.configs:
            # A key can always be deleted; a value is ignored then.
            if change.config_operation != ConfigOperation.DELETE:
                _check_broker_key(config, change.name, change.value)


def _check_whole(resource: whole.AlterConfigsResource, config: BrokerConfig) -> None:
    if resource.resource_type == ResourceType.BROKER_LOGGER:
        why = "levels of loggers are changed by IncrementalAlterConfigs only"
        raise ApiError(ErrorCode.INVALID_REQUEST, why)
    for each in resource.configs:
        if each.value is None:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{each.name}: a null is no value")
        if resource.resource_type == BROKER:
            _check_broker_key(config, each.name, each.value)


def _check_broker_key(config: BrokerConfig, key: str, value: str | None) -> None:
    try:
        check_dynamic(key, value, names_of_listeners(config))
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error


INCREMENTAL = _Kind(
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    incremental.IncrementalAlterConfigsResponse,
    _check_changes,
)
WHOLE = _Kind(
    ApiKey.ALTER_CONFIGS,
    whole.AlterConfigsResponse,
    _check_whole,
)


def _alter(call: Call, request: Any, kind: _Kind) -> object:
    answered: dict[int, object] = {}
    passed: list[Any] = []
    for index, resource in enumerate(request.resources):
        try:
            kind.check(resource, call.edge.config)
            if resource.resource_type == ResourceType.BROKER_LOGGER:
                broker_loggers.alter(call.edge, resource, validate_only=request.validate_only)
                answered[index] = _result(resource, ErrorCode.NONE, None)
                continue
        except ApiError as error:
            answered[index] = _result(resource, error.code, error.detail)
        else:
            passed.append(resource)
            unused = _reasons(resource.resource_type)
            warn_of_unused(resource.resource_name, unused, (each.name for each in resource.configs))
    if answered and not passed:
        return kind.response(responses=list(answered.values()))
    request.resources = passed

    def refuse_all(request: Any, error: ErrorCode, why: str) -> object:
        return kind.response(responses=[_result(each, error, why) for each in request.resources])

    def add_answered(response: Any) -> object:
        for index, result in answered.items():
            response.responses.insert(index, result)
        return response

    complete = add_answered if answered else None
    return Forwarded(call, request, kind.api_key, refuse_all, complete)


def _result(resource: Any, error: ErrorCode, why: str | None) -> object:
    return whole.AlterConfigsResourceResponse(
        error_code=error,
        error_message=why,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _reasons(resource_type: int) -> dict[str, str]:
    return {TOPIC: WITHOUT_EFFECT, BROKER: KNOWN_UNUSED}.get(resource_type, {})
