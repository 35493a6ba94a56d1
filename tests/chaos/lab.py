"""A cluster in a network of its own: every daemon has a host, and every host a disk.

    with Lab(directory, network, Hardware(disk="small", shim=True)) as lab:
        lab.start()
        lab.leader().kill()

Daemons are those of tests/support, run by nsenter. The admin runs outside of all hosts, at the
bridge: it is never cut off.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from minikafka import Admin, NewTopic, PartitionDescription
from minikafka.deploy.control_key import make_key

from ..support.cluster import Daemon, wait_until
from .client import MAX_MESSAGE_BYTES, PARTITIONS, TOPIC
from .disks import LoopDisk, SmallDisk
from .network import Network
from .shim import Shim, build

BROKERS = (1, 2, 3)
CONTROLLERS = (101, 102, 103)
CLIENTS = "clients"
BROKER_PORT, CONTROLLER_PORT = 9092, 9093


@dataclass(frozen=True)
class Hardware:
    """The disks of a lab's nodes, their shim, and the settings of brokers and topics."""

    disk: Literal["plain", "small", "loop"] = "plain"
    shim: bool = False
    topic_settings: Mapping[str, str] = field(default_factory=dict)
    broker_settings: Mapping[str, str] = field(default_factory=dict)


def connect_hosts(network: Network) -> None:
    """Make the hosts that every lab uses."""
    for number in BROKERS:
        network.add(f"broker-{number}")
    for number in CONTROLLERS:
        network.add(f"controller-{number}")
    network.add(CLIENTS)


class Lab:
    """One cluster from start to end."""

    def __init__(self, directory: Path, network: Network, hardware: Hardware) -> None:
        self.directory = directory
        self.network = network
        self.hardware = hardware
        self.disks: dict[str, SmallDisk | LoopDisk] = {}
        self.shims: dict[str, Shim] = {}
        voters = ",".join(
            f"{n}@{network.address(f'controller-{n}')}:{CONTROLLER_PORT}" for n in CONTROLLERS
        )
        key = directory / "control.key"
        make_key(key)
        common = {
            "control.psk.file": str(key),
            "controller.quorum.voters": voters,
            "default.replication.factor": "3",
            "min.insync.replicas": "2",
        }
        self.controllers = [
            Daemon("controller", number, directory / f"controller-{number}", common)
            for number in CONTROLLERS
        ]
        of_brokers = {**common, **hardware.broker_settings}
        self.brokers = [
            Daemon("broker", number, directory / f"broker-{number}", of_brokers)
            for number in BROKERS
        ]
        for daemon in self.daemons:
            self._place(daemon)

    def __enter__(self) -> "Lab":
        return self

    def __exit__(self, *_: object) -> None:
        for daemon in self.daemons:
            daemon.destroy()
        self.network.heal()
        for disk in self.disks.values():
            disk.close()

    @property
    def daemons(self) -> list[Daemon]:
        return [*self.brokers, *self.controllers]

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.address for broker in self.brokers)

    def start(self) -> None:
        """Start everything that does not run, and wait until it is ready."""
        launched = [daemon.launch() for daemon in self.daemons[::-1] if not daemon.is_running]
        for daemon in launched:
            daemon.wait_until_ready()

    def stop(self) -> None:
        """Stop cleanly, brokers before controllers."""
        for daemon in self.daemons:
            if daemon.is_running:
                assert daemon.stop() == 0, daemon.log()[-4000:]

    def create_topic(self) -> None:
        """Make the topic of the workload."""
        configs = {"max.message.bytes": str(MAX_MESSAGE_BYTES), **self.hardware.topic_settings}
        with Admin(self.bootstrap) as admin:
            admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3, configs=configs)])
        self.wait_for_full_isr()

    def partitions(self) -> tuple[PartitionDescription, ...]:
        """What some broker knows of the topic."""
        with Admin(self.bootstrap) as admin:
            return admin.describe_topics([TOPIC])[TOPIC].partitions

    def leader(self, partition: int = 0) -> Daemon:
        """The broker that leads a partition."""
        return self._broker(self.partitions()[partition].leader_id)

    def follower(self, partition: int = 0) -> Daemon:
        """A broker that leads another partition, or none."""
        leader = self.partitions()[partition].leader_id
        return self._broker(max(number for number in BROKERS if number != leader))

    def active_controller(self) -> Daemon:
        """The controller that decides."""
        with Admin(self.bootstrap) as admin:
            leader = admin.describe_metadata_quorum().leader_id
        return self.controllers[CONTROLLERS.index(leader)]

    def wait_for_full_isr(self, within_s: float = 90.0) -> None:
        """Wait until every replica is in sync and every partition led."""
        with Admin(self.bootstrap) as admin:
            wait_until(
                lambda: all(
                    len(p.isr) == len(p.replicas) and p.leader_id >= 0
                    for p in admin.describe_topics([TOPIC])[TOPIC].partitions
                ),
                within_s=within_s,
            )

    def revive(self, daemon: Daemon) -> None:
        """Start it if it ended."""
        if not daemon.is_running:
            daemon.start()

    def log_bytes(self, broker: Daemon, partition: int) -> bytes:
        """Return all segments of a partition on one broker, concatenated."""
        segments = sorted((broker.data / f"{TOPIC}-{partition}").glob("*.log"))
        return b"".join(segment.read_bytes() for segment in segments)

    def _broker(self, number: int) -> Daemon:
        return self.brokers[BROKERS.index(number)]

    def _place(self, daemon: Daemon) -> None:
        """Put a daemon on its host, with its disk and its shim."""
        daemon.host = self.network.address(daemon.name)
        daemon.port = BROKER_PORT if daemon.role == "broker" else CONTROLLER_PORT
        daemon.prefix = self.network.enter(daemon.name)
        where = daemon.directory / "disk"
        if self.hardware.disk == "loop":
            image = self.directory / f"{daemon.name}.img"
            self.disks[daemon.name] = LoopDisk(where, image)
        elif self.hardware.disk == "small":
            self.disks[daemon.name] = SmallDisk(where)
        if self.hardware.disk != "plain":
            (where / "data").mkdir()
            daemon.data.symlink_to(where / "data")
        if self.hardware.shim:
            page = self.directory / f"{daemon.name}.page"
            self.shims[daemon.name] = Shim(build(self.directory), page)
            daemon.environment = self.shims[daemon.name].environment
