"""Every Kafka API of this broker: who answers it. Also what ApiVersions tells.

The versions are read off the message declarations.
"""

from collections.abc import Callable, Mapping
from typing import Any

from ...protocol.api import ApiKey
from ...protocol.codec import request_class
from ...protocol.schema import shape_of
from ..net.answer import Api
from . import (
    describe_cluster,
    describe_configs,
    describe_topic_partitions,
    fetch,
    forwarded,
    init_producer_id,
    list_offsets,
    offset_for_leader_epoch,
    produce,
    produce_repeat,
)
from .api_versions import ApiVersions
from .metadata import Metadata


def make_apis() -> Mapping[int, Api]:
    """The dispatch table of one broker."""
    rows: dict[ApiKey, Callable[..., object]] = {
        ApiKey.PRODUCE: produce.handle,
        ApiKey.FETCH: fetch.handle,
        ApiKey.LIST_OFFSETS: list_offsets.handle,
        ApiKey.METADATA: Metadata().handle,
        ApiKey.CREATE_TOPICS: forwarded.create_topics,
        ApiKey.DELETE_TOPICS: forwarded.delete_topics,
        ApiKey.INIT_PRODUCER_ID: init_producer_id.handle,
        ApiKey.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch.handle,
        ApiKey.DESCRIBE_CONFIGS: describe_configs.handle,
        ApiKey.CREATE_PARTITIONS: forwarded.create_partitions,
        ApiKey.ELECT_LEADERS: forwarded.elect_leaders,
        ApiKey.INCREMENTAL_ALTER_CONFIGS: forwarded.incremental_alter_configs,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: forwarded.alter_partition_reassignments,
        ApiKey.LIST_PARTITION_REASSIGNMENTS: forwarded.list_partition_reassignments,
        ApiKey.DESCRIBE_QUORUM: forwarded.describe_quorum,
        ApiKey.UPDATE_FEATURES: forwarded.update_features,
        ApiKey.DESCRIBE_CLUSTER: describe_cluster.handle,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: describe_topic_partitions.handle,
    }
    versions = ApiVersions([*rows, ApiKey.API_VERSIONS])
    apis = {int(key): _api(key, handle) for key, handle in rows.items()}
    of_versions = _api(ApiKey.API_VERSIONS, versions.handle)
    apis[int(ApiKey.API_VERSIONS)] = of_versions._replace(refuse_version=versions.refuse)
    produced = apis[int(ApiKey.PRODUCE)]
    apis[int(ApiKey.PRODUCE)] = produced._replace(repeats=produce_repeat.Patterns)
    return apis


def _api(key: ApiKey, handle: Callable[[Any, Any], object]) -> Api:
    request = request_class(key)
    spoken = shape_of(request).versions
    return Api(request, spoken.first, spoken.last, handle)
