"""Changes of configured resources, checked before they are written.

The keys of topics are those of `TopicConfig`; the keys of subscriptions to clients' metrics are
those of `ClientMetricsConfig`. Of a broker's keys the controller checks only those that it uses
itself; the broker that forwarded the request has checked the others against its own table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...protocol.client_metrics import read_subscription
from ...protocol.control.image import ConfigResource
from ...protocol.control.records import (
    BROKER,
    CLIENT_METRICS,
    TOPIC,
    ConfigRecord,
    MetadataRecord,
    PartitionChangeRecord,
)
from ...protocol.errors import ApiError, ErrorCode
from ...protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from ...protocol.messages.alter_configs import AlterConfigsResource as WholeConfig
from ...protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    ConfigOperation,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ...runtime.config import Setting, check_keys, from_mapping, settings_of
from ...runtime.errors import ConfigError
from ...security.audit_config import AuditConfig
from ...storage.topic_config import TopicConfig
from .decision import MIN_ISR, UNCLEAN_ELECTION, Cluster, Decision
from .elections import elect_uncleanly
from .eligible_leaders import on_min_isr_changed
from .forwarding import check_internal, check_targets

_TOPIC_SETTINGS = {row.key: row for row in settings_of(TopicConfig)}
CLUSTER_WIDE: dict[str, Setting] = {
    **{key: _TOPIC_SETTINGS[key] for key in (UNCLEAN_ELECTION, MIN_ISR)},
    **{row.key: row for row in settings_of(AuditConfig)},
}
"""Broker keys that the controller uses; they can only be set for all brokers together."""
TRACE_KEYS = "minikafka.trace."
"""How the keys of trace points begin. Brokers must sample alike, so they are for all of them."""

VALUE_BYTES_MAX = 32_767
SUBSCRIPTIONS_MAX = 100
"""The most subscriptions to clients' metrics, because brokers match each new client with all."""
SUBSCRIPTION_NAME_MAX = 249
"""The most characters in the name of a subscription, as many as in a topic's."""


def check_length(key: str, value: str) -> None:
    """Raise ApiError INVALID_CONFIG if the value is longer than old protocol versions can carry."""
    if len(value.encode()) > VALUE_BYTES_MAX:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"{key}: longer than {VALUE_BYTES_MAX} bytes")


def check_topic_config(config: Mapping[str, str]) -> None:
    """Raise ApiError INVALID_CONFIG if a topic cannot have this configuration."""
    try:
        check_keys(config, TopicConfig, known_unused={})
        from_mapping(TopicConfig, config)
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error


def incremental_alter(
    cluster: Cluster, request: IncrementalAlterConfigsRequest
) -> Decision[IncrementalAlterConfigsResponse]:
    """Change each resource independently; begin elections that new settings now allow."""
    changes: list[ConfigRecord] = []
    results: list[AlterConfigsResourceResponse] = []
    seen: dict[tuple[int, str], None] = {}
    subscriptions = {name: None for kind, name in cluster.image.configs if kind == CLIENT_METRICS}
    for resource in request.resources:
        key = (resource.resource_type, resource.resource_name)
        result = AlterConfigsResourceResponse(
            error_code=ErrorCode.NONE,
            error_message=None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        try:
            if key in seen:
                raise ApiError(ErrorCode.INVALID_REQUEST, f"{key[1]!r} is named twice")
            seen[key] = None
            if resource.resource_type == CLIENT_METRICS:
                _check_subscription_name(resource.resource_name, subscriptions)
            made = _alter(cluster, resource)
            if made and resource.resource_type == CLIENT_METRICS:
                subscriptions[resource.resource_name] = None
            changes.extend(made)
        except ApiError as error:
            result.error_code, result.error_message = error.code, error.detail
        results.append(result)
    if request.validate_only:
        changes = []
    records = [*changes, *_consequences(cluster, changes)]
    return Decision(IncrementalAlterConfigsResponse(responses=results), records)


def alter_whole(cluster: Cluster, request: AlterConfigsRequest) -> Decision[AlterConfigsResponse]:
    """Replace each resource's configuration; keys that the request does not name are removed."""
    asked = IncrementalAlterConfigsRequest(
        resources=[_as_changes(cluster, resource) for resource in request.resources],
        validate_only=request.validate_only,
    )
    decided = incremental_alter(cluster, asked)
    responses = decided.answer.responses
    return Decision(AlterConfigsResponse(responses=responses), decided.records)


def _as_changes(cluster: Cluster, resource: WholeConfig) -> AlterConfigsResource:
    target: ConfigResource = (int(resource.resource_type), resource.resource_name)
    named = dict.fromkeys(each.name for each in resource.configs)
    changes = [
        AlterableConfig(name=each.name, config_operation=ConfigOperation.SET, value=each.value)
        for each in resource.configs
    ]
    changes += [
        AlterableConfig(name=key, config_operation=ConfigOperation.DELETE, value=None)
        for key in cluster.image.configs.get(target, {})
        if key not in named
    ]
    return AlterConfigsResource(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=changes,
    )


def _alter(cluster: Cluster, resource: AlterConfigsResource) -> list[ConfigRecord]:
    """Return the records for one resource; raise ApiError if the change is not allowed."""
    name = resource.resource_name
    if resource.resource_type == TOPIC:
        if name not in cluster.image.topic_ids:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
    elif resource.resource_type == BROKER:
        if name and not (name.isascii() and name.isdigit() and name == str(int(name[:12]))):
            detail = f"broker {name!r}: the name is a broker id, or empty for all brokers"
            raise ApiError(ErrorCode.INVALID_REQUEST, detail)
    elif resource.resource_type != CLIENT_METRICS:
        detail = f"resources of type {resource.resource_type} have no configuration here"
        raise ApiError(ErrorCode.INVALID_REQUEST, detail)
    target: ConfigResource = (int(resource.resource_type), name)
    old = cluster.image.configs.get(target, {})
    new = _changed(old, resource)
    if resource.resource_type == TOPIC:
        check_topic_config(new)
        check_internal(name, new, old)
        check_targets(name, new, old, cluster.image.topic_ids, cluster.image.configs)
    elif resource.resource_type == CLIENT_METRICS:
        _check_subscription(new)
    else:
        _check_broker_config(name, new)
        if not name and MIN_ISR in old and MIN_ISR not in new and cluster.has_eligible_leaders:
            detail = f"{MIN_ISR}: eligible leaders rest on it: set it, but do not unset it"
            raise ApiError(ErrorCode.INVALID_CONFIG, detail)
    keys = dict.fromkeys([*old, *new])
    return [
        ConfigRecord(*target, key, new.get(key)) for key in keys if old.get(key) != new.get(key)
    ]


def _changed(old: Mapping[str, str], resource: AlterConfigsResource) -> dict[str, str]:
    """Return the resource's configuration after all operations.

    Raise ApiError if an operation is not valid.
    """
    new = dict(old)
    seen: dict[str, None] = {}
    for change in resource.configs:
        if change.name in seen:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"key {change.name!r} is named twice")
        seen[change.name] = None
        if change.config_operation == ConfigOperation.DELETE:
            new.pop(change.name, None)
            continue
        if change.value is None:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"{change.name}: needs a value")
        check_length(change.name, change.value)
        if change.config_operation == ConfigOperation.SET:
            new[change.name] = change.value
        elif change.config_operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
            new[change.name] = ",".join(_changed_list(new.get(change.name), change))
            check_length(change.name, new[change.name])
        else:
            detail = f"{change.name}: there is no operation {change.config_operation}"
            raise ApiError(ErrorCode.INVALID_REQUEST, detail)
    return new


def _changed_list(current: str | None, change: AlterableConfig) -> Sequence[str]:
    """Return the items of a list key after APPEND or SUBTRACT.

    If the key is unset, the change starts from its default. Raise ApiError INVALID_CONFIG if the
    key is no list.
    """
    row: Setting | None = _TOPIC_SETTINGS.get(change.name)
    if row is not None and row.type not in (tuple, list):
        detail = f"{change.name} is not a list: nothing can be appended or subtracted"
        raise ApiError(ErrorCode.INVALID_CONFIG, detail)
    if current is None:
        current = row.format(row.default) if row is not None else ""
    items = dict.fromkeys(item.strip() for item in current.split(",") if item.strip())
    for item in (change.value or "").split(","):
        if change.config_operation == ConfigOperation.APPEND and item.strip():
            items[item.strip()] = None
        else:
            items.pop(item.strip(), None)
    return list(items)


def _check_broker_config(name: str, config: Mapping[str, str]) -> None:
    traced = [key for key in config if key.startswith(TRACE_KEYS)]
    if name and traced:
        detail = f"{traced[0]}: cannot differ between brokers; set it for broker '' (all)"
        raise ApiError(ErrorCode.INVALID_CONFIG, detail)
    for key, row in CLUSTER_WIDE.items():
        if key not in config:
            continue
        if name:
            detail = f"{key}: cannot differ between brokers; set it for broker '' (all)"
            detail += " or a topic" if key in _TOPIC_SETTINGS else ""
            raise ApiError(ErrorCode.INVALID_CONFIG, detail)
        try:
            row.parse(config[key])
        except ConfigError as error:
            raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error


def _check_subscription_name(name: str, subscriptions: Mapping[str, None]) -> None:
    if not name or len(name) > SUBSCRIPTION_NAME_MAX or not name.isprintable():
        detail = f"a subscription's name is 1 to {SUBSCRIPTION_NAME_MAX} printable characters"
        raise ApiError(ErrorCode.INVALID_REQUEST, detail)
    if len(subscriptions) >= SUBSCRIPTIONS_MAX and name not in subscriptions:
        detail = f"there are {SUBSCRIPTIONS_MAX} subscriptions, which is the most: delete one"
        raise ApiError(ErrorCode.POLICY_VIOLATION, detail)


def _check_subscription(config: Mapping[str, str]) -> None:
    try:
        read_subscription(config)
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error


def _consequences(cluster: Cluster, changes: Sequence[ConfigRecord]) -> list[MetadataRecord]:
    """Return the changes of partitions that new settings cause, such as elections."""
    after = replace(cluster, image=cluster.image.copy())
    for change in changes:
        after.image.apply(change, after.next_offset)
    found: list[MetadataRecord] = []
    for key, consequence in ((MIN_ISR, on_min_isr_changed), (UNCLEAN_ELECTION, _elections)):
        concerned = [each for each in changes if each.key == key]
        if concerned:
            is_for_all = any(each.resource_type == BROKER for each in concerned)
            named = dict.fromkeys(each.resource_name for each in concerned)
            names = list(after.image.topic_ids if is_for_all else named)
            for record in consequence(after, names):
                after.image.apply(record, after.next_offset)
                found.append(record)
    return found


def _elections(cluster: Cluster, names: Sequence[str]) -> Sequence[PartitionChangeRecord]:
    return elect_uncleanly(cluster, [name for name in names if cluster.unclean_election(name)])
