"""One module per Kafka API: the request above its response. Importing this declares them all."""

from . import (
    api_versions,
    create_partitions,
    create_topics,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_topic_partitions,
    fetch,
    incremental_alter_configs,
    init_producer_id,
    leader_hint,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
)

__all__ = [
    "api_versions",
    "create_partitions",
    "create_topics",
    "delete_topics",
    "describe_cluster",
    "describe_configs",
    "describe_topic_partitions",
    "fetch",
    "incremental_alter_configs",
    "init_producer_id",
    "leader_hint",
    "list_offsets",
    "metadata",
    "offset_for_leader_epoch",
    "produce",
]
