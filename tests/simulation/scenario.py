"""The first scenario: one controller, three brokers, our clients, and whatever goes wrong.

A topic of replication factor 3 and min ISR 2; producers and consumers that never pause; faults for
some seconds; then everything is made whole, must converge, and is read back.
"""

from dataclasses import dataclass, field
from typing import Any

from .cluster import Cluster, Daemon
from .history import check
from .inside import image_of_controller, image_offset_of_broker, watched
from .invariants import Invariants
from .nemesis import Nemesis
from .workload import Workload
from .world import Violation, World

FAULT_SECONDS = 10.0
CONVERGE_SECONDS = 60.0


@dataclass(slots=True)
class Outcome:
    """What one run showed."""

    seed: int
    world: World
    violation: str | None = None
    acknowledged_count: int = 0
    sent_count: int = 0
    checks: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def digest(self) -> str:
        return self.world.trace.digest()


class Scenario:
    """One seed."""

    def __init__(self, seed: int, fault_seconds: float = FAULT_SECONDS) -> None:
        self.world = World(seed)
        self.fault_seconds = fault_seconds
        snapshot_bytes = self.world.rng("properties").choice((20_000_000, 2000))
        self.cluster = Cluster(
            self.world,
            controller={"metadata.log.max.record.bytes.between.snapshots": str(snapshot_bytes)},
        )
        self.invariants = Invariants(self.world, self.cluster)
        for daemon in self.cluster.daemons.values():
            daemon.on_started = self.invariants.watch
            daemon.on_power_lost = self.invariants.lost_power
        rng = self.world.rng("shape")
        self.world.network.latency_min = rng.choice((0.00005, 0.0001, 0.002))
        self.workload = Workload(self.world, self.cluster, rng.choice((1, 3, 6)))
        self.workload.on_acknowledged = self.invariants.on_acknowledged
        self.workload.on_polled = self.invariants.on_polled
        self.producers = rng.choice((1, 2, 3))
        self.weak_producer = rng.random() < 0.5
        self.consumers = rng.choice((0, 1, 1))
        self.nemesis = Nemesis(self.world, self.cluster)
        self.nemesis.may_lose_power = self._may_lose_power
        self.nemesis.has_left_isr = self._is_out_of_every_isr

    def _is_full_isr(self) -> bool:
        image = self.invariants.image
        return image is not None and all(
            len(state.isr) == len(state.replicas) and state.leader >= 0
            for _, state in image.partitions()
        )

    def _is_out_of_every_isr(self, daemon: Daemon) -> bool:
        (broker_id,) = (each for each, other in self.cluster.brokers.items() if other is daemon)
        image = self.invariants.image
        return image is None or not any(
            broker_id in state.isr and (daemon.name, key) in self.invariants.distrusted
            for key, state in image.partitions()
        )

    def _may_lose_power(self, daemon: Daemon) -> bool:
        # Everybody holds everything, and lives: losing one cache loses nothing acknowledged.
        alive = all(each.alive for each in self.cluster.daemons.values())
        return alive and not self.invariants.distrusted and self._is_full_isr()

    def run(self) -> Outcome:
        outcome = Outcome(self.world.seed, self.world)
        try:
            with watched():
                self.world.run(self._story(), limit=self.fault_seconds + 300)
        except Violation as violation:
            outcome.violation = str(violation)
        history = self.workload.history
        outcome.acknowledged_count = history.acknowledged_count
        outcome.sent_count = len(history.sent)
        outcome.checks = self.invariants.checks
        outcome.faults = self.nemesis.counts
        outcome.seconds = self.world.now()
        return outcome

    async def _story(self) -> None:
        cluster, workload = self.cluster, self.workload
        cluster.start()
        await cluster.wait_until(
            lambda: all(each.service is not None for each in cluster.daemons.values()),
            "every daemon is ready",
            30,
        )
        await workload.create_topic()
        for number in range(self.producers):
            workload.start_producer(f"producer-{number}")
        if self.weak_producer:
            workload.start_producer("weak", acks=1)
        for number in range(self.consumers):
            workload.start_consumer(f"consumer-{number}")
        await cluster.wait_until(
            lambda: workload.started_count == len(workload.processes), "clients are connected", 10
        )
        await self.nemesis.run(self.fault_seconds)
        await cluster.wait_until(self._is_whole, "full ISR, one image", CONVERGE_SECONDS)
        workload.stopping = True
        await cluster.wait_until(
            lambda: not any(process.alive for process in workload.processes),
            "clients have finished",
            CONVERGE_SECONDS,
        )
        await cluster.wait_until(self._is_whole, "full ISR, one image", CONVERGE_SECONDS)
        await workload.read_everything()
        for finding in check(workload.history):
            self.world.violation(finding)
            break

    def _is_whole(self) -> bool:
        controller = self.cluster.controller
        brokers = list(self.cluster.brokers.values())
        if not all(each.alive and each.service is not None for each in (controller, *brokers)):
            return False
        if not self._is_full_isr():
            return False
        image = image_of_controller(alive(controller))
        return image is not None and all(
            image_offset_of_broker(alive(each)) == image.offset for each in brokers
        )


def alive(daemon: Daemon) -> Any:
    assert daemon.process is not None
    return daemon.process


def run(seed: int, fault_seconds: float = FAULT_SECONDS) -> Outcome:
    return Scenario(seed, fault_seconds).run()
