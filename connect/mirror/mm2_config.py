"""The file mm2.properties: clusters, flows between them, and what each connector and worker gets.

Keys of a cluster begin with its alias (`A.bootstrap.servers`), keys of a flow with its arrow
(`A->B.topics`); others count for all. What wins is the narrowest (MirrorMakerConfig, KIP-382).
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ...client.config import CommonConfig
from ...runtime.config import settings_of
from ..config_def import BadConfig
from .keys import ALL_KEYS
from .policy import DEFAULT, IDENTITY, POLICIES, class_of

SOURCE = "MirrorSourceConnector"
CHECKPOINT = "MirrorCheckpointConnector"
HEARTBEAT = "MirrorHeartbeatConnector"
PACKAGE = "org.apache.kafka.connect.mirror"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"

WORKER_PREFIXES = (
    *("offset.storage", "config.storage", "status.storage"),
    *("key.converter", "value.converter", "header.converter"),
    *("task.", "worker.", "config.providers"),
)
"""Beginnings of keys for all that count for workers; other keys of workers need a cluster."""
CLIENT_KEYS = {row.key: None for row in settings_of(CommonConfig)}
CONNECTOR_PREFIXES = (
    *("tasks.max", "key.converter", "value.converter", "header.converter", "transforms"),
    *("predicates", "errors.", "exactly.once.support", "transaction.boundary", "topic.creation."),
    *("replication.policy", "config.providers"),
)
"""Beginnings of keys for all that count for connectors, beside those of MM2."""
KINDS = ("producer.", "consumer.", "admin.")
OWN_KEYS = ("clusters", "config.providers", "dedicated.mode.enable.internal.rest")


class Flow(NamedTuple):
    """A direction of mirroring, by the aliases of its ends."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"


class Mm2Config:
    """A parsed file; secrets are in it as they were written."""

    def __init__(
        self,
        properties: Mapping[str, str],
        resolve: Callable[[Mapping[str, str]], Mapping[str, str]] = dict,
    ) -> None:
        """Check clusters and flows. Raise BadConfig with what is wrong and what to do.

        `resolve` puts values in place of references (`${file:...}`), for workers and clients; those
        of connectors are left to their worker.
        """
        self._all = dict(properties)
        self._resolve = resolve
        self.clusters = [each.strip() for each in self._all.get("clusters", "").split(",")]
        self.clusters = list(dict.fromkeys(each for each in self.clusters if each))
        if len(self.clusters) < 2:
            raise BadConfig("clusters: name at least two, as in: clusters = A, B")
        for alias in self.clusters:
            if not self._all.get(f"{alias}.bootstrap.servers"):
                raise BadConfig(f"{alias}.bootstrap.servers: is required for cluster {alias}")
        self._check_arrows()
        self._check_loops()

    def flows(self, targets: Iterable[str] | None = None) -> list[Flow]:
        """Return the flows that have work, perhaps only those into some clusters.

        A flow that is not enabled still has heartbeats, unless they are off: they are how the other
        direction is watched. Raise BadConfig for a target that is no cluster.
        """
        wanted = self.clusters if targets is None else list(targets)
        for alias in wanted:
            if alias not in self.clusters:
                raise BadConfig(f"--clusters {alias}: clusters are {', '.join(self.clusters)}")
        pairs = [Flow(a, b) for a in self.clusters for b in self.clusters if a != b]
        return [flow for flow in pairs if flow.target in wanted and self.connectors(flow)]

    def connectors(self, flow: Flow) -> list[str]:
        """Return the connectors of a flow."""
        data = [SOURCE, CHECKPOINT] if self._is_enabled(flow) else []
        beats = self._of_flow(flow, "emit.heartbeats.enabled", "true").lower() == "true"
        return [*data, HEARTBEAT] if beats else data

    def connector_props(self, flow: Flow, connector: str) -> dict[str, str]:
        """Return the configuration of one connector of a flow."""
        props = {key: value for key, value in self._all.items() if key in ALL_KEYS}
        props |= self._beginning(CONNECTOR_PREFIXES)
        for end, alias in zip(("source", "target"), flow, strict=True):
            for key, value in self._cluster(alias).items():
                props[f"{end}.{key}" if key.startswith(KINDS) else f"{end}.cluster.{key}"] = value
        props["name"] = connector
        props["connector.class"] = f"{PACKAGE}.{connector}"
        props["source.cluster.alias"], props["target.cluster.alias"] = flow
        props["enabled"] = "false"
        return props | self._below(f"{flow}.")

    def worker_props(self, flow: Flow) -> dict[str, str]:
        """Return the configuration of the worker of a flow, which is at home in the target."""
        props = {
            "client.id": str(flow),
            "group.id": f"{flow.source}-mm2",
            "scheduled.rebalance.max.delay.ms": "0",
            "minikafka.connect.task.restart.backoff.ms": "10000",
            "offset.storage.topic": f"mm2-offsets.{flow.source}.internal",
            "status.storage.topic": f"mm2-status.{flow.source}.internal",
            "config.storage.topic": f"mm2-configs.{flow.source}.internal",
            "key.converter": BYTES,
            "value.converter": BYTES,
            "header.converter": BYTES,
        }
        props |= self._beginning(WORKER_PREFIXES) | self._cluster(flow.target)
        return dict(self._resolve(props))

    def client_props(self, alias: str) -> dict[str, str]:
        """Return the settings of a client of a cluster."""
        found = {key: value for key, value in self._cluster(alias).items() if key in CLIENT_KEYS}
        return dict(self._resolve(found))

    def unused(self) -> list[str]:
        """Return the keys of the file that count for nothing."""
        prefixes = (
            *(f"{each}." for each in self.clusters),
            *(f"{a}->{b}." for a in self.clusters for b in self.clusters if a != b),
            *WORKER_PREFIXES,
            *CONNECTOR_PREFIXES,
        )
        known = ALL_KEYS.keys() | CLIENT_KEYS.keys() | set(OWN_KEYS)
        return [key for key in self._all if key not in known and not key.startswith(prefixes)]

    # -- parts

    def _cluster(self, alias: str) -> dict[str, str]:
        """Return the keys of a cluster, without its alias; clients' keys for all come with them."""
        common = {key: value for key, value in self._all.items() if key in CLIENT_KEYS}
        return common | self._below(f"{alias}.")

    def _below(self, prefix: str) -> dict[str, str]:
        return {
            key.removeprefix(prefix): value
            for key, value in self._all.items()
            if key.startswith(prefix)
        }

    def _beginning(self, prefixes: tuple[str, ...]) -> dict[str, str]:
        return {key: value for key, value in self._all.items() if key.startswith(prefixes)}

    def _of_flow(self, flow: Flow, key: str, default: str) -> str:
        return self._all.get(f"{flow}.{key}", self._all.get(key, default)).strip()

    def _is_on(self, flow: Flow, key: str) -> bool:
        return self._of_flow(flow, key, "false").lower() == "true"

    def _is_enabled(self, flow: Flow) -> bool:
        # `enabled` for all counts for nothing: each flow is switched on by itself.
        return self._all.get(f"{flow}.enabled", "").strip().lower() == "true"

    def _check_arrows(self) -> None:
        clusters = ", ".join(self.clusters)
        for key in self._all:
            source, arrow, rest = key.partition("->")
            is_known = source in self.clusters and any(
                rest.startswith(f"{alias}.") for alias in self.clusters if alias != source
            )
            if arrow and not is_known:
                raise BadConfig(f"{key}: names no flow between two of the clusters {clusters}")

    def _check_loops(self) -> None:
        """Raise BadConfig if records could go round for ever: names kept, and no header."""
        onward: dict[str, list[str]] = {}
        for flow in (Flow(a, b) for a in self.clusters for b in self.clusters if a != b):
            name = class_of(self._of_flow(flow, "replication.policy.class", DEFAULT))
            if name not in POLICIES:
                raise BadConfig(
                    f"replication.policy.class: {name}: known are {', '.join(POLICIES)}"
                )
            is_marked = self._is_on(flow, "mirror.provenance.header")
            if self._is_enabled(flow) and name == IDENTITY and not is_marked:
                onward.setdefault(flow.source, []).append(flow.target)
        for alias in self.clusters:
            loop = _way_back(alias, onward)
            if loop:
                raise BadConfig(
                    f"{'->'.join(loop)}: {IDENTITY} keeps the names of topics, so that records "
                    "would go round for ever; set mirror.provenance.header = true, or use "
                    f"{DEFAULT}"
                )


def _way_back(start: str, onward: Mapping[str, list[str]]) -> list[str]:
    """Return a way from `start` to itself, or nothing."""
    ways, seen = [[start]], {start: None}
    for way in ways:
        for following in onward.get(way[-1], ()):
            if following == start:
                return [*way, start]
            if following not in seen:
                seen[following] = None
                ways.append([*way, following])
    return []
