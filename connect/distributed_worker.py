"""A worker of a group as a daemon: its settings, its start in order, and its end.

It joins the worker, the cluster, the herder and the REST API; each of them decides for itself.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Final

from ..client.admin.admin import Admin
from ..client.admin.topic_types import NewTopic
from ..runtime.daemon import Plan, Stop
from ..runtime.errors import ConfigError
from ..runtime.runtime import Runtime
from .clients import worker_settings
from .cluster_worker import ClusterWorker
from .distributed import DistributedHerder
from .duties import ClusterSettings, Parts
from .forwarding import HttpPeers
from .group_member import ForeignWorker, GroupTimes
from .herder import Rules as HerderRules
from .herding import Config
from .library import Library
from .plugins import Plugins
from .providers import ConfigProviders
from .rest_config import RestConfig, rest_config
from .rest_server import RestServer
from .states import Status, StatusListener, TaskId
from .validation import Rules
from .worker import Worker
from .worker_config import WorkerConfig, worker_config

JOIN_MS: Final = 90_000
"""The longest that a start waits for an assignment; the worker goes on joining afterwards."""


def prepare(properties: dict[str, str]) -> Plan:
    """Read all settings. Raise ConfigError if one is wrong; nothing is opened."""
    config = worker_config(properties)
    if not config.is_distributed:
        why = "is required for a worker of a group; without it run minikafka connect-standalone"
        raise ConfigError("config.storage.topic", None, why)
    rest = rest_config(config)

    async def start(runtime: Runtime, stop: Stop) -> "DistributedWorker":
        worker = DistributedWorker(runtime, config, rest)
        try:
            await worker.start(stop)
        except BaseException:
            await worker.stop()
            raise
        return worker

    return Plan("connect", start)


class DistributedWorker:
    """A worker that runs."""

    def __init__(self, runtime: Runtime, config: WorkerConfig, rest: RestConfig) -> None:
        """Bind the listeners. Raise MinikafkaError if an address is taken."""
        self._runtime = runtime
        self._config = config
        self._rest = RestServer(runtime, rest, config.props)
        plugins, reports = Plugins(config.plugin_path), _Reports()
        self._worker = Worker(runtime, config, plugins, reports, worker_id=self._rest.worker_id)
        resolve = ConfigProviders(config.props, plugins.find).resolve
        rules = Rules(resolve, config.connector_client_config_override_policy)
        self._library = Library(runtime, plugins, rules)
        peers = HttpPeers(self._rest.forward)
        parts = Parts(self._worker, peers, _encoded, self._library.set_logger)
        settings = cluster_settings(config, self._rest.url, self._library)
        self._cluster = reports.to = ClusterWorker(runtime, parts, settings)
        self._herder: DistributedHerder | None = None

    async def start(self, stop: Stop) -> None:
        """Read the topics, serve the REST API, join the group, wait for an assignment.

        Raise ConfigError if the group is one of Apache Kafka's workers, a ClientError if no broker
        answers.
        """
        self._cluster.on_fatal = lambda error: stop.request(1, str(error))
        await self._worker.start()
        settings = worker_settings(self._config)["admin"]
        async with Admin(runtime=self._runtime, **settings) as admin:
            cluster_id = (await admin.describe_cluster()).cluster_id
        herder = DistributedHerder(self._runtime, self._cluster, self._library, cluster_id)
        self._herder = herder
        try:
            await herder.start(0)  # the topics are read, and the group is not joined yet
            self._rest.start(herder)
            await self._cluster.wait_until_joined(JOIN_MS)
        except ForeignWorker as error:
            raise ConfigError("group.id", self._config.group_id, str(error)) from error

    def ready(self) -> Mapping[str, object]:
        """Return the addresses of the REST API."""
        return {"worker_id": self._rest.worker_id, "rest": self._rest.addresses}

    async def stop(self) -> None:
        """Answer open requests, stop all work and leave the group: others get it at once."""
        await self._rest.stop()
        if self._herder is not None:
            await self._herder.stop()
        await self._worker.close()


class _Reports:
    """Hands the worker's reports to the cluster, which is made after it."""

    to: StatusListener

    def on_connector(self, name: str, status: Status) -> None:
        self.to.on_connector(name, status)

    def on_task(self, task: TaskId, status: Status) -> None:
        self.to.on_task(task, status)

    def on_topic(self, task: TaskId, topic: str) -> None:
        self.to.on_topic(task, topic)

    def on_reconfiguration(self, name: str) -> None:
        self.to.on_reconfiguration(name)


def cluster_settings(config: WorkerConfig, url: str, library: Library) -> ClusterSettings:
    """Return what the worker's keys say of its group and of the topics that the group shares."""
    assert config.group_id is not None  # the table's own check asks for it
    exactly_once = config.exactly_once_source_support
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
        times=GroupTimes(
            session_timeout_ms=config.session_timeout_ms,
            heartbeat_interval_ms=config.heartbeat_interval_ms,
            rebalance_timeout_ms=config.rebalance_timeout_ms,
            task_shutdown_graceful_timeout_ms=config.task_shutdown_graceful_timeout_ms,
        ),
        worker_sync_timeout_ms=config.worker_sync_timeout_ms,
        scheduled_rebalance_max_delay_ms=config.scheduled_rebalance_max_delay_ms,
        # Failed tasks are started again by the worker itself, so the herder does not.
        rules=HerderRules(
            leader_fences=exactly_once != "disabled",
            tasks_wait=exactly_once == "enabled",
            is_source=lambda props: library.kind(props) == "source",
            key_ttl_ms=config.inter_worker_key_ttl_ms,
        ),
        mixed=config.mixed,
    )


def _encoded(configs: Sequence[Config]) -> bytes:
    return json.dumps([dict(each) for each in configs]).encode()
