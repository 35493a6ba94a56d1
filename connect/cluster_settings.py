"""Reads the settings of a worker's group, and of the topics that the group shares, off its keys."""

import logging
from collections.abc import Callable

from ..client.admin.topic_types import NewTopic
from .config_log import Props
from .duties import ClusterSettings
from .group_member import GroupTimes
from .herder import Rules
from .worker_config import WorkerConfig

log = logging.getLogger(__name__)


def cluster_settings(
    config: WorkerConfig, url: str, is_source: Callable[[Props], bool]
) -> ClusterSettings:
    """Return what the worker's keys say of its group and of the topics that the group shares."""
    assert config.group_id is not None  # the table's own check asks for it
    exactly_once = config.exactly_once_source_support
    times = GroupTimes(
        session_timeout_ms=config.session_timeout_ms,
        heartbeat_interval_ms=config.heartbeat_interval_ms,
        rebalance_timeout_ms=config.rebalance_timeout_ms,
        task_shutdown_graceful_timeout_ms=config.task_shutdown_graceful_timeout_ms,
    )
    if times.task_shutdown_graceful_timeout_ms > times.longest_stop_ms:
        log.warning(
            "task.shutdown.graceful.timeout.ms=%d is more than %d, for which session.timeout.ms=%d"
            " has room: tasks of a worker that is cut off may still run when others have got them",
            times.task_shutdown_graceful_timeout_ms,
            times.longest_stop_ms,
            times.session_timeout_ms,
        )
    return ClusterSettings(
        group=config.group_id,
        url=url,
        common=config.common,
        config_topic=NewTopic(
            config.config_storage_topic or "",
            1,
            config.config_storage_replication_factor,
            configs=config.storage_configs("config.storage."),
        ),
        status_topic=NewTopic(
            config.status_storage_topic or "",
            config.status_storage_partitions,
            config.status_storage_replication_factor,
            configs=config.storage_configs("status.storage."),
        ),
        times=times,
        worker_sync_timeout_ms=config.worker_sync_timeout_ms,
        scheduled_rebalance_max_delay_ms=config.scheduled_rebalance_max_delay_ms,
        rules=Rules(
            leader_fences=exactly_once != "disabled",
            tasks_wait=exactly_once == "enabled",
            is_source=is_source,
            key_ttl_ms=config.inter_worker_key_ttl_ms,
        ),
        mixed=config.mixed,
    )
