"""DescribeConfigs: settings of topics, brokers and clients' metrics, and levels of loggers.

Each value comes with its source, such as the properties file. On request it also comes with its
synonyms, which are all sources that set it, in the order of their precedence.
"""

from collections.abc import Iterator
from functools import partial

from ...protocol.client_metrics import ClientMetricsConfig
from ...protocol.errors import ApiError, ErrorCode
from ...protocol.messages.describe_configs import (
    ConfigSource,
    ConfigType,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
    ResourceType,
)
from ...runtime.config import Setting, settings_of
from ...runtime.kafka_keys import DYNAMIC_UNUSED
from ..config import names_of_listeners
from ..edge import Edge
from ..net.answer import Call
from ..settings import TABLES
from ..topic_defaults import BROKER_KEYS, LISTENER_ROWS, ROWS, Layer, key_of_listener
from . import broker_loggers
from .slices import answer_each

BROKER_ROWS = {row.key: row for table in TABLES for row in settings_of(table)}


def handle(call: Call, request: DescribeConfigsRequest) -> object:
    """Describe each resource or report its error; answer equal entries of the request once."""
    once: dict[object, DescribeConfigsResource] = {}
    for resource in request.resources:
        keys = resource.configuration_keys
        wanted = None if keys is None else tuple(keys)
        once[resource.resource_type, resource.resource_name, wanted] = resource
    return answer_each(
        call,
        list(once.values()),
        partial(_result, call, request),
        lambda results: DescribeConfigsResponse(results=results),
    )


def _result(
    call: Call, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        resource_type=resource.resource_type, resource_name=resource.resource_name
    )
    try:
        result.configs = list(_describe(call, request, resource))
    except ApiError as error:
        result.error_code, result.error_message = error.code, error.detail
    return result


def _describe(
    call: Call, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> Iterator[DescribeConfigsResourceResult]:
    keys = resource.configuration_keys
    # A request may name a hundred thousand keys, so each setting is looked up among them.
    wanted = None if keys is None else dict.fromkeys(keys)
    if resource.resource_type == ResourceType.BROKER_LOGGER:
        yield from broker_loggers.describe(call.edge, resource.resource_name, wanted)
        return
    for row, key, layers in _rows(call.edge, resource):
        if wanted is None or key in wanted:
            yield _described(row, key, layers, request)


def _rows(
    edge: Edge, resource: DescribeConfigsResource
) -> Iterator[tuple[Setting, str, list[Layer]]]:
    """Yield each setting of a resource, its key, and the layers that set it, by precedence.

    Raise ApiError if the resource does not exist or has no settings.
    """
    name, image = resource.resource_name, edge.image
    if resource.resource_type == ResourceType.TOPIC:
        if image.topic(name) is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
        for key, row in ROWS.items():
            yield row, key, list(edge.topic_defaults.layers(image, name, key))
    elif resource.resource_type == ResourceType.BROKER:
        if name:
            broker_loggers.check_is_here(edge, name)
        yield from _broker_rows(edge, is_default=not name)
    elif resource.resource_type == ResourceType.CLIENT_METRICS:
        yield from _subscription_rows(edge, name)
    elif resource.resource_type != ResourceType.GROUP:
        # Groups have settings only in Kafka; here they get an empty list, no error.
        why = f"resources of type {resource.resource_type} have no configuration here"
        raise ApiError(ErrorCode.INVALID_REQUEST, why)


def _broker_rows(edge: Edge, *, is_default: bool) -> Iterator[tuple[Setting, str, list[Layer]]]:
    image = edge.image
    for key, row in BROKER_ROWS.items():
        layers = list(_broker_layers(edge, row))
        yield from _kept(row, key, layers, is_default=is_default)
    for key, topic_key in BROKER_KEYS.items():
        if key not in BROKER_ROWS:
            layers = list(edge.topic_defaults.broker_layers(image, key))
            yield from _kept(ROWS[topic_key], key, layers, is_default=is_default)
    for name in names_of_listeners(edge.config):
        for row in LISTENER_ROWS.values():
            key = key_of_listener(name, row.key)
            layers = list(edge.topic_defaults.broker_layers(image, key))
            if layers:
                yield from _kept(row, key, layers, is_default=is_default)
    for key, row in DYNAMIC_UNUSED.items():
        layers = list(edge.topic_defaults.broker_layers(image, key))
        if layers:
            yield from _kept(row, key, layers, is_default=is_default)


def _subscription_rows(edge: Edge, name: str) -> Iterator[tuple[Setting, str, list[Layer]]]:
    """Yield the settings of a subscription; a missing one has the defaults, as in Kafka.

    Raise ApiError INVALID_REQUEST if it has no name.
    """
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "a subscription to clients' metrics has a name")
    config = edge.image.configs.get((ResourceType.CLIENT_METRICS, name), {})
    for row in settings_of(ClientMetricsConfig):
        layers = [Layer(ConfigSource.DEFAULT_CONFIG, row.key, row.format(row.default))]
        if row.key in config:
            layers.insert(0, Layer(ConfigSource.CLIENT_METRICS_CONFIG, row.key, config[row.key]))
        yield row, row.key, layers


def _kept(
    row: Setting, key: str, layers: list[Layer], *, is_default: bool
) -> Iterator[tuple[Setting, str, list[Layer]]]:
    """Yield the setting; for the default of all brokers, only if it was set for all of them."""
    if is_default:
        source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
        layers = [layer for layer in layers if layer.source == source]
    if layers or not is_default:
        yield row, key, layers


def _broker_layers(edge: Edge, row: Setting) -> Iterator[Layer]:
    configs = edge.image.configs
    for source, name in (
        (ConfigSource.DYNAMIC_BROKER_CONFIG, str(edge.config.node_id)),
        (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, ""),
    ):
        dynamic = configs.get((ResourceType.BROKER, name), {})
        if row.key in dynamic:
            yield Layer(source, row.key, dynamic[row.key])
    for key in (row.key, *row.aliases):
        if key in edge.file_settings:
            value = row.format(row.parse(edge.file_settings[key], key))
            yield Layer(ConfigSource.STATIC_BROKER_CONFIG, key, value)
    if not row.required:
        yield Layer(ConfigSource.DEFAULT_CONFIG, row.key, row.format(row.default))


def _described(
    row: Setting, key: str, layers: list[Layer], request: DescribeConfigsRequest
) -> DescribeConfigsResourceResult:
    # A key without a layer has no value; a key for the same setting in another unit has it.
    winner = layers[0] if layers else Layer(ConfigSource.DEFAULT_CONFIG, key, "")
    result = DescribeConfigsResourceResult(
        name=key,
        value=_shown(row, winner.value) if layers else None,
        read_only=not row.dynamic,
        config_source=winner.source,
        is_sensitive=row.secret,
        config_type=ConfigType[row.kafka_type],
    )
    if request.include_synonyms:
        result.synonyms = [
            DescribeConfigsSynonym(
                name=layer.name, value=_shown(row, layer.value), source=layer.source
            )
            for layer in layers
        ]
    if request.include_documentation:
        result.documentation = row.doc
    return result


def _shown(row: Setting, value: str) -> str | None:
    if row.secret or (not value and row.optional):
        return None
    return value
