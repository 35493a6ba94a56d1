"""The brokers of one host, so that a machine's cores are used: a broker is one loop on one core.

One properties file describes the first broker; each further one differs in its node id, ports and
directories. All have the host as their rack, so that no two copies of a partition are on it.
"""

import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..runtime.config import PORT_MAX
from ..runtime.errors import ConfigError
from .daemons import Daemon, DaemonFailed, Daemons, Exited, NotReadyInTime
from .local_cluster import PROGRAMS

LISTENERS: Final = ("listeners", "advertised.listeners")


@dataclass(frozen=True, slots=True)
class HostBroker:
    """One of the brokers: its settings that differ from the properties file, and its log."""

    node_id: int
    overrides: Mapping[str, str]
    log_path: Path

    @property
    def name(self) -> str:
        """The broker's name in messages, as in `broker-1`."""
        return f"broker-{self.node_id}"

    @property
    def address(self) -> str:
        """The address of the first listener, which clients dial, as HOST:PORT."""
        told = self.overrides.get("advertised.listeners") or self.overrides["listeners"]
        return told.partition(",")[0].partition("://")[2]


def plan(properties: Mapping[str, str], count: int, log_dir: Path) -> list[HostBroker]:
    """Derive the brokers from the properties of the first.

    Raise ConfigError if a key is missing or wrong, or if two brokers would have the same port.
    """
    first = properties.get("node.id", properties.get("broker.id", ""))
    if not (first.isascii() and first.isdigit()):
        raise ConfigError("node.id", first or None, "must be the number of the first broker")
    directories = [each.strip() for each in properties.get("log.dirs", "").split(",")]
    if not all(directories):
        raise ConfigError("log.dirs", None, "must name the directories of the brokers' own ones")
    if "listeners" not in properties:
        raise ConfigError("listeners", None, "must name the first broker's host and port")
    rack = properties.get("broker.rack") or socket.gethostname()
    brokers = []
    for place in range(count):
        node_id = int(first) + place
        moved = {key: _moved(key, properties[key], place) for key in LISTENERS if key in properties}
        if metrics := properties.get("metrics.listener"):
            moved["metrics.listener"] = _moved("metrics.listener", metrics, place)
        overrides = {
            "node.id": str(node_id),
            "broker.rack": rack,
            "log.dirs": ",".join(f"{each}/broker-{node_id}" for each in directories),
            **moved,
        }
        brokers.append(HostBroker(node_id, overrides, log_dir / f"broker-{node_id}.log"))
    _check_ports(brokers)
    return brokers


def usable_cores() -> int:
    """Return how many cores this process may run on."""
    return len(os.sched_getaffinity(0))


def _moved(key: str, text: str, places: int) -> str:
    """Return the listeners with each port raised by `places`; port 0, any free one, stays 0.

    Raise ConfigError if a port is missing or would be too great.
    """
    moved = []
    for listener in text.split(","):
        host, colon, port = listener.strip().rpartition(":")
        if not (colon and port.isascii() and port.isdigit()):
            raise ConfigError(key, listener, "has no port")
        number = int(port) + places if int(port) else 0
        if number > PORT_MAX:
            raise ConfigError(key, listener, f"the last broker's port would be above {PORT_MAX}")
        moved.append(f"{host}:{number}")
    return ",".join(moved)


def _bound(broker: HostBroker) -> Iterator[tuple[str, str]]:
    """Yield each key that binds a port, and the port."""
    for key in ("listeners", "metrics.listener"):
        for listener in broker.overrides.get(key, "").split(","):
            port = listener.rpartition(":")[2]
            if port not in ("", "0"):
                yield key, port


def _check_ports(brokers: Sequence[HostBroker]) -> None:
    taken: dict[str, str] = {}
    for broker in brokers:
        for key, port in _bound(broker):
            if port in taken:
                why = (
                    f"port {port} of {broker.name} is that of {taken[port]}: "
                    f"leave room for {len(brokers)} ports after each"
                )
                raise ConfigError(key, brokers[0].overrides[key], why)
            taken[port] = broker.name


class HostBrokers:
    """The running brokers of this host."""

    def __init__(self, file: Path, overrides: Sequence[str], brokers: Sequence[HostBroker]) -> None:
        """`file` and `overrides` are those of the first broker; nothing is started yet."""
        self.brokers = {broker.name: broker for broker in brokers}
        self._given = [str(file), *(f"--override={each}" for each in overrides)]
        self._daemons: Daemons | None = None
        self._running: dict[str, Daemon] = {}

    def launch(self) -> None:
        """Start all brokers, without waiting until they serve."""
        self._daemons = Daemons(first=PROGRAMS["broker"])
        for broker in self.brokers.values():
            self._start(broker)

    def wait_until_ready(self, timeout_seconds: float) -> None:
        """Wait until every broker serves.

        Raise NotReadyInTime if one is still starting after the timeout, DaemonFailed if one has
        ended.
        """
        deadline = time.monotonic() + timeout_seconds
        for broker in self.brokers.values():
            daemon = self._running[broker.name]
            if daemon.read_ready(max(0.0, deadline - time.monotonic())):
                continue
            if self._owned().wait(daemon, min(1.0, max(0.0, deadline - time.monotonic()))):
                assert daemon.exited is not None
                words = daemon.last_words() or f"its log is {broker.log_path}"
                why = f"{broker.name} {daemon.exited.how}: {words}"
                raise DaemonFailed(why, max(1, daemon.exited.status))
            raise NotReadyInTime(f"{broker.name} is not ready yet; its log is {broker.log_path}")

    @property
    def pids(self) -> dict[str, int]:
        """Name -> process id of every running broker."""
        return {n: daemon.pid for n, daemon in self._running.items() if daemon.exited is None}

    def exits(self, timeout_seconds: float) -> list[Exited]:
        """Wait until a broker ends; return those that ended, or nothing after the timeout."""
        return self._owned().exits(timeout_seconds)

    def last_words(self, node: str) -> str:
        """Return the last line that the broker logged since its latest start."""
        return self._running[node].last_words()

    def restart(self, node: str, *, wait: bool = False) -> int:
        """Start a broker that has ended, and return its process id without waiting until it serves.

        `wait` has no effect; it is here because `foreground.Running` has it. Raise DaemonFailed if
        the brokers were not launched, or were stopped.
        """
        return self._start(self.brokers[node])

    def stop(self, timeout_seconds: float) -> list[str]:
        """Stop all brokers; return the names of those that had to be killed."""
        if self._daemons is None:
            return []
        daemons, self._daemons = self._daemons, None
        try:
            running = [daemon for daemon in self._running.values() if daemon.exited is None]
            return [daemon.name for daemon in daemons.stop(running, timeout_seconds)]
        finally:
            daemons.close()
            self._running.clear()

    def _start(self, broker: HostBroker) -> int:
        broker.log_path.parent.mkdir(parents=True, exist_ok=True)
        own = [f"--override={key}={value}" for key, value in broker.overrides.items()]
        daemon = self._owned().start(
            broker.name, PROGRAMS["broker"], [*self._given, *own], log=broker.log_path
        )
        self._running[broker.name] = daemon
        return daemon.pid

    def _owned(self) -> Daemons:
        if self._daemons is None:
            raise DaemonFailed("these brokers are not running")
        return self._daemons
