"""The answers that a standalone worker and one of a group give alike; base of both herders.

They are about the worker itself: its version, plugins and loggers. Connectors are the herders'.
"""

from typing import Final

from .herding import Config, Json
from .library import Library
from .states import State, Status

KAFKA_VERSION: Final = "4.3.0"
"""The version of Kafka whose REST API this is; interfaces read it."""
COMMIT: Final = "minikafka"
READY: Final = "Worker has completed startup and is ready to handle requests."
NOT_STOPPED: Final = (
    "Connectors must be in the STOPPED state before their offsets can be modified. This can be "
    "done for the specified connector by issuing a 'PUT' request to the "
    "'/connectors/{name}/stop' endpoint"
)


class Answers:
    """Answers about one worker; a part of herding.Herder."""

    def __init__(self, library: Library, cluster_id: str) -> None:
        self._library = library
        self._cluster_id = cluster_id

    async def cluster(self) -> Json:
        """Return {version, commit, kafka_cluster_id}."""
        return {"version": KAFKA_VERSION, "commit": COMMIT, "kafka_cluster_id": self._cluster_id}

    async def health(self) -> Json:
        """Return {status, message}."""
        return {"status": "healthy", "message": READY}

    async def plugins(self, *, connectors_only: bool) -> list[Json]:
        """Return [{class, type, version}]."""
        return self._library.listing(connectors_only=connectors_only)

    async def plugin_config(self, plugin: str) -> list[Json]:
        """Return the keys of a plugin's configuration."""
        return self._library.describe(plugin)

    async def validate(self, plugin: str, config: Config) -> Json:
        """Return {name, error_count, groups, configs}."""
        return await self._library.validate(plugin, config)

    async def loggers(self) -> Json:
        """Return {logger: {level, last_modified}}."""
        return self._library.loggers()


def shown(status: Status, *, restarts: bool = False) -> Json:
    """Return a status as REST tells it; `restarts` shows it as RESTARTING."""
    state = State.RESTARTING if restarts else status.state
    told: Json = {"state": state.value, "worker_id": status.worker_id}
    return told if status.trace is None else {**told, "trace": status.trace}
