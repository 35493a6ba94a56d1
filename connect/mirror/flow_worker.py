"""A worker for one flow: it runs connectors as a distributed worker does, without a REST API.

Configurations, offsets and states are in topics of the target, under Kafka's names for MM2.
"""

from collections.abc import Mapping

from ...client.admin.admin import Admin
from ...runtime.runtime import Runtime
from ..clients import worker_settings
from ..cluster_settings import cluster_settings
from ..cluster_worker import ClusterWorker
from ..distributed import DistributedHerder
from ..duties import Parts
from ..herding import HerderError
from ..library import Library
from ..plugins import Plugins
from ..providers import ConfigProviders
from ..validation import Rules as ValidationRules
from ..worker import Worker
from ..worker_config import worker_config

JOIN_MS = 60_000


class NoPeers:
    """Stands in for the way to other workers: one process runs a flow."""

    async def post_task_configs(
        self, url: str, name: str, body: bytes, headers: Mapping[str, str]
    ) -> None:
        """Raise HerderError."""
        raise HerderError(f"{url} runs this flow too: run each flow in one process")


class FlowWorker:
    """One worker with its herder."""

    herder: DistributedHerder

    def __init__(self, runtime: Runtime, props: Mapping[str, str]) -> None:
        """Check the settings; raise ConfigError if one is wrong."""
        self._runtime = runtime
        self._config = config = worker_config(props)
        self._plugins = Plugins(config.plugin_path)
        self.worker_id = str(config.client_id)
        self._worker = Worker(runtime, config, self._plugins, worker_id=self.worker_id)
        parts = Parts(self._worker, NoPeers())
        self._cluster = ClusterWorker(
            runtime, parts, cluster_settings(config, self.worker_id, lambda props: True)
        )
        self._worker.listener = self._cluster.reports

    async def start(self) -> None:
        """Read the topics and join the group; raise MinikafkaError if that fails."""
        await self._worker.start()
        async with Admin(runtime=self._runtime, **worker_settings(self._config)["admin"]) as admin:
            cluster_id = (await admin.describe_cluster()).cluster_id
        resolve = ConfigProviders(self._config.props, self._plugins.find).resolve
        library = Library(self._runtime, self._plugins, ValidationRules(resolve))
        self.herder = DistributedHerder(self._runtime, self._cluster, library, cluster_id)
        await self.herder.start(JOIN_MS)

    def ready(self) -> Mapping[str, object]:
        """Return the worker's id."""
        return {"worker_id": self.worker_id}

    async def stop(self) -> None:
        """Stop connectors and tasks, commit their offsets, leave the group."""
        await self._cluster.stop()
        await self._worker.close()
