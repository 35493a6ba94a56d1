"""The settings of the clients that a worker opens for connectors and their tasks.

Pure. Later ones have precedence: what the worker's clients share, the worker's `producer.KEY`, the
connector's `producer.override.KEY` as far as the policy permits, and what Connect needs.
"""

from collections.abc import Mapping
from typing import Any, Final

from .config_def import BadConfig
from .states import TaskId
from .worker_config import WorkerConfig, below

KINDS: Final = ("producer", "consumer", "admin")
PATIENT_MS: Final = 2**31 - 1
"""Tasks wait for a cluster that is away, as in Kafka's Connect; a stop ends the wait."""
_PRINCIPAL: Final = ("sasl.jaas.config", "sasl.mechanism", "security.protocol")

Settings = dict[str, Any]
"""Keyword arguments of a client."""


def overrides(props: Mapping[str, str], kind: str) -> dict[str, str]:
    """Return the client settings that a connector overrides, by key."""
    return below(props, f"{kind}.override.")


def check_overrides(props: Mapping[str, str], policy: str) -> None:
    """Raise BadConfig for overrides that `connector.client.config.override.policy` forbids."""
    for kind in KINDS:
        for key in overrides(props, kind):
            if policy == "None" or (policy == "Principal" and key not in _PRINCIPAL):
                raise BadConfig(
                    f"{kind}.override.{key}: the worker's connector.client.config.override.policy"
                    f" is {policy}, which does not permit it"
                )


def sink_group(name: str, props: Mapping[str, str]) -> str:
    """Return the consumer group of a sink connector."""
    return overrides(props, "consumer").get("group.id", f"connect-{name}")


class Clients:
    """The settings of one connector's clients."""

    def __init__(self, config: WorkerConfig, name: str, props: Mapping[str, str]) -> None:
        """Raise BadConfig for a forbidden override."""
        check_overrides(props, config.connector_client_config_override_policy)
        self._config = config
        self._props = props
        self.name = name

    def producer(self, task: TaskId, *, letters: bool = False) -> Settings:
        """Return the settings of a task's producer, or of that of its dead letters."""
        what = "connector-dlq-producer" if letters else "connector-producer"
        defaults = {
            "client_id": f"{what}-{task}",
            "bootstrap_timeout_ms": PATIENT_MS,
            "delivery_timeout_ms": PATIENT_MS,
        }
        return self._settings("producer", defaults, {})

    def transactional(self, task: TaskId) -> Settings:
        """Return the settings of the producer of an exactly-once source (KIP-618)."""
        needed = {
            "transactional_id": transactional_id(self._config, task),
            "enable_idempotence": True,
        }
        return self._settings("producer", {"client_id": f"connector-producer-{task}"}, needed)

    def consumer(self, task: TaskId) -> Settings:
        """Return the settings of a sink task's consumer: from the start, and committed records."""
        defaults = {
            "client_id": f"connector-consumer-{task}",
            "bootstrap_timeout_ms": PATIENT_MS,
            "group_id": f"connect-{self.name}",
            "auto_offset_reset": "earliest",
            "isolation_level": "read_committed",
        }
        return self._settings("consumer", defaults, {"enable_auto_commit": False})

    def admin(self) -> Settings:
        """Return the settings of the connector's admin."""
        return self._settings("admin", {"client_id": f"connector-adminclient-{self.name}"}, {})

    def offsets(self) -> dict[str, Settings]:
        """Return the settings of the clients of an offsets topic of this connector's own."""
        found = {
            kind: self._settings(kind, {"client_id": f"{self.name}-offsets"}, {}) for kind in KINDS
        }
        found["consumer"].pop("group_id", None)
        return found

    def _settings(self, kind: str, defaults: Settings, needed: Settings) -> Settings:
        given = {**below(self._config.props, f"{kind}."), **overrides(self._props, kind)}
        found = {key.replace(".", "_"): value for key, value in given.items()}
        return {**self._config.common, **defaults, **found, **needed}


def worker_settings(config: WorkerConfig) -> dict[str, Settings]:
    """Return the settings of the worker's own clients, by kind."""
    common = {**config.common, "client_id": config.clients.client_id}
    return {kind: dict(common) for kind in KINDS}


def transactional_id(config: WorkerConfig, task: TaskId) -> str:
    """Return the transactional id of a source task: GROUP-CONNECTOR-TASK (KIP-618)."""
    return f"{config.group_id}-{task}"
