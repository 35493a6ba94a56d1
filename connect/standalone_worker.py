"""A standalone worker as a daemon: its settings, its start in order, and its end.

It joins the worker, the herder and the REST API; each of them decides for itself.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..client.admin.admin import Admin
from ..runtime.daemon import Plan, Stop
from ..runtime.errors import ConfigError
from ..runtime.runtime import Runtime
from .clients import worker_settings
from .connector_files import STATES, ConnectorFile, read_connector
from .herding import HerderError
from .library import Library
from .plugins import Plugins
from .providers import ConfigProviders
from .rest_config import RestConfig, rest_config
from .rest_server import RestServer
from .standalone import StandaloneHerder
from .standalone_connectors import Connectors
from .statuses import Statuses
from .validation import Rules
from .worker import Worker
from .worker_config import WorkerConfig, worker_config


def prepare(properties: dict[str, str], connectors: Sequence[str] = ()) -> Plan:
    """Read all settings and files. Raise ConfigError if one is wrong; nothing is opened."""
    config = worker_config(properties)
    if config.is_distributed:
        why = "makes a worker distributed: run minikafka connect-distributed"
        raise ConfigError("config.storage.topic", config.config_storage_topic, why)
    rest = rest_config(config)
    files = [read_connector(Path(path)) for path in connectors]

    async def start(runtime: Runtime, stop: Stop) -> "StandaloneWorker":
        worker = StandaloneWorker(runtime, config, rest)
        try:
            await worker.start(files)
        except BaseException:
            await worker.stop()
            raise
        return worker

    return Plan("connect", start)


class StandaloneWorker:
    """A worker that runs."""

    def __init__(self, runtime: Runtime, config: WorkerConfig, rest: RestConfig) -> None:
        """Bind the listeners. Raise MinikafkaError if an address is taken."""
        self._runtime = runtime
        self._config = config
        self._rest = RestServer(runtime, rest, config.props)
        self._plugins = Plugins(config.plugin_path)
        self._statuses = Statuses()
        self._worker = Worker(runtime, config, self._plugins, worker_id=self._rest.worker_id)
        self._worker.listener = self._statuses

    async def start(self, files: Sequence[ConnectorFile]) -> None:
        """Start the worker, the REST API and the connectors of the files.

        Raise ConfigError if one of those is refused, a ClientError if no broker answers.
        """
        await self._worker.start()
        settings = worker_settings(self._config)["admin"]
        async with Admin(runtime=self._runtime, **settings) as admin:
            cluster = (await admin.describe_cluster()).cluster_id
        exactly_once = self._config.is_exactly_once
        connectors = Connectors(
            self._worker, self._statuses, self._plugins, exactly_once=exactly_once
        )
        rules = Rules(
            ConfigProviders(self._config.props, self._plugins.find).resolve,
            self._config.connector_client_config_override_policy,
        )
        library = Library(self._runtime, self._plugins, rules)
        herder = StandaloneHerder(self._runtime, connectors, library, cluster)
        self._rest.start(herder)
        for one in files:
            try:
                await herder.create(one.name, one.config, STATES[one.state])
            except HerderError as error:
                raise ConfigError(f"connector {one.name}", None, str(error)) from error

    def ready(self) -> Mapping[str, object]:
        """Return the addresses of the REST API."""
        return {"worker_id": self._rest.worker_id, "rest": self._rest.addresses}

    async def stop(self) -> None:
        """Answer open requests, stop connectors and tasks, commit their offsets."""
        await self._rest.stop()
        await self._worker.close()
