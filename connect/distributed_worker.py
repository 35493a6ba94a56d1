"""A worker of a group as a daemon: its settings, its start in order, and its end.

It joins the worker, the cluster, the herder and the REST API; each of them decides for itself.
"""

from collections.abc import Mapping
from typing import Final

from ..client.admin.admin import Admin
from ..runtime.daemon import Plan, Stop
from ..runtime.errors import ConfigError
from ..runtime.runtime import Runtime
from .clients import worker_settings
from .cluster_settings import cluster_settings
from .cluster_worker import ClusterWorker
from .distributed import DistributedHerder
from .duties import Parts
from .forwarding import HttpPeers
from .group_member import ForeignWorker
from .library import Library
from .plugins import Plugins
from .providers import ConfigProviders
from .rest_config import RestConfig, rest_config
from .rest_server import RestServer
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
        plugins = Plugins(config.plugin_path)
        self._worker = Worker(runtime, config, plugins, worker_id=self._rest.worker_id)
        resolve = ConfigProviders(config.props, plugins.find).resolve
        rules = Rules(resolve, config.connector_client_config_override_policy)
        self._library = Library(runtime, plugins, rules)
        peers = HttpPeers(self._rest.forward)
        parts = Parts(self._worker, peers, self._library.set_logger)
        library = self._library
        settings = cluster_settings(
            config, self._rest.url, lambda props: library.kind(props) == "source"
        )
        self._cluster = ClusterWorker(runtime, parts, settings)
        self._worker.listener = self._cluster.reports
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
