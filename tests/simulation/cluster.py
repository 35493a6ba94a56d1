"""The product's own daemons as processes of a simulated world.

Each runs what its `__main__` runs in production: `prepare` of its properties, then `Plan.start`,
then `Service.stop` on a clean shutdown. This module starts and stops the daemons, and knows nothing
of faults.
"""

import asyncio
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any

from minikafka.broker.__main__ import prepare as prepare_broker
from minikafka.controller.__main__ import prepare as prepare_controller
from minikafka.runtime.daemon import Plan, Stop
from minikafka.runtime.errors import MinikafkaError
from minikafka.storage.files import CLEAN_SHUTDOWN

from .loop import Process
from .network import Host
from .world import SimRuntime, World

CONTROLLER_PORT = 9093
BROKER_PORT = 9092
FIRST_CONTROLLER_ID = 101

KEY_FILE = "/etc/minikafka/control.key"
"""The file of the cluster's key on each machine, where the control plane is sealed."""
FIRST_KEY = 1
"""The number of the cluster's first key."""
SEALED = {"control.security": "psk", "control.psk.file": KEY_FILE}

Properties = Mapping[str, str]


class Daemon:
    """One node: its machine, its properties, and the process that runs at the moment."""

    def __init__(
        self,
        world: World,
        name: str,
        prepare: Callable[[dict[str, str]], Plan],
        properties: dict[str, str],
    ) -> None:
        self.world = world
        self.name = name
        self.host: Host = world.add_host(name)
        self.properties = properties
        self.process: Process | None = None
        self.service: Any = None
        """What `Plan.start` returned; None while starting or stopped."""
        self.may_fail = False
        """True while its disk fails, so that the daemon may end by itself, until it is started
        again."""
        self.stopped_in_order: Process | None = None
        """The last process that completed a clean shutdown."""
        self.on_started: Callable[[Daemon], None] = lambda daemon: None
        self.on_power_lost: Callable[[Daemon], None] = lambda daemon: None
        self._prepare = prepare
        self._stop: Stop | None = None

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.alive

    def start(self) -> None:
        if not self.alive and self.host.up:
            if self._has_marked_its_end():
                self.stopped_in_order = self.process
            self.service = self._stop = None
            self.may_fail = self.host.disk.is_failing
            self.process = self.world.start(self.host, self.name, self._main)
            self.on_started(self)

    async def _main(self, runtime: SimRuntime) -> int:
        process = runtime.process
        plan = self._prepare(dict(self.properties))
        stop = self._stop = Stop()
        service = await plan.start(runtime, stop)
        if process is self.process:
            self.service = service
        self.world.trace.emit(self.name, "ready")
        await stop.requested.wait()
        if (stop.exit_code or not stop.is_clean) and not self.may_fail:
            self.world.violation(f"{self.name} stopped by itself with {stop.exit_code}")
        self.world.trace.emit(self.name, "stopping", stop.exit_code)
        self.service = None
        if stop.is_clean:
            await service.stop()
            self.stopped_in_order = process
        return stop.exit_code

    def _has_marked_its_end(self) -> bool:
        """True if a broker was asked to stop and left its mark in every directory.

        The mark is the last thing that it writes, so that a kill afterwards takes nothing away.
        """
        directories = self.properties.get("log.dirs", "").split(",")
        was_asked = self._stop is not None and self._stop.requested.is_set()
        return was_asked and all(
            self.host.disk.find(f"{each}/{CLEAN_SHUTDOWN}") is not None for each in directories
        )

    def kill(self) -> None:
        if self.process is not None:
            self.world.kill(self.process)
        self.service = None

    def terminate(self) -> None:
        """Ask the daemon to stop, as SIGTERM does."""
        if self.alive and self._stop is not None:
            self._stop.request(0, "SIGTERM")

    def power_off(self) -> None:
        if self.host.up:
            self.world.power_off(self.host)
            self.on_power_lost(self)
        self.service = None

    def power_on(self) -> None:
        if not self.host.up:
            self.world.power_on(self.host)


class Cluster:
    """Some controllers and some brokers, each on a machine of its own.

    Controllers are `controller-1..n` with ids from 101, brokers `broker-1..n` with ids from 1.
    """

    def __init__(
        self,
        world: World,
        brokers: int = 3,
        controllers: int = 1,
        broker: Properties | None = None,
        controller: Properties | None = None,
    ) -> None:
        """`broker` and `controller` are properties in addition to those of every node."""
        self.world = world
        names = [f"controller-{number}" for number in range(1, controllers + 1)]
        quorum = {FIRST_CONTROLLER_ID + place: name for place, name in enumerate(names)}
        self.controllers = {
            node_id: Daemon(
                world,
                name,
                prepare_controller,
                {**controller_properties(node_id, quorum), **(controller or {})},
            )
            for node_id, name in quorum.items()
        }
        self.brokers = {
            broker_id: Daemon(
                world,
                f"broker-{broker_id}",
                prepare_broker,
                {**broker_properties(broker_id, quorum), **(broker or {})},
            )
            for broker_id in range(1, brokers + 1)
        }
        nodes = (*self.controllers.values(), *self.brokers.values())
        self.daemons = {each.name: each for each in nodes}
        self.key_hosts = [each.host for each in nodes]
        """The machines that have the cluster's key, if there is one."""
        if any(each.properties.get("control.psk.file") == KEY_FILE for each in nodes):
            self.give_key(FIRST_KEY)
        self.bootstrap = ",".join(f"{each.name}:{BROKER_PORT}" for each in self.brokers.values())

        world.may_crash = self._may_crash
        world.on_exit = self._on_exit
        self.is_kept_running = False
        """True if a daemon that ends is started again."""

    @property
    def controller(self) -> Daemon:
        """The first controller."""
        return self.controllers[FIRST_CONTROLLER_ID]

    def _daemon_of(self, process: Process) -> Daemon | None:
        return next((each for each in self.daemons.values() if each.process is process), None)

    def _may_crash(self, process: Process, error: BaseException) -> bool:
        """Return whether a process may end with this error, because its disk fails."""
        daemon = self._daemon_of(process)
        return daemon is not None and daemon.may_fail and isinstance(error, MinikafkaError)

    def _on_exit(self, process: Process) -> None:
        daemon = self._daemon_of(process)
        if daemon is not None and self.is_kept_running:
            daemon.start()

    def give_key(self, number: int) -> None:
        """Write the key of this number to every machine."""
        for host in self.key_hosts:
            host.disk.put(KEY_FILE, key_text(number))

    def start(self) -> None:
        for daemon in self.daemons.values():
            daemon.start()

    async def wait_until(
        self, condition: Callable[[], bool], what: str | Callable[[], object], seconds: float
    ) -> None:
        """Poll a condition of the whole world.

        Report a violation if it does not become true in time.
        """
        deadline = self.world.now() + seconds
        while not condition():
            if self.world.now() > deadline:
                told = what if isinstance(what, str) else what()
                self.world.violation(f"not within {seconds} s: {told}")
            await asyncio.sleep(0.05)


def key_text(*numbers: int) -> bytes:
    """Return the text of a key file with these keys."""
    return b"\n".join(b64encode(number.to_bytes(32, "big")) for number in numbers)


def controller_properties(node_id: int, quorum: Mapping[int, str]) -> dict[str, str]:
    """Return the properties of a controller; `quorum` names the machine of each voter."""
    return {
        "node.id": str(node_id),
        "listeners": f"CONTROLLER://0.0.0.0:{CONTROLLER_PORT}",
        "log.dirs": f"/data/{quorum[node_id]}",
        "controller.quorum.voters": voters(quorum),
        "control.security": "none",
        "broker.session.timeout.ms": "2000",
    }


def broker_properties(broker_id: int, quorum: Mapping[int, str]) -> dict[str, str]:
    """Return the properties of a broker."""
    return {
        "node.id": str(broker_id),
        "listeners": f"PLAINTEXT://0.0.0.0:{BROKER_PORT}",
        "advertised.listeners": f"PLAINTEXT://broker-{broker_id}:{BROKER_PORT}",
        "log.dirs": f"/data/broker-{broker_id}",
        "controller.quorum.voters": voters(quorum),
        "controller.quorum.bootstrap.servers": ",".join(
            f"{name}:{CONTROLLER_PORT}" for name in quorum.values()
        ),
        "control.security": "none",
        "broker.heartbeat.interval.ms": "400",
        "broker.session.timeout.ms": "2000",
        "replica.lag.time.max.ms": "1500",
        "replica.socket.timeout.ms": "2000",
        "replica.high.watermark.checkpoint.interval.ms": "1000",
        "request.timeout.ms": "3000",
    }


def voters(quorum: Mapping[int, str]) -> str:
    return ",".join(f"{node_id}@{name}:{CONTROLLER_PORT}" for node_id, name in quorum.items())
