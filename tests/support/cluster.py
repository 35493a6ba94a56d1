"""A cluster of real processes for tests: started, killed, restarted, and always cleaned up.

    with Cluster(tmp_path, brokers=3) as cluster:
        cluster.start()
        Producer({"bootstrap.servers": cluster.bootstrap})
        cluster.broker(2).kill()
        cluster.broker(2).start()

Daemons end with the test process, even if that is killed, because each has a pipe to it. The tests
never sleep: readiness is a line on --ready-fd, the end is the exit of the process.
"""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from minikafka.deploy.control_key import make_key

T = TypeVar("T")
Role = Literal["broker", "controller"]
CONTROLLER_ID = 100
READY_WITHIN_S = 20.0
STOP_WITHIN_S = 30.0
_FREE_PORTS_FROM = 20_000


class NotReady(AssertionError):
    """A daemon ended or stayed silent instead of becoming ready; its log is in the message."""


@dataclass
class Daemon:
    """One daemon: its properties, process and log. It can be started any number of times."""

    role: Role
    node_id: int
    directory: Path
    settings: dict[str, str]
    host: str = "127.0.0.1"
    port: int = 0
    extra_args: tuple[str, ...] = ()
    prefix: tuple[str, ...] = ()
    """A command that runs the daemon's command, such as nsenter; it must exec."""
    environment: dict[str, str] = field(default_factory=dict)
    """Environment variables in addition to those of this process."""
    process: "subprocess.Popen[bytes] | None" = None
    ready: dict[str, Any] = field(default_factory=dict)
    ready_after_s: float = 0.0
    """Seconds that the last start took until the daemon was ready."""
    _lifeline: int = -1
    _ready_pipe: int = -1
    _launched: float = 0.0

    @property
    def name(self) -> str:
        return f"{self.role}-{self.node_id}"

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def log_path(self) -> Path:
        return self.directory / "log"

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def log(self) -> str:
        """Return everything that the daemon has logged, over all its starts."""
        return self.log_path.read_text() if self.log_path.exists() else ""

    def properties(self) -> dict[str, str]:
        listener = "CONTROLLER" if self.role == "controller" else "PLAINTEXT"
        return {
            "node.id": str(self.node_id),
            "listeners": f"{listener}://{self.address}",
            "log.dirs": str(self.data),
            **self.settings,
        }

    def launch(self, **overrides: str) -> "Daemon":
        """Start the process and return at once; `wait_until_ready` waits for it."""
        assert not self.is_running, f"{self.name} is running"
        self.directory.mkdir(parents=True, exist_ok=True)
        file = self.directory / f"{self.role}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in self.properties().items()))
        ready_read, ready_write = os.pipe()
        lifeline_read, lifeline_write = os.pipe()
        command = [*self.prefix, sys.executable, "-m", f"minikafka.{self.role}", str(file)]
        command += self.extra_args
        command += ["--ready-fd", str(ready_write), "--lifeline-fd", str(lifeline_read)]
        for key, value in overrides.items():
            command += ["--override", f"{key.replace('_', '.')}={value}"]
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(ready_write, lifeline_read),
                start_new_session=True,
                env={**os.environ, **self.environment},
            )
        os.close(ready_write)
        os.close(lifeline_read)
        self._lifeline = lifeline_write
        self._ready_pipe = ready_read
        self._launched = time.monotonic()
        return self

    def wait_until_ready(self, within_s: float = READY_WITHIN_S) -> "Daemon":
        """Wait for the line on --ready-fd; raise NotReady, with the log, if it does not come."""
        line, deadline = b"", time.monotonic() + within_s
        try:
            while not line.endswith(b"\n"):
                left = deadline - time.monotonic()
                readable, _, _ = select.select([self._ready_pipe], [], [], max(0.0, left))
                chunk = os.read(self._ready_pipe, 4096) if readable else b""
                if not chunk:
                    why = "ended" if readable else f"silent for {within_s} s"
                    raise NotReady(f"{self.name} {why}:\n{self.log()[-4000:]}")
                line += chunk
        finally:
            self._close_ready_pipe()
        self.ready_after_s = time.monotonic() - self._launched
        self.ready = json.loads(line)
        (listener, *_) = self.ready["listeners"].values()
        self.port = listener[1]
        return self

    def start(self, **overrides: str) -> "Daemon":
        """Start it and wait until it is ready: a broker is unfenced then."""
        return self.launch(**overrides).wait_until_ready()

    def signal(self, number: int) -> None:
        """Send a signal, such as SIGSTOP, SIGCONT or SIGTERM."""
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        """Send SIGKILL, and wait until the process is gone."""
        self.signal(signal.SIGKILL)
        self.wait()

    def stop(self) -> int:
        """Send SIGTERM, wait for the clean end and return the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def restart(self) -> "Daemon":
        """Stop the daemon cleanly and start it again."""
        assert self.stop() == 0, self.log()[-4000:]
        return self.start()

    def wait(self, within_s: float = STOP_WITHIN_S) -> int:
        """Wait for the end; return the exit code, or minus the signal that killed the process.

        Raise NotReady after `within_s`, and kill the process.
        """
        assert self.process is not None
        try:
            return self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise NotReady(f"{self.name} did not end:\n{self.log()[-4000:]}") from None
        finally:
            if self._lifeline >= 0:
                os.close(self._lifeline)
                self._lifeline = -1

    def destroy(self) -> None:
        """Kill the process if it runs, and free its resources."""
        if self.process is not None and self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        if self.process is not None:
            self.wait()
        self._close_ready_pipe()

    def _close_ready_pipe(self) -> None:
        if self._ready_pipe >= 0:
            os.close(self._ready_pipe)
            self._ready_pipe = -1


class Cluster:
    """Controllers and brokers on this machine, each in a directory of its own."""

    def __init__(
        self,
        directory: Path,
        *,
        brokers: int = 1,
        controllers: int = 1,
        broker_settings: Mapping[str, str] | None = None,
        controller_settings: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.key_path = directory / "control.key"
        """The file of the key that all nodes share."""
        make_key(self.key_path)
        common = {
            "control.psk.file": str(self.key_path),
            "default.replication.factor": str(min(3, brokers)),
            "min.insync.replicas": str(min(2, brokers)),
        }
        ports = free_ports(brokers + controllers)
        voters = [f"{CONTROLLER_ID + n}@127.0.0.1:{ports[n]}" for n in range(controllers)]
        quorum = {"controller.quorum.voters": ",".join(voters)}
        self.controllers = [
            Daemon(
                "controller",
                CONTROLLER_ID + n,
                directory
                / ("controller" if controllers == 1 else f"controller-{CONTROLLER_ID + n}"),
                {**common, **(quorum if controllers > 1 else {}), **(controller_settings or {})},
                port=ports[n],
            )
            for n in range(controllers)
        ]
        self.brokers = [
            Daemon(
                "broker",
                node_id,
                directory / f"broker-{node_id}",
                {**common, **quorum, **(broker_settings or {})},
                port=ports[controllers + node_id - 1],
            )
            for node_id in range(1, brokers + 1)
        ]

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_: object) -> None:
        for daemon in self.daemons:
            daemon.destroy()

    @property
    def controller(self) -> Daemon:
        """The first controller, or the only one."""
        return self.controllers[0]

    @property
    def daemons(self) -> list[Daemon]:
        return [*self.brokers, *self.controllers]

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.address for broker in self.brokers)

    def broker(self, node_id: int) -> Daemon:
        return self.brokers[node_id - 1]

    def start(self) -> "Cluster":
        """Start everything that is not running, all at once, and wait until it is ready."""
        launched = [daemon.launch() for daemon in self.daemons[::-1] if not daemon.is_running]
        for daemon in launched:
            daemon.wait_until_ready()
        return self

    def stop(self) -> None:
        """Stop cleanly, brokers before the controllers."""
        for daemon in self.daemons:
            if daemon.is_running:
                assert daemon.stop() == 0, daemon.log()[-4000:]

    def kill(self) -> None:
        """Kill every process at once."""
        for daemon in self.daemons:
            daemon.signal(signal.SIGKILL)
        for daemon in self.daemons:
            daemon.wait()


@contextlib.contextmanager
def running_cluster(directory: Path, **options: Any) -> Iterator[Cluster]:
    """Start a cluster, yield it once it is ready, and destroy it at the end of the block."""
    with Cluster(directory, **options) as cluster:
        yield cluster.start()


def wait_until(
    probe: Callable[[], T | None], *, within_s: float = 20.0, every_s: float = 0.05
) -> T:
    """Call `probe` until its result is true: for state whose changes send no event.

    Raise AssertionError after `within_s`.
    """
    deadline = time.monotonic() + within_s
    while True:
        found = probe()
        if found:
            return found
        assert time.monotonic() < deadline, f"not within {within_s} s"
        time.sleep(every_s)


def free_ports(count: int) -> list[int]:
    """Return unused ports below the range from which the system picks for clients.

    So a daemon keeps its port over restarts: no process gets it by asking for any port. Raise
    AssertionError if there are not so many.
    """
    found: list[int] = []
    start = _FREE_PORTS_FROM + os.getpid() * 37 % 10_000
    for offset in range(10_000):
        port = _FREE_PORTS_FROM + (start - _FREE_PORTS_FROM + offset) % 10_000
        if port not in _given and _is_free(port):
            _given[port] = None
            found.append(port)
            if len(found) == count:
                return found
    raise AssertionError("no free ports")


_given: dict[int, None] = {}


def _is_free(port: int) -> bool:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(socket.AF_INET, kind) as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                return False
    return True
