"""The herder, as the REST API sees it: standalone and distributed workers answer alike.

Values are plain: what a method returns is the JSON body of the answer, where it has one. The
paths and bodies are those of Kafka's Connect (KIP-26, 475, 495, 558, 745, 875, 898, 980, 1017).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ..runtime.errors import MinikafkaError
from .states import TargetState, TaskId

Config = Mapping[str, str]
Json = dict[str, Any]


class HerderError(MinikafkaError):
    """A request cannot be carried out; `status` is the HTTP status and the error_code."""

    status = 500


class BadRequest(HerderError):
    """The request or the configuration is wrong; the message has all errors."""

    status = 400


class NotFound(HerderError):
    """There is no connector, task, plugin or logger of that name."""

    status = 404


class Conflict(HerderError):
    """The connector exists, or the group is rebalancing; asking again may work."""

    status = 409


class Unavailable(HerderError):
    """The worker cannot answer yet, as without a session key."""

    status = 503


class NotLeader(HerderError):
    """Only the leader may do this: the REST API sends the request there, once."""

    status = 409

    def __init__(self, leader_url: str | None) -> None:
        super().__init__(
            "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
        )
        self.leader_url = leader_url
        """None where no leader is known."""


class Herder(Protocol):
    """Answers requests about connectors. Raises HerderError; every wait has a deadline."""

    async def cluster(self) -> Json:
        """Return {version, commit, kafka_cluster_id}; `version` is the Kafka version we speak."""

    async def health(self) -> Json:
        """Return {status, message}; raise Unavailable while starting (KIP-1017)."""

    async def connectors(self) -> list[str]:
        """Return the names of all connectors, sorted."""

    async def info(self, name: str) -> Json:
        """Return {name, config, tasks: [{connector, task}], type}."""

    async def status(self, name: str) -> Json:
        """Return {name, connector: {state, worker_id, trace?}, tasks: [...], type}."""

    async def task_status(self, task: TaskId) -> Json:
        """Return {id, state, worker_id, trace?}."""

    async def create(self, name: str, config: Config, target: TargetState) -> Json:
        """Create a connector and return its info. Conflict if it exists, BadRequest if wrong."""

    async def put_config(self, name: str, config: Config) -> tuple[bool, Json]:
        """Create or replace a configuration; return whether it was created, and the info."""

    async def patch_config(self, name: str, patch: Mapping[str, str | None]) -> Json:
        """Change some keys, None removes one; return the info (KIP-477)."""

    async def delete(self, name: str) -> None:
        """Delete a connector and its status; topics and groups stay."""

    async def task_configs(self, name: str) -> list[Json]:
        """Return [{id: {connector, task}, config}]."""

    async def restart(self, name: str, *, include_tasks: bool, only_failed: bool) -> Json:
        """Restart and return the planned status, of those that restart as RESTARTING (KIP-745)."""

    async def restart_connector(self, name: str) -> None:
        """Restart the connector's instance alone."""

    async def restart_task(self, task: TaskId) -> None:
        """Restart one task."""

    async def set_target(self, name: str, target: TargetState) -> None:
        """Pause, resume or stop; returns once it is written, not once it is so."""

    async def topics(self, name: str) -> list[str]:
        """Return the topics that the connector used since its creation or the last reset."""

    async def reset_topics(self, name: str) -> None:
        """Forget the topics that the connector used."""

    async def offsets(self, name: str) -> Json:
        """Return {offsets: [{partition, offset}]} (KIP-875)."""

    async def alter_offsets(self, name: str, offsets: Sequence[Json]) -> str:
        """Set offsets of a STOPPED connector, None removes one; return the message."""

    async def reset_offsets(self, name: str) -> str:
        """Remove all offsets of a STOPPED connector; return the message."""

    async def plugins(self, *, connectors_only: bool) -> list[Json]:
        """Return [{class, type, version}]."""

    async def plugin_config(self, plugin: str) -> list[Json]:
        """Return the keys of a plugin's configuration."""

    async def validate(self, plugin: str, config: Config) -> Json:
        """Return {name, error_count, groups, configs: [{definition, value}]}."""

    async def loggers(self) -> Json:
        """Return {logger: {level, last_modified}}."""

    async def set_logger(self, namespace: str, level: str, *, cluster: bool) -> list[str] | None:
        """Set a level here and return the loggers, or on all workers and return None (KIP-976)."""

    async def put_task_configs(
        self, name: str, configs: Sequence[Config], body: bytes, signature: Mapping[str, str]
    ) -> None:
        """Take the task configurations that another worker's connector made. Signed (KIP-507)."""

    async def fence(self, name: str, body: bytes, signature: Mapping[str, str]) -> None:
        """Fence all old producers of a source connector, as its leader (KIP-618). Signed."""
