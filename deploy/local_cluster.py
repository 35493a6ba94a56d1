"""A cluster of real processes on this machine, for `minikafka up`, tests, the bench and examples.

`LocalCluster` owns the directory and the order of starting and stopping. Its calls block: beside an
event loop, call them from a thread. Even if the process that holds the cluster is killed, the
daemons end and a temporary directory is removed (see daemons.py and nursery.py).

    with LocalCluster(brokers=3) as cluster:
        producer = Producer(bootstrap_servers=cluster.bootstrap)
        cluster.kill(1)
        cluster.restart(1)
"""

import fcntl
import os
import signal
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from ..runtime.errors import ConfigError
from .daemons import Daemon, DaemonFailed, Daemons, Exited, NotReadyInTime, Program
from .layout import Layout, Node, key_settings, moved_data, read_properties, write_properties

PROGRAMS: Mapping[str, Program] = {
    "broker": Program("minikafka.broker.__main__:main", "minikafka-broker"),
    "controller": Program("minikafka.controller.__main__:main", "minikafka-controller"),
}
LOCK_WAIT_SECONDS = 15.0
LOCK_POLL_SECONDS = 0.05
PROBE_SECONDS = 1.0
PROBE_PAUSE_SECONDS = 0.005
STOP_SECONDS = 20.0

Probe = Callable[[str, int, float], frozenset[int]]


class LocalCluster:
    """Brokers and controllers as processes of their own, in one directory."""

    def __init__(
        self,
        directory: str | Path | None = None,
        *,
        brokers: int | None = None,
        controllers: int | None = None,
        port: int = 0,
        metrics: bool = False,
        broker_config: Mapping[str, str] | None = None,
        controller_config: Mapping[str, str] | None = None,
        programs: Mapping[str, Program] = PROGRAMS,
        probe: Probe | None = None,
    ) -> None:
        """Describe the cluster; no file or process is touched before `start` or `launch`.

        Without a directory, a temporary one is used and removed in the end. An existing cluster is
        reopened, and the given configuration is written over its files. Port 0 picks free ports. A
        new cluster has 3 brokers and 1 controller by default, and serves no metrics.
        """
        self.directory = Path(directory).absolute() if directory is not None else None
        self._wanted = {"broker": brokers, "controller": controllers}
        self._port = port
        self._metrics = metrics
        self._config = {"broker": broker_config or {}, "controller": controller_config or {}}
        self._programs = programs
        self._probe = probe
        self._layout: Layout | None = None
        self._daemons: Daemons | None = None
        self._running: dict[str, Daemon] = {}
        self._lock_fd = -1

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, timeout_seconds: float = 30.0) -> Self:
        """Start every daemon and wait until every broker is unfenced.

        If that fails, stop what was started, and raise what `launch` and `wait_until_ready` raise.
        """
        try:
            self.launch()
            self.wait_until_ready(timeout_seconds)
        except BaseException:
            self.stop()
            raise
        return self

    def launch(self) -> None:
        """Start every daemon, without waiting until it serves.

        Raise ConfigError if the cluster runs already, or if its directory cannot be used.
        """
        if self._daemons is not None:
            raise ConfigError("data", str(self.directory), "this cluster is running already")
        temporary = self.directory is None
        if self.directory is None:
            self.directory = Path(tempfile.mkdtemp(prefix="minikafka-"))
        self._lock_fd = _lock(self.directory)
        self._daemons = Daemons(first=self._programs["controller"], inherit=[self._lock_fd])
        if temporary:
            self._daemons.remove_in_the_end(self.directory)
        try:
            self._layout = self._open_layout(self.directory)
        except OSError as failure:
            raise ConfigError("data", str(self.directory), str(failure)) from failure
        self._load_probe()
        for node in self._layout.nodes:
            self._start_node(node)

    def wait_until_ready(self, timeout_seconds: float = 30.0) -> None:
        """Wait until all running daemons accept connections and brokers see each other unfenced.

        Raise NotReadyInTime after the timeout; the call may be repeated. Raise DaemonFailed if a
        daemon ended.
        """
        deadline = time.monotonic() + timeout_seconds
        nodes = [node for node in self.layout.nodes if self.is_running(node.name)]
        for node in nodes:
            self._wait_until_accepting(node, deadline)
        brokers = [node for node in nodes if node.role == "broker"]
        ids = {node.node_id for node in brokers}
        for node in brokers:
            while not ids <= self._ask(node):
                self._raise_if_ended(node)
                if time.monotonic() > deadline:
                    raise NotReadyInTime(f"{node.name} does not see every broker unfenced yet")
                time.sleep(PROBE_PAUSE_SECONDS)

    def stop(self, timeout_seconds: float = STOP_SECONDS) -> list[str]:
        """Stop brokers, then controllers, then clean up; return the names of those killed."""
        killed: list[str] = []
        if self._daemons is not None:
            try:
                for role in ("broker", "controller"):
                    stage = [d for n, d in self._running.items() if n.startswith(role)]
                    running = [daemon for daemon in stage if daemon.exited is None]
                    late = self._daemons.stop(running, timeout_seconds)
                    killed += [daemon.name for daemon in late]
            except BaseException:
                # Interrupted while waiting, for instance by a second Ctrl-C: wait no longer.
                for daemon in self._running.values():
                    daemon.signal(signal.SIGKILL)
                raise
            finally:
                self._daemons.close()
                self._daemons = None
                self._running.clear()
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1
        return killed

    def kill(self, node: str | int, number: int = signal.SIGKILL) -> None:
        """Send a signal to a node, by name or broker id. After SIGKILL, wait for its end."""
        name = self.node(node).name
        daemon = self._running[name]
        daemon.signal(number)
        if number == signal.SIGKILL:
            self._owned().wait(daemon, STOP_SECONDS)

    def stop_node(self, node: str | int, timeout_seconds: float = STOP_SECONDS) -> Exited:
        """Stop one daemon with SIGTERM and wait for its end; send SIGKILL after the timeout."""
        daemon = self._running[self.node(node).name]
        if daemon.exited is None:
            self._owned().stop([daemon], timeout_seconds)
        assert daemon.exited is not None, f"{daemon.name} survived SIGKILL"
        return daemon.exited

    def restart(self, node: str | int, timeout_seconds: float = 30.0, *, wait: bool = True) -> int:
        """Start a daemon that ended; wait until it accepts connections; return its process id.

        Raise ConfigError if it still runs, DaemonFailed if it ends, NotReadyInTime after the
        timeout.
        """
        found = self.node(node)
        if self.is_running(found.name):
            raise ConfigError("node", found.name, "still runs")
        pid = self._start_node(found)
        if wait:
            self._wait_until_accepting(found, time.monotonic() + timeout_seconds)
        return pid

    def exits(self, timeout_seconds: float) -> list[Exited]:
        """Wait until a daemon ends by itself; return those that ended, none after the timeout."""
        return self._owned().exits(timeout_seconds)

    @property
    def layout(self) -> Layout:
        """Every node with its address and files. Raise ConfigError before the first launch."""
        if self._layout is None:
            raise ConfigError("data", str(self.directory), "this cluster was never started")
        return self._layout

    @property
    def bootstrap(self) -> str:
        """HOST:PORT of every broker, comma-separated."""
        return self.layout.bootstrap

    @property
    def pids(self) -> dict[str, int]:
        """Node name -> process id of every running daemon."""
        return {n: daemon.pid for n, daemon in self._running.items() if daemon.exited is None}

    def node(self, which: str | int) -> Node:
        """Find a node by name (`broker-1`) or a broker by its id.

        Raise StopIteration if there is none.
        """
        name = f"broker-{which}" if isinstance(which, int) else which
        return next(node for node in self.layout.nodes if node.name == name)

    def is_running(self, node: str | int) -> bool:
        """True if the daemon was started and its end is not known yet.

        `exits`, a wait or a start makes it known.
        """
        daemon = self._running.get(self.node(node).name)
        return daemon is not None and daemon.exited is None

    def last_words(self, node: str | int) -> str:
        """Return the last line that the daemon logged since its latest start."""
        return self._running[self.node(node).name].last_words()

    def _open_layout(self, directory: Path) -> Layout:
        layout = Layout.read(directory)
        if layout is None:
            brokers, controllers = (
                3 if self._wanted["broker"] is None else self._wanted["broker"],
                1 if self._wanted["controller"] is None else self._wanted["controller"],
            )
            layout = Layout.plan(directory, brokers, controllers, self._port, metrics=self._metrics)
            layout.write(self._config["broker"], self._config["controller"])
            return layout
        for role, nodes in (("broker", layout.brokers), ("controller", layout.controllers)):
            wanted = self._wanted[role]
            if wanted is not None and wanted != len(nodes):
                why = f"{directory} holds a cluster of {len(nodes)}"
                raise ConfigError(f"{role}s", str(wanted), why)
        if self._port not in (0, layout.brokers[0].port):
            why = f"{directory} holds a cluster on port {layout.brokers[0].port}"
            raise ConfigError("port", str(self._port), why)
        for node in layout.nodes:
            found = read_properties(node)
            given = self._config[node.role]
            key = key_settings(node, {**found, **given})
            changed = {**found, **moved_data(node, found), **key, **given}
            if changed != found:
                write_properties(node, changed)
        return layout

    def _start_node(self, node: Node) -> int:
        daemon = self._owned().start(
            node.name,
            self._programs[node.role],
            [str(node.properties_path)],
            log=node.log_path,
            last=node.role == "controller",
        )
        self._running[node.name] = daemon
        return daemon.pid

    def _wait_until_accepting(self, node: Node, deadline: float) -> None:
        daemon = self._running[node.name]
        if daemon.read_ready(max(0.0, deadline - time.monotonic())):
            return
        # The pipe closed without a line: it is ending. Else it is merely slow.
        self._owned().wait(daemon, min(1.0, max(0.0, deadline - time.monotonic())))
        self._raise_if_ended(node)
        raise NotReadyInTime(f"{node.name} is not ready yet; its log is {node.log_path}")

    def _raise_if_ended(self, node: Node) -> None:
        daemon = self._running[node.name]
        self._owned().wait(daemon, 0)
        if daemon.exited is not None:
            words = daemon.last_words() or f"its log is {node.log_path}"
            code = max(1, daemon.exited.status)
            raise DaemonFailed(f"{node.name} {daemon.exited.how}: {words}", code)

    def _ask(self, node: Node) -> frozenset[int]:
        return self._load_probe()(node.host, node.port, PROBE_SECONDS)

    def _load_probe(self) -> Probe:
        """Return the probe. It is imported here, while the fork server imports the daemons."""
        if self._probe is None:
            from .probe import unfenced_brokers

            self._probe = unfenced_brokers
        return self._probe

    def _owned(self) -> Daemons:
        if self._daemons is None:
            raise ConfigError("data", str(self.directory), "this cluster is not running")
        return self._daemons


def _lock(directory: Path) -> int:
    """Lock the directory against other launchers; the fork server inherits the lock.

    Wait for the daemons of a killed launcher, which need a moment to end. Raise ConfigError if
    another launcher holds the lock, or if the directory cannot be used.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        fd = os.open(directory / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as failure:
        raise ConfigError("data", str(directory), failure.strerror or str(failure)) from failure
    deadline = time.monotonic() + LOCK_WAIT_SECONDS
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(fd, 20, 0).decode(errors="replace").strip()
            if _is_alive(holder) or time.monotonic() > deadline:
                os.close(fd)
                why = f"another cluster runs there (launched by process {holder})"
                raise ConfigError("data", str(directory), why) from None
            time.sleep(LOCK_POLL_SECONDS)
        else:
            os.truncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
            return fd


def _is_alive(pid: str) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state not in "ZX"
