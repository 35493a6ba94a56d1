"""The files of a local cluster: a directory for each node with its properties, data and log.

This module writes the files of a new cluster and reads those of an existing one.

  DIR/controller-3001/controller.properties   DIR/controller-3001/data/   DIR/controller-3001/log
  DIR/broker-1/server.properties              DIR/broker-1/data/          DIR/broker-1/log
  DIR/control.key
"""

import random
import socket
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from ..runtime.config import PORT_MAX, parse_properties
from ..runtime.errors import ConfigError
from . import control_key

HOST = "127.0.0.1"
FIRST_CONTROLLER_ID = 3001
PROPERTIES = {"broker": "server.properties", "controller": "controller.properties"}
LOWEST_FREE_PORT = 12_000

Role = Literal["broker", "controller"]


@dataclass(frozen=True, slots=True)
class Node:
    """One daemon of the cluster: its identity, its address and its directory."""

    role: Role
    node_id: int
    host: str
    port: int
    directory: Path
    metrics: str | None = None
    """The HOST:PORT at which the daemon serves its metrics."""

    @property
    def name(self) -> str:
        """The node's name in messages and on disk, as in `broker-1`."""
        return f"{self.role}-{self.node_id}"

    @property
    def address(self) -> str:
        """The address as HOST:PORT."""
        return f"{self.host}:{self.port}"

    @property
    def properties_path(self) -> Path:
        """The configuration file that the daemon is started with."""
        return self.directory / PROPERTIES[self.role]

    @property
    def data_path(self) -> Path:
        """The daemon's log directory, in the node's directory."""
        return self.directory / "data"

    @property
    def key_path(self) -> Path:
        """The file of the cluster's key, beside the nodes' directories."""
        return self.directory.parent / control_key.NAME

    @property
    def log_path(self) -> Path:
        """The file that takes the daemon's standard output and error."""
        return self.directory / "log"


@dataclass(frozen=True, slots=True)
class Layout:
    """The nodes of a cluster, controllers and brokers each in order of node id."""

    controllers: tuple[Node, ...]
    brokers: tuple[Node, ...]

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Controllers, then brokers: the order of starting."""
        return self.controllers + self.brokers

    @property
    def bootstrap(self) -> str:
        """The addresses of the brokers, comma-separated."""
        return ",".join(broker.address for broker in self.brokers)

    @classmethod
    def plan(
        cls, directory: Path, brokers: int, controllers: int, port: int, *, metrics: bool = False
    ) -> Self:
        """Give every node an id and a port: `port` and its successors, or free ones if it is 0.

        With `metrics`, the ports of their metrics come after those, in the same order. Raise
        ConfigError if a port would be above 65535, or too few ports are free.
        """
        nodes = brokers + controllers
        count = 2 * nodes if metrics else nodes
        ports = free_ports(count) if port == 0 else list(range(port, port + count))
        if ports[-1] > PORT_MAX:
            raise ConfigError("port", str(port), f"{nodes} nodes need ports up to {ports[-1]}")

        def node(role: Role, node_id: int, place: int) -> Node:
            served = f"{HOST}:{ports[nodes + place]}" if metrics else None
            path = directory / f"{role}-{node_id}"
            return Node(role, node_id, HOST, ports[place], path, served)

        return cls(
            tuple(
                node("controller", FIRST_CONTROLLER_ID + index, brokers + index)
                for index in range(controllers)
            ),
            tuple(node("broker", 1 + index, index) for index in range(brokers)),
        )

    @classmethod
    def read(cls, directory: Path) -> Self | None:
        """Read the layout of the cluster in the directory; None if there is none.

        Raise ConfigError if a role has no node there.
        """
        found = [
            [
                _read_node(role, path)
                for path in sorted(directory.glob(f"{role}-*/{PROPERTIES[role]}"))
            ]
            for role in ("controller", "broker")
        ]
        if not any(found):
            return None
        controllers, brokers = (
            tuple(sorted(nodes, key=lambda node: node.node_id)) for nodes in found
        )
        for nodes, role in ((controllers, "controller"), (brokers, "broker")):
            if not nodes:
                raise ConfigError("data", str(directory), f"holds no {role}'s {PROPERTIES[role]}")
        return cls(controllers, brokers)

    def write(self, broker: Mapping[str, str], controller: Mapping[str, str]) -> None:
        """Write a new cluster's key and properties; the given ones replace each role's defaults."""
        self.nodes[0].directory.mkdir(parents=True, exist_ok=True)
        control_key.make_key(self.nodes[0].key_path)
        for node in self.nodes:
            given = broker if node.role == "broker" else controller
            write_properties(node, {**self._defaults(node), **given})

    def _defaults(self, node: Node) -> dict[str, str]:
        count = len(self.brokers)
        copies, in_sync = str(min(3, count)), str(min(2, count))
        quorum = ",".join(f"{c.node_id}@{c.address}" for c in self.controllers)
        listener = "PLAINTEXT" if node.role == "broker" else "CONTROLLER"
        served = {} if node.metrics is None else {"metrics.listener": node.metrics}
        return {
            "node.id": str(node.node_id),
            "listeners": f"{listener}://{node.address}",
            **served,
            "controller.quorum.voters": quorum,
            "log.dirs": str(node.data_path),
            "control.psk.file": str(node.key_path),
            "default.replication.factor": copies,
            "min.insync.replicas": in_sync,
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": in_sync,
        }


def write_properties(node: Node, properties: Mapping[str, str]) -> None:
    """Write the node's properties file, which appears whole or not at all.

    It may hold passwords, so only its user may read it.
    """
    node.directory.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{key}={value}\n" for key, value in properties.items())
    unfinished = node.properties_path.with_suffix(".new")
    unfinished.unlink(missing_ok=True)
    unfinished.touch(control_key.MODE)
    unfinished.write_text(text)
    unfinished.rename(node.properties_path)


def read_properties(node: Node) -> dict[str, str]:
    """Read the node's properties file."""
    return parse_properties(node.properties_path.read_text())


def moved_data(node: Node, properties: Mapping[str, str]) -> dict[str, str]:
    """Return the new log.dirs if the node's directory was moved or copied, else nothing.

    The old path must not be used any more: it holds another cluster's data, or nothing, which
    would look like a lost disk.
    """
    written = properties.get("log.dirs", "")
    here = str(node.data_path)
    if written.endswith(f"/{node.name}/data") and written != here and node.data_path.is_dir():
        return {"log.dirs": here}
    return {}


def key_settings(node: Node, properties: Mapping[str, str]) -> dict[str, str]:
    """Return control.psk.file for a cluster that was made without one, was moved or was copied.

    Return nothing for any other. The key is made if there is none yet, which is safe because all
    nodes of a local cluster are started together.
    """
    written, here = properties.get("control.psk.file"), str(node.key_path)
    if written is None and "control.security" not in properties:
        control_key.make_key(node.key_path)
        return {"control.psk.file": here}
    is_elsewhere = written is not None and written.endswith(f"/{control_key.NAME}")
    if is_elsewhere and written != here and node.key_path.exists():
        return {"control.psk.file": here}
    return {}


def _read_node(role: Role, path: Path) -> Node:
    properties = parse_properties(path.read_text())
    listeners = properties.get("listeners", "")
    host, _, port = listeners.split(",")[0].rpartition("/")[2].rpartition(":")
    node_id = properties.get("node.id", properties.get("broker.id", ""))
    if not node_id.isdigit():
        raise ConfigError("node.id", node_id, f"no number in {path}")
    if not port.isdigit():
        raise ConfigError("listeners", listeners, f"no port in {path}")
    metrics = properties.get("metrics.listener") or None
    return Node(role, int(node_id), host, int(port), path.parent, metrics)


def free_ports(count: int) -> list[int]:
    """Find ports that are free for TCP and UDP on this machine.

    They are below the range from which the kernel takes ports for outgoing connections, if there is
    room: otherwise a client could hold a broker's port while the broker is restarted. Raise
    ConfigError if there are fewer than `count`.
    """
    range_path = Path("/proc/sys/net/ipv4/ip_local_port_range")
    ceiling = int(range_path.read_text().split()[0]) if range_path.exists() else 32_768
    if ceiling - LOWEST_FREE_PORT < 1000:
        ceiling = 65_536
    found: list[int] = []
    candidates = random.sample(range(LOWEST_FREE_PORT, ceiling), 500)
    with ExitStack() as held:
        for port in candidates:
            if _hold(port, held):
                found.append(port)
                if len(found) == count:
                    return sorted(found)
    raise ConfigError("port", "0", f"no {count} free ports from {LOWEST_FREE_PORT} to {ceiling}")


def _hold(port: int, held: ExitStack) -> bool:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        sock = held.enter_context(socket.socket(socket.AF_INET, kind))
        if kind == socket.SOCK_STREAM:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((HOST, port))
        except OSError:
            return False
    return True
